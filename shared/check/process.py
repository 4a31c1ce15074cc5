"""Runs a job in a worker process of its own and reads what it reports, whatever becomes of it."""

from __future__ import annotations

import atexit
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from shared.course import layout
from shared.facts.events import End as Finished
from shared.facts.events import Event, decoded
from shared.facts.jobs import Job, Task
from shared.facts.plain import to_plain
from shared.lesson.prose import unbroken

_WORKER = "shared.check.worker"
_POLL_SECONDS = 0.02
_OUTPUT_LIMIT = 16 * 1024
_MOST_OUTPUT = 64 * 1024 * 1024  # a script that prints more is stopped

_running: set[Worker] = set()


@atexit.register
def stop_all() -> None:
    """Stop every worker that still runs. Happens by itself at the end, Ctrl-C included."""
    for worker in list(_running):
        worker.stop()


class Ended(Enum):
    """How a worker came to its end."""

    DONE = "done"
    TIMEOUT = "timeout"
    KILLED = "killed"
    FAILED = "failed"


@dataclass(frozen=True)
class End:
    """How a worker ended.

    text:   one sentence for anything but DONE.
    output: what the learner's code printed, the first 16 KiB; the last, if the process failed.
    line:   where it was stuck, 0 if that is not known.
    """

    kind: Ended
    text: str
    output: str
    line: int = 0

    @property
    def done(self) -> bool:
        return self.kind is Ended.DONE

    @property
    def last_line(self) -> str:
        """The last thing that it printed."""
        lines = [line for line in self.output.strip().splitlines() if line.strip()]
        return lines[-1] if lines else "(it printed nothing)"

    @property
    def why(self) -> str:
        """The end in words, with what was said last if the process failed."""
        return f"{self.text} {self.last_line}" if self.kind is Ended.FAILED else self.text


class Worker:
    """A started job. Iterate over `events()`, then ask for `end`.

    seconds: the longest silence between two reports before the worker is stopped.
    under:   a command that runs the worker, as a profiler does.
    """

    def __init__(self, job: Job, seconds: float, under: Sequence[str] = ()):
        self.seconds = seconds
        self._path = job.path
        self._folder = tempfile.TemporaryDirectory(prefix="course-")
        folder = Path(self._folder.name)
        self._events = folder / "events.jsonl"
        self._output = folder / "output.txt"
        self._events.touch()
        asked = to_plain(replace(job, folder=str(folder)))
        (folder / "job.json").write_text(json.dumps(asked), encoding="utf-8")
        command = [*under, sys.executable, "-m", _WORKER, str(folder / "job.json")]
        with open(self._output, "wb") as output:
            self._process = subprocess.Popen(
                [*command, str(self._events)],
                cwd=layout.ROOT,
                env=_environment(job),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _running.add(self)
        self.end: End | None = None

    def events(self) -> Iterator[Event]:
        """The worker's reports as they come. Sets `end` when there are no more."""
        heard = time.monotonic()
        last: Event | None = None
        stopped: End | None = None
        with open(self._events, encoding="utf-8", errors="replace") as file:
            pending = ""
            while True:
                running = self._process.poll() is None
                chunk = file.read()
                if chunk:
                    heard = time.monotonic()
                pending += chunk
                *lines, pending = pending.split("\n")
                for line in lines:
                    try:
                        last = decoded(line)
                    except ValueError:
                        stopped = stopped or End(Ended.KILLED, _GARBLED, "")
                        break
                    yield last
                if not running and not chunk:
                    break
                if running and self._output.stat().st_size > _MOST_OUTPUT:
                    stopped = End(Ended.KILLED, _FLOODED, "")
                if running and time.monotonic() - heard > self.seconds:
                    text = _SILENT.format(seconds=self.seconds)
                    stopped = End(Ended.TIMEOUT, text, "", self._ask_where())
                if stopped:
                    self.stop()
                    break
                if not chunk:
                    time.sleep(_POLL_SECONDS)
        self.stop()  # what the script started ends with it
        output = self._printed()
        self.end = replace(stopped, output=output) if stopped else self._ending(last, output)
        self._folder.cleanup()

    def _ask_where(self) -> int:
        """The line of the file under test that a silent worker is on, 0 if it does not say."""
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)  # the worker's faulthandler answers
            time.sleep(0.5)
        where = Path(self._folder.name) / "where.txt"
        text = where.read_text(encoding="utf-8", errors="replace") if where.is_file() else ""
        match = re.search(rf'File "{re.escape(self._path)}", line (\d+)', text)
        return int(match.group(1)) if match else 0

    def stop(self) -> None:
        """Kill the worker and everything it started."""
        if self not in _running:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        _running.discard(self)

    def _printed(self) -> str:
        with open(self._output, "rb") as file:
            if self._process.returncode > 0:  # a failure says why at the end
                file.seek(max(0, self._output.stat().st_size - _OUTPUT_LIMIT))
            return file.read(_OUTPUT_LIMIT).decode("utf-8", "replace")

    def _ending(self, last: Event | None, output: str) -> End:
        code = self._process.returncode
        if isinstance(last, Finished):
            return End(Ended.DONE, "", output)
        if code > 0:
            return End(Ended.FAILED, f"the process ended with status {code}.", output)
        known = {-signal.SIGSEGV: _SEGFAULT, -signal.SIGKILL: _OUT_OF_MEMORY, 0: _EXITED}
        if code in known:
            return End(Ended.KILLED, known[code], output)
        return End(Ended.KILLED, f"the process was killed by {signal.Signals(-code).name}.", output)


def _environment(job: Job) -> dict[str, str]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "0"}
    environment.pop("TRITON_INTERPRET", None)
    if job.task is Task.CHECK:
        environment["CUDA_LAUNCH_BLOCKING"] = "1"  # an error is raised at the launch that caused it
    return environment


_GARBLED = "it wrote into the check's own report, so it was stopped."
_FLOODED = "it printed without end, so it was stopped."
_SILENT = unbroken("""no answer for {seconds:g} seconds, so it was stopped. A loop that never ends
    does that, and so does waiting for input.""")
_SEGFAULT = unbroken("""the process was killed by a segmentation fault: memory was touched that is
    not there. A wild pointer or offset does that.""")
_OUT_OF_MEMORY = "the process was killed from outside, most likely because memory ran out."
_EXITED = unbroken("""the script ended the process before the check was over. exit() or os._exit()
    does that.""")
