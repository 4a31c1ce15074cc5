#!/usr/bin/env bash
# Finds a Python that has what the course needs, or makes one in .venv; then `python -m shared "$@"`.
#   PYTHON=/path/to/python ./run.sh ...   uses (or builds on) that Python in place of python3
set -euo pipefail

root="$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"
venv="$root/.venv"
extra=()
[ "${1:-}" = test ] && extra=(pytest)

say() { printf '%s\n' "$*" >&2; }
fits() { "$1" "$root/shared/environment.py" ${extra[@]+"${extra[@]}"} 2>/dev/null; }

start() {
    export COURSE_FROM="$PWD"
    cd -- "$root"
    exec "$1" -m shared "${@:2}"
}

# 1. The Python that was named, or the one at hand.
named="${PYTHON:-}"
if [ -n "$named" ] && ! command -v -- "$named" >/dev/null; then
    say "PYTHON: there is no $named."
    exit 2
fi
python="${named:-python3}"
why="there is no $python here."
if command -v -- "$python" >/dev/null; then
    why="$(fits "$python")" && start "$python" "$@"
fi

# 2. The environment made before, if that was finished for these very requirements.
wanted="$(cksum < "$root/requirements.txt")"
if [ "$(cat "$venv/complete" 2>/dev/null)" = "$wanted" ]; then
    if [ -n "$named" ] && [ "$(cat "$venv/made-by" 2>/dev/null)" != "$(command -v -- "$named")" ]; then
        say "PYTHON: $named cannot be used as it is: $why"
        say "It would need a new .venv, and there is one made by $(cat "$venv/made-by" 2>/dev/null)."
        say "Remove $venv first, or leave PYTHON out."
        exit 2
    fi
    start "$venv/bin/python" "$@"
fi

# 3. A new one. What an interrupted attempt left behind is used again.
base="$named"
for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
    [ -n "$base" ] && break
    if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
        base="$candidate"
    fi
done
if [ -z "$base" ]; then
    say "The course needs Python 3.10, 3.11, 3.12 or 3.13, and found none. Install one, or name it: PYTHON=... ./run.sh"
    exit 2
fi
say "Setting up, once: $python cannot be used as it is: $why"
say "So $venv is made now, with PyTorch, Triton, Matplotlib and pandas from requirements.txt."
say "That is a download of up to 3 GB (PyTorch with its CUDA libraries) and takes up to 7 GB of disk."
say "It may be interrupted: the next ./run.sh goes on from there."
if command -v flock >/dev/null && : 2>/dev/null > "$root/.venv.lock"; then
    exec 9> "$root/.venv.lock"
    flock 9
fi
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    if ! "$base" -m venv --clear "$venv" >&2; then
        say "The environment could not be made. On Debian and Ubuntu:  apt install python3-venv"
        exit 2
    fi
fi
command -v -- "$base" > "$venv/made-by"
if ! "$venv/bin/python" -m pip install --disable-pip-version-check -r "$root/requirements.txt" >&2; then
    say "The packages could not be installed; the lines above say why. No network, or too little disk, are likely."
    say "Then run the same command again: nothing is lost."
    exit 2
fi
if ! why="$(fits "$venv/bin/python")"; then
    say "The new environment does not work: $why"
    exit 2
fi
printf '%s\n' "$wanted" > "$venv/complete"
[ -e "$root/.venv.lock" ] && exec 9>&-
start "$venv/bin/python" "$@"
