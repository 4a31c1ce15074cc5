"""What a worker does with a file: check, compile, time, count traffic, draw. In the worker only."""

from __future__ import annotations

import inspect
import io
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import torch

from shared.course import source
from shared.course.scripts import Script
from shared.diagnosis.matching import Trial
from shared.diagnosis.messages import explain_error
from shared.diagnosis.run import Run, observer
from shared.execution import autotuner, correctness, interpreter, offline
from shared.execution.inputs import make_inputs
from shared.execution.memory import Recorder
from shared.facts import events
from shared.facts.events import Event
from shared.facts.findings import MemoryUse, Plot, Status
from shared.facts.jobs import Job, Task
from shared.lesson.exercise import Case, Exercise, Function
from shared.machine import backend

Emit = Callable[[Event], None]


def check(job: Job, script: Script, emit: Emit) -> None:
    """Correctness, memory (in the interpreter) and diagnosis."""
    torch.set_num_threads(1)
    if job.device == "gpu":
        device = backend.gpu_device()
        if not device:
            emit(events.NoGpu())
            return
    else:
        device = "cpu"
        interpreter.repair()
    emit(events.OnMachine(backend.describe(device)))
    module = _import_script(job, emit)
    if module is None:
        return
    solution = script.solution.read_text(encoding="utf-8")
    trial = Trial(script.exercise, solution, job.path, job.folder)
    sys.stdout = printed = _Labelled(sys.stdout)
    for function, call in _functions(job, script.exercise, module, emit):
        for seed, case in enumerate(function.cases):
            if case.gpu_only and device == "cpu":
                continue
            if trial.hopeless:
                emit(events.GaveUp())
                break
            emit(events.CaseStarted(function.name, case.label))
            printed.label = f"{function.name}: {case.label}"
            recorder = observer(device, job.path)
            outcome = correctness.run_case(function, call, case, device, seed, job.path, recorder)
            emit(events.CaseDone(outcome.result(function, case)))
            if outcome.status is Status.RAISED and not backend.gpu_answers(device):
                emit(events.GpuLost())
                return
            programs = recorder.totals.programs if recorder else 0
            trial.add(Run(function, call, case, seed, outcome, programs, device, job.path))
        if device == "cpu":
            _count_memory(function, call, job, emit)
    sys.stdout = io.StringIO()  # what edited solutions and repeated runs print is not shown
    try:
        for cause in trial.causes(lambda: emit(events.Busy("thinking"))):
            emit(events.CauseFound(cause))
    except RuntimeError:
        if backend.gpu_answers(device):
            raise
        emit(events.GpuLost())  # an edited solution did it; the interpreter's causes are to come


def compile_kernels(job: Job, script: Script, emit: Emit) -> None:
    """Compilation for the job's targets and, where there is one, for the GPU of this machine."""
    targets = list(job.targets)
    device = backend.gpu_device() if job.device == "gpu" else ""
    own = backend.gpu_target(device) if device else ""
    if own and own not in targets:
        targets.append(own)
    emit(events.Targets(tuple(targets), own))
    autotuner.use_first_configuration()
    torch.set_num_threads(1)
    module = _import_script(job, emit)
    if module is None:
        return
    for function in script.exercise.functions:
        call = getattr(module, function.name, None)
        if not callable(call):
            continue
        inputs = list(_inputs(function, Case(function.typical, "float16", values="zeros")).values())
        emit(events.Busy(f"compiling {function.name}"))
        try:
            result = offline.compile_call(function.name, call, inputs, targets, job.path)
        except Exception as error:
            emit(events.NotCompiled(function.name, correctness.first_line(error)))
            continue
        for compiled in result.compiled:
            emit(events.KernelCompiled(compiled))
        for error in result.errors:
            causes = tuple(explain_error(error.message))
            emit(events.KernelRefused(replace(error, causes=causes)))


def bench(job: Job, script: Script, emit: Emit) -> None:
    """Timings on this machine's GPU, saved as CSV and PNG; the solution's studies too, if asked."""
    from shared.measure import plots, studies, tables, timing

    device = backend.gpu_device()
    if not device:
        emit(events.NoGpu())
        return
    machine = backend.describe(device)
    emit(events.OnMachine(machine))
    module = _import_script(job, emit)
    if module is None:
        return
    folder = tables.folder_for(Path(job.results), machine if job.by_gpu else None)
    for function in script.exercise.functions:
        if function.benchmark is None:
            continue
        call = getattr(module, function.name)
        rows = timing.sweep(function, call, device, lambda row: emit(events.Timed(row)))
        csv, png = folder / f"{function.name}.csv", folder / f"{function.name}.png"
        tables.save(rows, csv, machine)
        plots.speed(rows, function.benchmark.passes, machine.summary, png)
        emit(events.Saved(Plot(str(csv), str(png))))
    for function in script.exercise.functions if job.studies else ():
        for study in function.studies:
            emit(events.Busy(f"study {study.name}"))
            rows = studies.compare(function, study, device)
            emit(events.StudyTimed(function.name, study.name, tuple(rows)))


def count_traffic(job: Job, script: Script, emit: Emit) -> None:
    """The candidates of one study, once each. This process runs under a profiler."""
    from shared.measure import studies

    function = next(f for f in script.exercise.functions if f.name == job.function)
    study = next(s for s in function.studies if s.name == job.study)
    studies.call_each(study, function, backend.gpu_device())


def picture(job: Job, script: Script, emit: Emit) -> None:
    """Draw which program touches which elements, from the accesses of the real kernel."""
    from shared.measure import plots

    interpreter.repair()
    module = _import_script(job, emit)
    if module is None:
        return
    for function, call in _functions(job, script.exercise, module, emit):
        inputs = _inputs(function, Case(function.picture))
        recorder = Recorder(job.path, keep_accesses=True)
        try:
            correctness.call_observed(call, list(inputs.values()), recorder)
        except Exception as error:
            emit(events.NotDrawn(function.name, f"{type(error).__name__}: {error}"))
            continue
        png = Path(job.results) / f"{function.name}_accesses.png"
        png.parent.mkdir(parents=True, exist_ok=True)
        plots.accesses(recorder, function.name, png)
        emit(events.Saved(Plot(png=str(png))))


TASKS = {
    Task.CHECK: check,
    Task.COMPILE: compile_kernels,
    Task.BENCH: bench,
    Task.TRAFFIC: count_traffic,
    Task.PICTURE: picture,
}


def _import_script(job: Job, emit: Emit) -> ModuleType | None:
    emit(events.Busy("importing"))
    folder = str(Path(job.path).parent)
    if folder not in sys.path:
        sys.path.append(folder)  # so that it can import what lies beside it
    try:
        return source.load_module(Path(job.path), "script_under_test")
    except (Exception, SystemExit) as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == job.path]
        line = frames[-1].lineno if frames else 0
        emit(events.ImportFailed(f"{type(error).__name__}: {error}", line or 0))
        return None


def _functions(
    job: Job, exercise: Exercise, module: ModuleType, emit: Emit
) -> list[tuple[Function, Callable]]:
    """The exercise's functions with the file's own. Reports what is missing or cannot be called as
    the lesson calls it.
    """
    found = []
    for function in exercise.functions:
        call = getattr(module, function.name, None)
        if not callable(call):
            names = source.functions_defined(Path(job.path).read_text(encoding="utf-8"))
            there = ", ".join(names) or "none"
            message = f"There is no function {function.name}. Functions in the file: {there}."
            emit(events.ContractBroken(message, 0))
            continue
        names = list(function.arguments(function.memory))
        try:
            inspect.signature(call).bind(*names)
        except TypeError as error:
            wanted = f"{function.name}({', '.join(names)})"
            yours = f"{function.name}{inspect.signature(call)}"
            message = f"{function.name} is called as {wanted}; yours is {yours}: {error}."
            line = getattr(getattr(call, "__code__", None), "co_firstlineno", 0)
            emit(events.ContractBroken(message, line))
            continue
        except ValueError:
            pass  # a callable without a signature is called as it is
        found.append((function, call))
    return found


class _Labelled(io.TextIOBase):
    """Standard output that says once, before the first words of a case, which case is speaking."""

    def __init__(self, stream):
        self.stream = stream
        self.label = ""

    def write(self, text: str) -> int:
        if self.label and text.strip():
            self.stream.write(f"[{self.label}]\n")
            self.label = ""
        return self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()


@contextmanager
def _muted() -> Iterator[None]:
    """What is printed inside is not shown."""
    sys.stdout, stdout = io.StringIO(), sys.stdout
    try:
        yield
    finally:
        sys.stdout = stdout


def _inputs(function: Function, case: Case) -> dict[str, torch.Tensor]:
    """A case's tensors on the CPU."""
    return {name: g.view for name, g in make_inputs(function, case, "cpu", 0).items()}


def _count_memory(function: Function, call: Callable, job: Job, emit: Emit) -> None:
    case = Case(function.memory)
    inputs = list(_inputs(function, case).values())
    recorder = Recorder(job.path, count_sectors=True)
    emit(events.Busy(f"counting what {function.name} moves"))
    try:
        with _muted():  # a kernel's print() has been shown by then
            result, made = correctness.call_observed(call, inputs, recorder)
    except Exception:  # the cases have said what is wrong; there is just no table then
        return
    least = function.traffic(*inputs)
    use = MemoryUse(
        function=function.name,
        label=case.label,
        moved=recorder.totals,
        least_read=least.reads,
        least_written=least.writes,
        allocated=sum(guarded.view.nbytes for guarded in made),
        returned=sum(getattr(t, "nbytes", 0) for t in correctness.as_tuple(result)),
    )
    emit(events.MemoryCounted(use))
