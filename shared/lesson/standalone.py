"""`python check.py`: the same as ./run.sh with the lesson's name."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def run_by_itself() -> None:
    """Go on as ./run.sh with the arguments at hand. Does not return."""
    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
