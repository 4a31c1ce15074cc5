"""Says whether the Python that runs this has what the course needs. run.sh asks; stdlib only.

`python shared/machine/environment.py [package ...]` exits 0 if it fits. Otherwise it exits 1 and
prints one sentence. Extra packages may be named. Importing torch takes seconds, so a success is
remembered in .course/environment for these very versions.
"""

import os
import subprocess
import sys

NEEDED = {
    "torch": (2, 9),
    "triton": (3, 6),
    "matplotlib": (3, 5),
    "pandas": (2, 0),
    "numpy": (1, 26),
}


# What PyTorch's builds for AMD and Intel call their Triton.
OTHER_NAMES = {"triton": ("pytorch-triton-rocm", "triton-rocm", "pytorch-triton-xpu", "triton-xpu")}


def first_version(metadata, package):
    """The installed version under any of the package's names, "" if there is none."""
    for name in (package, *OTHER_NAMES.get(package, ())):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def problem(extra=()):
    """What is missing, as a sentence; "" if nothing is."""
    if sys.version_info < (3, 10):
        return "Python %d.%d is too old: 3.10 or later is needed." % sys.version_info[:2]
    from importlib import metadata

    versions = []
    for package in [*NEEDED, *extra]:
        version = first_version(metadata, package)
        if not version:
            return f"{package} is not installed in it."
        least = NEEDED.get(package, ())
        numbers = tuple(
            int("".join(c for c in part if c.isdigit()) or 0)
            for part in version.split("+")[0].split(".")
        )
        if numbers[: len(least)] < least:
            return f"{package} is {version}: {'.'.join(map(str, least))} or later is needed."
        versions.append(f"{package} {version}")
    fingerprint = ", ".join([sys.executable, *versions])
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    memory = os.path.join(root, ".course", "environment")
    try:
        with open(memory, encoding="utf-8") as file:
            if fingerprint in file.read().splitlines():
                return ""
    except OSError:
        pass
    names = ", ".join([*NEEDED, *extra])
    run = subprocess.run(
        [sys.executable, "-c", f"import {names}"], cwd="/", capture_output=True, text=True
    )
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        return f"its packages do not import ({last})."
    try:
        os.makedirs(os.path.dirname(memory), exist_ok=True)
        with open(memory, "a", encoding="utf-8") as file:
            file.write(fingerprint + "\n")
    except OSError:
        pass  # a read-only checkout asks again next time
    return ""


if __name__ == "__main__":
    sentence = problem(sys.argv[1:])
    if sentence:
        print(sentence)
    sys.exit(1 if sentence else 0)
