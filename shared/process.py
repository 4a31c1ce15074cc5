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
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_POLL_SECONDS = 0.02
_OUTPUT_LIMIT = 16 * 1024
_MOST_OUTPUT = 64 * 1024 * 1024  # a script that prints more is stopped


_running: set[Worker] = set()


@atexit.register
def stop_all() -> None:
    """Stop every worker that still runs. Happens by itself at the end, Ctrl-C included."""
    for worker in list(_running):
        worker.stop()


@dataclass(frozen=True)
class End:
    """How a worker ended.

    kind:   "done", "timeout", "killed" or "failed".
    text:   one sentence for anything but "done".
    output: what the learner's code printed, the first 16 KiB.
    line:   where it was stuck, 0 if that is not known.
    """

    kind: str
    text: str
    output: str
    line: int = 0


class Worker:
    """A started job. Iterate over `events()`, then ask for `end`.

    job:     plain data for `shared.worker`.
    seconds: the longest silence between two reports before the worker is stopped.
    under:   a command that runs the worker, as a profiler does.
    """

    def __init__(self, job: dict, seconds: float, under: Sequence[str] = ()):
        self.seconds = seconds
        self._path = job["path"]
        self._folder = tempfile.TemporaryDirectory(prefix="course-")
        folder = Path(self._folder.name)
        self._events = folder / "events.jsonl"
        self._output = folder / "output.txt"
        self._events.touch()
        (folder / "job.json").write_text(
            json.dumps({**job, "folder": str(folder)}), encoding="utf-8"
        )
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "0"}
        environment.pop("TRITON_INTERPRET", None)
        if job["kind"] == "check":
            environment["CUDA_LAUNCH_BLOCKING"] = (
                "1"  # an error is raised at the launch that caused it
            )
        with open(self._output, "wb") as output:
            self._process = subprocess.Popen(
                [
                    *under,
                    sys.executable,
                    "-m",
                    "shared.worker",
                    str(folder / "job.json"),
                    str(self._events),
                ],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _running.add(self)
        self.last: dict = {}
        self.end: End | None = None
        self.stuck_at = 0

    def events(self) -> Iterator[dict]:
        """The worker's reports as they come. Sets `end` when there are no more."""
        heard = time.monotonic()
        timed_out = flooded = False
        with open(self._events, encoding="utf-8") as file:
            pending = ""
            while True:
                running = self._process.poll() is None
                chunk = file.read()
                if chunk:
                    heard = time.monotonic()
                pending += chunk
                *lines, pending = pending.split("\n")
                for line in lines:
                    self.last = json.loads(line)
                    yield self.last
                if not running and not chunk:
                    break
                if running and self._output.stat().st_size > _MOST_OUTPUT:
                    flooded = True
                    self.stop()
                if running and time.monotonic() - heard > self.seconds:
                    timed_out = True
                    self.stuck_at = self._ask_where()
                    self.stop()
                if not chunk:
                    time.sleep(_POLL_SECONDS)
        self.stop()  # what the script started ends with it
        self.end = self._ending(timed_out, flooded)
        self._folder.cleanup()

    def _ask_where(self) -> int:
        """The line of the file under test that a silent worker is on, 0 if it does not say."""
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)  # the worker's faulthandler answers
            time.sleep(0.5)
        where = Path(self._folder.name) / "where.txt"
        text = where.read_text(encoding="utf-8", errors="replace") if where.exists() else ""
        path = re.escape(self._path)
        match = re.search(rf'File "{path}", line (\d+)', text)
        return int(match.group(1)) if match else 0

    def stop(self) -> None:
        """Kill the worker and everything it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        _running.discard(self)

    def _ending(self, timed_out: bool, flooded: bool) -> End:
        with open(self._output, "rb") as file:
            if self._process.returncode > 0:  # a failure says why at the end
                file.seek(max(0, self._output.stat().st_size - _OUTPUT_LIMIT))
            output = file.read(_OUTPUT_LIMIT).decode("utf-8", "replace")
        code = self._process.returncode
        if flooded:
            return End("killed", "it printed without end, so it was stopped.", output)
        if timed_out:
            text = (
                f"no answer for {self.seconds:g} seconds, so it was stopped. A loop that never "
                f"ends "
                "does that, and so does waiting for input."
            )
            return End("timeout", text, output, self.stuck_at)
        if self.last.get("event") == "end":
            return End("done", "", output)
        if code == -signal.SIGSEGV:
            return End(
                "killed",
                "the process was killed by a segmentation fault: memory was touched that is not "
                "there. A wild pointer or offset does that.",
                output,
            )
        if code == -signal.SIGKILL:
            return End(
                "killed",
                "the process was killed from outside, most likely because memory ran out.",
                output,
            )
        if code < 0:
            return End("killed", f"the process was killed by {signal.Signals(-code).name}.", output)
        if code == 0:
            return End(
                "killed",
                "the script ended the process before the check was over. exit() or os._exit() "
                "does that.",
                output,
            )
        return End("failed", f"the process ended with status {code}.", output)
