"""Several workers at once: one thread for each collects what its worker reports."""

from __future__ import annotations

import threading
from typing import TypeVar

from shared.check.process import End, Worker
from shared.facts.events import Event
from shared.facts.jobs import Job

E = TypeVar("E")


class Listener(threading.Thread):
    """Starts a job and collects its events. `seconds`, `under`: see `Worker`."""

    def __init__(self, job: Job, seconds: float, under: tuple[str, ...] = ()):
        super().__init__(daemon=True)
        self.worker = Worker(job, seconds, under)
        self._events: list[Event] = []
        self.start()

    def run(self) -> None:
        for event in self.worker.events():
            self._events.append(event)

    def result(self) -> tuple[list[Event], End]:
        """Everything that was reported, and how it ended. Waits for the end."""
        self.join()
        return self._events, self.worker.end

    def stop(self) -> None:
        """End the job early."""
        self.worker.stop()


def of_kind(events: list[Event], kind: type[E]) -> list[E]:
    """The events of one kind, in order."""
    return [event for event in events if isinstance(event, kind)]
