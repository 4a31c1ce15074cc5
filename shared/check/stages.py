"""The stages of the self-check, in order, and the verdict they add up to.

Runs in the parent process and imports neither torch nor the file under test.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from shared.check.listener import Listener, of_kind
from shared.check.process import End, Ended
from shared.course import layout, source
from shared.course.scripts import Script
from shared.diagnosis.messages import known_problem
from shared.facts import events
from shared.facts.events import Event
from shared.facts.findings import CaseResult, Kind, Status
from shared.facts.jobs import Job, Task
from shared.facts.verdict import OpenTodo, Ruling, Stage, Verdict
from shared.lesson.prose import unbroken
from shared.machine import backend

OFFLINE_TARGETS = ("sm_80", "sm_90")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """device: "auto", "cpu" or "gpu". seconds: a worker's longest silence, 0 for the default."""

    device: str = "auto"
    bench: bool = True
    seconds: float = 0
    targets: tuple[str, ...] = OFFLINE_TARGETS


def run(script: Script, path: Path, options: Options, tell: Tell = lambda text: None) -> Verdict:
    """Check one file against a script's contract.

    path: the file under test. tell: called with a few words when something slow begins.
    """
    started = time.monotonic()
    verdict = Verdict(script.lesson, script.file, str(path))
    _read_source(path, verdict)
    if verdict.stage is Stage.SOURCE and not verdict.at_fault:
        _run_stages(script, path, options, verdict, tell)
    verdict.seconds = round(time.monotonic() - started, 2)
    return verdict


def results_folder(script: Script, path: Path) -> Path:
    """Where the tables and plots of a checked file go: the lesson's results/, or beside a foreign
    file.
    """
    if path.parent == script.solution.parent:
        return layout.STATE / "solutions" / script.lesson
    return script.results if path == script.path else path.parent / "results"


def _read_source(path: Path, verdict: Verdict) -> None:
    """Stage 1, as far as the text goes."""
    try:
        text = source.read(path)
    except FileNotFoundError:
        verdict.fault(f"{path} does not exist.")
        return
    except (OSError, UnicodeDecodeError) as error:
        verdict.fault(f"{path} cannot be read: {error}")
        return
    verdict.open_todos = [OpenTodo(g.number, g.open_line, g.title) for g in text.open_gaps]
    verdict.n_todos = len(text.gaps)
    if text.error:
        message = f"Python cannot read the file: {text.error}."
        verdict.stop(Stage.SYNTAX, message, text.error_line)
    elif verdict.open_todos:
        verdict.stop(Stage.TODOS, _what_is_open(verdict), verdict.open_todos[0].line)


def _what_is_open(verdict: Verdict) -> str:
    numbers, total = [str(todo.number) for todo in verdict.open_todos], verdict.n_todos
    if len(numbers) == total == 1:
        return "Not started: the TODO is still `...`."
    if len(numbers) == total:
        return f"Not started: all {total} TODOs are still `...`."
    if len(numbers) == 1:
        return f"TODO {numbers[0]} of {total} is still `...`."
    return f"TODOs {', '.join(numbers[:-1])} and {numbers[-1]} of {total} are still `...`."


def _run_stages(script: Script, path: Path, options: Options, verdict: Verdict, tell: Tell) -> None:
    """Stages 2 to 6. The interpreter, the compiler and the GPU work side by side."""
    job = Job(Task.CHECK, script.lesson, script.file, str(path))
    gpu = options.device == "gpu" or (options.device == "auto" and backend.gpu_seen_by_driver())
    compile_job = replace(
        job, task=Task.COMPILE, device="gpu" if gpu else "cpu", targets=options.targets
    )
    tell("Checking in the interpreter" + (" and on the GPU" if gpu else "") + ", and compiling")
    interpreter = Listener(job, options.seconds or 40)
    compiler = Listener(compile_job, options.seconds or 120)
    try:
        if gpu:
            on_gpu = Listener(replace(job, device="gpu"), options.seconds or 300)
            gpu = _take_gpu(*on_gpu.result(), verdict, needed=options.device == "gpu")
        if verdict.at_fault:
            return
        if gpu:
            _take_interpreter_beside_gpu(*interpreter.result(), verdict)
        else:
            _take_check(*interpreter.result(), verdict)
        if verdict.at_fault or verdict.stage in (Stage.IMPORT, Stage.CRASH):
            return
        _ask_for_kernels(verdict)
        failed = bool(verdict.failed_cases or verdict.message)
        _take_compilation(*compiler.result(), verdict, failed)
    finally:
        interpreter.stop()
        compiler.stop()
    if failed or verdict.stage is Stage.COMPILE:
        _name_todos(verdict)
        return
    verdict.status, verdict.stage = Ruling.PASSED, Stage.DONE
    if gpu and options.bench:
        tell("Right. Timing it (the first run of torch.compile takes a while)")
        folder = results_folder(script, path)
        bench = replace(job, task=Task.BENCH, device="gpu", results=str(folder))
        _take_bench(*Listener(bench, options.seconds or 600).result(), verdict)


def _take_gpu(reports: list[Event], end: End, verdict: Verdict, needed: bool) -> bool:
    """Stages 1 to 3 from the worker on the GPU. False if PyTorch cannot use that; a fault, if it
    was asked for.
    """
    if not of_kind(reports, events.NoGpu):
        _take_check(reports, end, verdict)
        return True
    if needed:
        verdict.fault(f"{_NO_GPU} Everything but the timings works with --device cpu.")
    else:
        verdict.note(f"{_NO_GPU} So this is the interpreter.")
    return False


_NO_GPU = unbroken("""A GPU driver is here, but this PyTorch cannot use it
    (torch.cuda.is_available() is False).""")


def _take_check(reports: list[Event], end: End, verdict: Verdict) -> None:
    """Stages 1 to 3 and 5 from a worker that checked."""
    verdict.stage, verdict.output = Stage.CORRECTNESS, end.output
    current: events.CaseStarted | None = None
    for report in reports:
        match report:
            case events.OnMachine(machine):
                verdict.machine = machine
            case events.CaseStarted():
                current = report
            case events.CaseDone(result):
                verdict.cases.append(result)
                current = None
            case events.MemoryCounted(use):
                verdict.memory.append(use)
            case events.CauseFound(cause):
                verdict.causes.append(cause)
            case events.ImportFailed(message, line):
                verdict.stop(Stage.IMPORT, f"The file cannot be imported: {message}", line)
            case events.ContractBroken(message, line) if not verdict.message:
                verdict.stop(Stage.CONTRACT, message, line)
            case events.GpuLost():
                verdict.note(_GPU_LOST)
            case events.GaveUp():
                verdict.note("That is enough to go on: the other cases were left out.")
    if end.done:
        return
    if end.kind is Ended.FAILED and current is None and not verdict.cases:
        problem = known_problem(end.output)
        verdict.fault(problem or f"The worker could not start: {end.last_line}")
        return
    where = "" if verdict.cases else "While the file was imported, "
    if current:
        where = f"In the case {current.function}: {current.label}, "
    verdict.stop(Stage.CRASH, where + end.text, end.line)


_GPU_LOST = unbroken("""After an access to memory that is not there, the GPU does nothing more for a
    process: the other cases were left out.""")


def _take_interpreter_beside_gpu(reports: list[Event], end: End, verdict: Verdict) -> None:
    """Beside a GPU the interpreter adds what only it can see: accesses, races, undefined lanes, and
    causes.

    A kernel that is right on the GPU and that the interpreter cannot run (inline assembly, bfloat16
    arithmetic) is not failed for it.
    """
    cases = [report.case for report in of_kind(reports, events.CaseDone)]
    causes = [report.cause for report in of_kind(reports, events.CauseFound)]
    hidden = any(cause.hidden_on_gpu for cause in causes)

    def only_seen_there(case: CaseResult) -> bool:
        return case.status is Status.MEMORY or (hidden and case.status is Status.WRONG)

    found = [case for case in cases if only_seen_there(case)]
    wrong_on_gpu = bool(verdict.failed_cases)
    if found or (wrong_on_gpu and causes):
        verdict.causes = causes or verdict.causes
    if found and not wrong_on_gpu:
        verdict.note(
            "The values are right on the GPU; the interpreter saw what will go wrong elsewhere."
        )
    verdict.cases += [replace(case, in_interpreter=True) for case in found]
    verdict.memory = [report.use for report in of_kind(reports, events.MemoryCounted)]
    others = [case for case in cases if case.status.failed and case not in found]
    if (others or not end.done) and not wrong_on_gpu:
        reason = others[0].message if others else end.text
        verdict.note(
            unbroken(f"""The interpreter could not follow this kernel ({reason}), so its accesses
                were not watched.""")
        )


def _ask_for_kernels(verdict: Verdict) -> None:
    """A function that launches nothing is not what the lesson asks for."""
    idle = [use.function for use in verdict.memory if not use.moved.launches]
    if idle and not verdict.message:
        message = f"{idle[0]} launched no kernel. PyTorch can do this; the lesson is to write it."
        verdict.stop(Stage.CONTRACT, message)


def _take_compilation(reports: list[Event], end: End, verdict: Verdict, failed: bool) -> None:
    """Stage 4. A kernel that compiles for no target fails; for some targets only, it is a note."""
    own = next((report.own for report in of_kind(reports, events.Targets)), "")
    verdict.compiled = [report.compiled for report in of_kind(reports, events.KernelCompiled)]
    errors = [report.error for report in of_kind(reports, events.KernelRefused)]
    verdict.compile_errors = errors
    for report in of_kind(reports, events.NotCompiled):
        verdict.note(f"{report.function} was not compiled: {report.message}")
    if not end.done:
        verdict.note(f"The compiler's process did not finish: {end.why}")
    if failed or not errors:
        return
    compiled = {(c.function, c.kernel) for c in verdict.compiled}
    fatal = [e for e in errors if (e.function, e.kernel) not in compiled or e.target == own]
    if not fatal:
        for error in errors:
            verdict.note(f"{error.kernel} does not compile for {error.target}: {error.message}")
        return
    first = fatal[0]
    verdict.causes = list(first.causes)
    message = unbroken(f"""{first.kernel} is right in the interpreter, and does not compile for a
        GPU ({first.target}): {first.message}""")
    verdict.stop(Stage.COMPILE, message, first.line)


def _name_todos(verdict: Verdict) -> None:
    """Give a pattern the TODO whose answer is on its line. A mistake knows its own, or has none."""
    text = source.read(Path(verdict.file))
    verdict.causes = [
        replace(cause, todo=text.todo_at(cause.line or verdict.line))
        if cause.kind is Kind.PATTERN and not cause.todo
        else cause
        for cause in verdict.causes
    ]


def _take_bench(reports: list[Event], end: End, verdict: Verdict) -> None:
    """Stage 6."""
    verdict.timings = [report.row for report in of_kind(reports, events.Timed)]
    verdict.plots = [report.plot for report in of_kind(reports, events.Saved)]
    if not end.done:
        problem = known_problem(end.output) or end.text
        verdict.note(f"The timing stopped early: {problem} {end.last_line}")
