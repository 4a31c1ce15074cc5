#!/usr/bin/env bash
# Finds a Python that has what the course needs, or makes one in .venv; then `python -m shared "$@"`.
#   PYTHON=/path/to/python ./run.sh ...   uses (or builds on) that Python in place of python3
set -euo pipefail

root="$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"
venv="$root/.venv"
extra=()
[ "${1:-}" = test ] && extra=(pytest)

say() { printf '%s\n' "$*" >&2; }

fits() { # prints why not
    "$1" "$root/shared/machine/environment.py" ${extra[@]+"${extra[@]}"} 2>/dev/null
}

finished() { # the environment made before, if it was finished for these very requirements
    [ "$(cat "$venv/complete" 2>/dev/null)" = "$(cksum < "$root/requirements.txt")" ] &&
        fits "$venv/bin/python" >/dev/null
}

start() {
    export COURSE_FROM="$PWD"
    cd -- "$root"
    exec "$1" -m shared "${@:2}"
}

# 1. The Python that was named, or the one at hand (a lesson's file says which Python runs it).
named="${PYTHON:-}"
if [ -n "$named" ] && ! command -v -- "$named" >/dev/null; then
    say "PYTHON: there is no $named."
    exit 2
fi
python="$(command -v -- "${named:-${COURSE_PYTHON:-python3}}" || true)"
case "$python" in "" | /*) ;; *) python="$PWD/$python" ;; esac
why="there is no python3 here."
if [ -n "$python" ]; then
    if why="$(fits "$python")"; then
        start "$python" "$@"
    fi
fi

# 2. The environment made before.
if finished; then
    maker="$(cat "$venv/made-by" 2>/dev/null || true)"
    if [ -n "$named" ] && [ "$(readlink -f -- "$maker")" != "$(readlink -f -- "$python")" ]; then
        say "PYTHON: $named cannot be used as it is: ${why:-it does not run.}"
        say "It would need a new .venv, and there is one made by $maker."
        say "Remove $venv first, or leave PYTHON out."
        exit 2
    fi
    start "$venv/bin/python" "$@"
fi

# 3. A new one. What an interrupted attempt left behind is used again.
base="${named:+$python}"
for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
    [ -n "$base" ] && break
    if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
        base="$(command -v -- "$candidate")"
    fi
done
if [ -z "$base" ]; then
    say "The course needs Python 3.10, 3.11, 3.12 or 3.13, and found none. Install one, or name it: PYTHON=... ./run.sh"
    exit 2
fi
if [ ! -w "$root" ]; then
    say "The course needs packages that ${python:-python3} does not have (${why:-it does not run.})"
    say "They would go to $venv, and $root is not writable."
    exit 2
fi
say "Setting up, once: ${python:-python3} cannot be used as it is: ${why:-it does not run.}"
say "So $venv is made now, with PyTorch, Triton, Matplotlib and pandas from requirements.txt."
say "That is a download of up to 3 GB (PyTorch with its CUDA libraries) and takes up to 7 GB of disk."
say "It may be interrupted: the next ./run.sh goes on from there."
if command -v flock >/dev/null; then
    exec 9> "$root/.venv.lock"
    flock 9 # another ./run.sh may be at it
fi
if ! finished; then
    if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        if ! "$base" -m venv --clear "$venv" >&2; then
            say "The environment could not be made. On Debian and Ubuntu:  apt install python3-venv"
            exit 2
        fi
    fi
    printf '%s\n' "$base" > "$venv/made-by"
    if ! "$venv/bin/python" -m pip install --disable-pip-version-check -r "$root/requirements.txt" >&2; then
        say "The packages could not be installed; the lines above say why. No network, or too little disk, are likely."
        say "Then run the same command again: nothing is lost."
        exit 2
    fi
    if ! why="$(fits "$venv/bin/python")"; then
        say "The new environment does not work: $why"
        exit 2
    fi
    cksum < "$root/requirements.txt" > "$venv/complete"
fi
if command -v flock >/dev/null; then
    exec 9>&-
fi
start "$venv/bin/python" "$@"
