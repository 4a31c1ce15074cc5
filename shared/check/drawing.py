"""Pictures of a script's accesses, drawn by a worker."""

from __future__ import annotations

from pathlib import Path

from shared.check.listener import Listener, of_kind
from shared.course.scripts import Script
from shared.facts import events
from shared.facts.jobs import Job, Task

_SECONDS = 120


def picture(script: Script, path: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Draw the accesses of a file's kernels into `folder`.

    Returns the paths of the pictures, and a sentence for whatever could not be drawn.
    """
    job = Job(Task.PICTURE, script.lesson, script.file, str(path), results=str(folder))
    reports, end = Listener(job, _SECONDS).result()
    drawn = [report.plot.png for report in of_kind(reports, events.Saved)]
    failures = (events.NotDrawn, events.ImportFailed, events.ContractBroken)
    problems = [report.message for report in reports if isinstance(report, failures)]
    if not end.done:
        problems.append(end.why)
    return drawn, problems
