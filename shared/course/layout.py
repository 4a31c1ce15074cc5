"""Where everything of the course lies."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LESSONS = ROOT / "lessons"
SOLUTIONS = ROOT / "solutions"
RESULTS = SOLUTIONS / "results"
STATE = ROOT / ".course"  # what is remembered on this machine; losing it loses no work
TESTS = ROOT / "shared" / "tests"
