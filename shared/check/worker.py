"""The process in which a learner's code runs. It can crash, hang or be killed on its own.

`python -m shared.check.worker job.json events.jsonl` does one job and appends a line for everything
that happens, so that what was found before a crash is not lost. `process.Worker` is the other end.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from shared.course.scripts import script_of
from shared.facts.events import End, Event, encoded
from shared.facts.jobs import Job, Task
from shared.facts.plain import from_plain
from shared.machine import backend


def main() -> None:
    job = from_plain(Job, json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: do not outlive the parent
    where = open(Path(job.folder) / "where.txt", "w", encoding="utf-8")  # noqa: SIM115
    faulthandler.register(signal.SIGUSR1, file=where)  # asked when this process is silent too long
    reports = Path(sys.argv[2])

    def emit(event: Event) -> None:
        with reports.open("a", encoding="utf-8") as file:
            file.write(encoded(event) + "\n")

    if job.device == "cpu" and job.task is not Task.COMPILE:
        backend.use_interpreter()
    from shared.check import tasks  # which import triton, so not before it is told what to use

    tasks.TASKS[job.task](job, script_of(job.lesson, job.script), emit)
    emit(End())
    sys.stdout.flush()
    os._exit(0)  # a thread that a learner's code started does not keep the verdict waiting


if __name__ == "__main__":
    main()
