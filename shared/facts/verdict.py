"""The verdict on one file: what every stage of the check found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from shared.facts.findings import (
    CaseResult,
    Cause,
    Compiled,
    CompileError,
    MemoryUse,
    Plot,
    Status,
)
from shared.facts.machine import Machine
from shared.facts.rows import Row


class Ruling(Enum):
    """FAULT: this machine or the command line is at fault, and nothing was judged."""

    PASSED = "passed"
    NOT_YET = "not there yet"
    FAULT = "fault"


class Stage(Enum):
    """How far the check came."""

    SOURCE = "source"
    SYNTAX = "syntax"
    TODOS = "todos"
    IMPORT = "import"
    CONTRACT = "contract"
    CORRECTNESS = "correctness"
    CRASH = "crash"
    COMPILE = "compile"
    DONE = "done"


@dataclass(frozen=True)
class OpenTodo:
    """A TODO whose `...` still stands. line: of the `...`. title: what it asks for."""

    number: int
    line: int
    title: str


@dataclass
class Verdict:
    """Filled in stage by stage.

    file:    the path of the file under test.
    message: one sentence if a stage ended the check, with `line` of the file, 0 if none is known.
    open_todos, n_todos: those still open, and how many there are in all.
    machine: what it ran on; None if nothing ran.
    output:  what the file printed.
    seconds: how long all of it took.
    """

    lesson: str
    script: str
    file: str
    status: Ruling = Ruling.NOT_YET
    stage: Stage = Stage.SOURCE
    message: str = ""
    line: int = 0
    open_todos: list[OpenTodo] = field(default_factory=list)
    n_todos: int = 0
    machine: Machine | None = None
    cases: list[CaseResult] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    memory: list[MemoryUse] = field(default_factory=list)
    compiled: list[Compiled] = field(default_factory=list)
    compile_errors: list[CompileError] = field(default_factory=list)
    timings: list[Row] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    output: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.status is Ruling.PASSED

    @property
    def at_fault(self) -> bool:
        """Whether the machine or the command line is, and not the file."""
        return self.status is Ruling.FAULT

    @property
    def failed_cases(self) -> list[CaseResult]:
        return [case for case in self.cases if case.status.failed]

    @property
    def skipped_cases(self) -> list[CaseResult]:
        return [case for case in self.cases if case.status is Status.SKIPPED]

    @property
    def n_passed(self) -> int:
        return len(self.cases) - len(self.failed_cases) - len(self.skipped_cases)

    def stop(self, stage: Stage, message: str, line: int = 0) -> None:
        """End the check at a stage, with the reason."""
        self.stage, self.message, self.line = stage, message, line

    def fault(self, message: str) -> None:
        """End the check without a judgement."""
        self.status, self.message = Ruling.FAULT, message

    def note(self, text: str) -> None:
        """Add a sentence that does not change the verdict; the same one only once."""
        if text not in self.notes:
            self.notes.append(text)
