"""What the check asks of a worker process."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Task(Enum):
    """What a worker does with a file."""

    CHECK = "check"
    COMPILE = "compile"
    BENCH = "bench"
    TRAFFIC = "traffic"
    PICTURE = "picture"


@dataclass(frozen=True)
class Job:
    """One task on one file.

    lesson, script: whose contract it is held to.
    path:    the file under test.
    device:  "cpu" for the interpreter, "gpu" for the one of this machine.
    folder:  for the worker's own files; filled in when it is started.
    targets: of compilation, as "sm_90".
    results: the folder for tables and plots.
    by_gpu:  whether they go in a folder of it that is named like the GPU.
    studies: whether the solution's studies are measured too.
    function, study: whose traffic is counted.
    """

    task: Task
    lesson: str
    script: str
    path: str
    device: str = "cpu"
    folder: str = ""
    targets: tuple[str, ...] = ()
    results: str = ""
    by_gpu: bool = False
    studies: bool = False
    function: str = ""
    study: str = ""
