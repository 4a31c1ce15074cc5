"""`./run.sh record`: the solutions measured on this machine's GPU, the pages brought up to date."""

from __future__ import annotations

from shared.check import recording
from shared.commands import report
from shared.commands.exits import FAULT, PASS, BadCommand
from shared.commands.parser import parser
from shared.commands.terminal import progress, shown
from shared.course.scripts import resolve, scripts
from shared.measure import pages

_DESCRIPTION = """Measure the solutions on this machine's GPU and keep tables and plots in
solutions/results/."""


def record(arguments: list[str]) -> int:
    """Measure what was asked for. Returns the exit status."""
    asked = parser("record", description=_DESCRIPTION)
    asked.add_argument("name", nargs="*", help="lessons or scripts; all, if none is named")
    given = asked.parse_args(arguments)
    named = [script for name in given.name for script in resolve(name)]
    status = PASS
    for script in named or scripts():
        if script.to_read:
            continue  # it is measured beside the script that it is another form of
        print(report.heading(script, script.solution, solution=True), flush=True)
        verdict = recording.record(script, progress)
        print(report.timings(verdict))
        if not verdict.passed:
            print(verdict.message)
            status = FAULT
    try:
        for page in pages.refresh_all():
            print(f"{shown(page)}: brought up to date.")
    except ValueError as error:  # what was measured is saved by now
        raise BadCommand(str(error)) from None
    return status
