"""The process in which a learner's code runs. It can crash, hang or be killed on its own.

`python -m shared.worker job.json events.jsonl` does one job and appends a JSON line for everything
that happens, so that what was found before a crash is not lost. `process.Worker` is the other end.
"""

from __future__ import annotations

import ctypes
import faulthandler
import inspect
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from shared import backend, course
from shared.source import load_module

Emit = Callable[..., None]


def main() -> int:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: do not outlive the parent
    where = open(Path(job["folder"]) / "where.txt", "w", encoding="utf-8")  # noqa: SIM115
    faulthandler.register(signal.SIGUSR1, file=where)  # asked when this process is silent too long
    reports = Path(sys.argv[2])

    def emit(event: str, **data) -> None:
        line = json.dumps({"event": event, **data}, allow_nan=False)
        with reports.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    if job["device"] == "cpu" and job["kind"] != "compile":
        backend.use_interpreter()
    script = next(s for s in course.scripts() if (s.lesson, s.file) == (job["lesson"], job["file"]))
    kinds = {
        "check": check,
        "compile": compile_kernels,
        "bench": bench,
        "traffic": count_traffic,
        "picture": picture,
    }
    kinds[job["kind"]](job, script, emit)
    emit("end")
    sys.stdout.flush()
    os._exit(0)  # a thread that a learner's code started does not keep the verdict waiting


def _import_script(job: dict, emit: Emit) -> ModuleType | None:
    emit("importing")
    try:
        return load_module(job["path"], "script_under_test")
    except (Exception, SystemExit) as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == job["path"]]
        emit(
            "import failed",
            message=f"{type(error).__name__}: {error}",
            line=frames[-1].lineno if frames else 0,
        )
        return None


def _functions(job: dict, exercise, module: ModuleType, emit: Emit) -> list:
    """(function, callable) pairs. Reports what is missing or cannot be called as the lesson calls
    it.
    """
    found = []
    for function in exercise.functions:
        call = getattr(module, function.name, None)
        if not callable(call):
            from shared import source

            others = (
                ", ".join(source.functions_defined(Path(job["path"]).read_text(encoding="utf-8")))
                or "none"
            )
            emit(
                "contract",
                message=f"There is no function {function.name}. Functions in the file: {others}.",
                line=0,
            )
            continue
        names = list(function.arguments(function.memory))
        try:
            inspect.signature(call).bind(*names)
        except TypeError as error:
            emit(
                "contract",
                line=getattr(getattr(call, "__code__", None), "co_firstlineno", 0),
                message=f"{function.name} is called as {function.name}({', '.join(names)}); yours "
                f"is "
                f"{function.name}{inspect.signature(call)}: {error}.",
            )
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


def check(job: dict, script: course.Script, emit: Emit) -> None:
    """Correctness, memory (in the interpreter) and diagnosis."""
    import torch

    device = job["device"]
    torch.set_num_threads(1)
    if device == "gpu":
        device = backend.gpu_device()
        if not device:
            emit("no gpu")
            return
    else:
        backend.repair_interpreter()
    from shared import correctness, diagnosis

    emit("machine", **backend.describe(device).as_data())
    exercise = course.load_exercise(script)
    module = _import_script(job, emit)
    if module is None:
        return
    sys.stdout = printed = _Labelled(sys.stdout)
    trial = diagnosis.Trial(
        exercise, script.solution.read_text(encoding="utf-8"), job["path"], device, job["folder"]
    )
    for function, call in _functions(job, exercise, module, emit):
        for number, case in enumerate(function.cases):
            if case.gpu_only and device == "cpu":
                continue
            if trial.hopeless:
                emit("gave up", number=len(trial.failed))
                break
            data = {
                "function": function.name,
                "number": number,
                "label": case.label,
                "why": case.why,
                "shape": list(case.shape),
                "dtype": case.dtype,
                "layout": case.layout,
                "values": case.values,
            }
            emit("case started", **data)
            printed.label = f"{function.name}: {case.label}"
            recorder = trial.recorder()
            outcome = correctness.run_case(
                function, call, case, device, number, job["path"], recorder
            )
            emit("case", **data, **outcome.as_data())
            if outcome.kind == "raised" and not backend.gpu_answers(device):
                emit("gpu lost")
                return
            trial.add(
                function, call, number, case, outcome, recorder.totals.programs if recorder else 0
            )
        if device == "cpu":
            _report_memory(function, call, job, emit)
    sys.stdout = io.StringIO()  # what edited solutions and repeated runs print is not shown
    try:
        for cause in trial.causes(lambda: emit("thinking")):
            emit("cause", **cause.as_data())
    except RuntimeError:
        if backend.gpu_answers(device):
            raise
        emit("gpu lost")  # an edited solution did it; the interpreter's causes are still to come


def _report_memory(function, call, job: dict, emit: Emit) -> None:
    from shared import correctness
    from shared.exercise import Case
    from shared.inputs import make_inputs
    from shared.memory import Recorder

    case = Case(function.memory)
    inputs = [g.view for g in make_inputs(function, case, "cpu", 0).values()]
    recorder = Recorder(job["path"], count_sectors=True)
    sys.stdout, stdout = io.StringIO(), sys.stdout  # a kernel's print() has been shown by then
    emit("memory started", function=function.name)
    try:
        result, made = correctness.call_observed(call, inputs, recorder)
    except Exception:  # the cases have said what is wrong; there is just no table then
        return
    finally:
        sys.stdout = stdout
    least = function.traffic(*inputs)
    emit(
        "memory",
        function=function.name,
        label=case.label,
        least_read=least.reads,
        least_written=least.writes,
        allocated=sum(guarded.view.nbytes for guarded in made),
        returned=sum(getattr(t, "nbytes", 0) for t in correctness.as_tuple(result)),
        **recorder.totals.as_data(),
    )


def compile_kernels(job: dict, script: course.Script, emit: Emit) -> None:
    """Compilation for `job["targets"]` and, where there is one, for the GPU of this machine."""
    import torch

    from shared import diagnosis, offline
    from shared.correctness import first_line, outcome_of_error
    from shared.exercise import Case
    from shared.inputs import make_inputs

    targets = list(job["targets"])
    device = backend.gpu_device() if job["device"] == "gpu" else ""
    own = backend.gpu_target(device) if device else ""
    if own and own not in targets:
        targets.append(own)
    emit("targets", targets=targets, own=own)
    backend.use_first_configuration()
    torch.set_num_threads(1)
    exercise = course.load_exercise(script)
    module = _import_script(job, emit)
    if module is None:
        return
    for function in exercise.functions:
        call = getattr(module, function.name, None)
        if not callable(call):
            continue
        case = Case(function.typical, "float16", values="zeros")
        inputs = [g.view for g in make_inputs(function, case, "cpu", 0).values()]
        emit("compile started", function=function.name)
        try:
            result = offline.compile_call(call, inputs, targets, job["path"])
        except Exception as error:
            outcome = outcome_of_error(error, job["path"])
            emit(
                "compile skipped",
                function=function.name,
                message=first_line(error),
                line=outcome.line,
            )
            continue
        for compiled in result.compiled:
            emit("compiled", function=function.name, label=case.label, **compiled.as_data())
        for error in result.errors:
            emit(
                "compile error",
                function=function.name,
                **error.as_data(),
                causes=[cause.as_data() for cause in diagnosis.explain_error(error.message)],
            )


def bench(job: dict, script: course.Script, emit: Emit) -> None:
    """Timings on this machine's GPU, saved as CSV and PNG in `job["results"]`; with
    `job["studies"]`, the solution's studies too.
    """
    from shared import plots, timing, traffic

    device = backend.gpu_device()
    if not device:
        emit("no gpu")
        return
    machine = backend.describe(device)
    emit("machine", **machine.as_data())
    exercise = course.load_exercise(script)
    module = _import_script(job, emit)
    if module is None:
        return
    results = Path(job["results"])
    if job.get("by_gpu"):
        results /= machine.name.replace(" ", "_")
    results.mkdir(parents=True, exist_ok=True)
    for function in exercise.functions:
        if function.benchmark is None:
            continue
        table = timing.sweep(
            function, getattr(module, function.name), device, lambda **row: emit("timing", **row)
        )
        csv, png = results / f"{function.name}.csv", results / f"{function.name}.png"
        timing.save(table, csv, machine)
        plots.speed(table, function, machine.summary, png)
        emit("plot", function=function.name, csv=str(csv), png=str(png))
    if not job.get("studies"):
        return
    for function in exercise.functions:
        for study in function.studies:
            emit("study started", name=study.name)
            table = timing.compare(function, study, module, device)
            if study.traffic:
                try:
                    moved = traffic.counted(job, function, study)
                except RuntimeError as error:  # the study is left as it was, the others go on
                    emit("not counted", message=str(error))
                    continue
                table = timing.with_traffic(table, moved)
            csv = results / f"{function.name}.{study.name}.csv"
            timing.save(table, csv, machine)
            emit("study", csv=str(csv))


def count_traffic(job: dict, script: course.Script, emit: Emit) -> None:
    """The candidates of one study, once each. This process runs under a profiler."""
    from shared import traffic

    module = _import_script(job, emit)
    exercise = course.load_exercise(script)
    function = next(f for f in exercise.functions if f.name == job["function"])
    study = next(s for s in function.studies if s.name == job["study"])
    traffic.call_each(study, function, module, backend.gpu_device())


def picture(job: dict, script: course.Script, emit: Emit) -> None:
    """Draw which program touches which elements, from the accesses of the real kernel."""
    backend.repair_interpreter()
    from shared import plots
    from shared.correctness import call_observed
    from shared.exercise import Case
    from shared.inputs import make_inputs
    from shared.memory import Recorder

    exercise = course.load_exercise(script)
    module = _import_script(job, emit)
    if module is None:
        return
    for function, call in _functions(job, exercise, module, emit):
        inputs = {
            n: g.view
            for n, g in make_inputs(function, Case(tuple(function.picture)), "cpu", 0).items()
        }
        recorder = Recorder(job["path"], keep_accesses=True)
        try:
            call_observed(call, list(inputs.values()), recorder)
        except Exception as error:
            emit(
                "picture failed", function=function.name, message=f"{type(error).__name__}: {error}"
            )
            continue
        png = Path(job["results"]) / f"{function.name}_accesses.png"
        png.parent.mkdir(parents=True, exist_ok=True)
        plots.accesses(recorder, function.name, png)
        emit("plot", function=function.name, png=str(png))


if __name__ == "__main__":
    main()
