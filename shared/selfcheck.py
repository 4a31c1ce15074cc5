"""The stages of the self-check, in order, and the verdict they add up to.

Runs in the parent process and imports neither torch nor the file under test. What it returns is
plain data: `report` tells it, `cli` may write it as JSON.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shared import backend, course, process, source

OFFLINE_TARGETS = ("sm_80", "sm_90")

PASSED, NOT_YET, FAULT = "passed", "not there yet", "fault"


@dataclass(frozen=True)
class Options:
    """device: "auto", "cpu" or "gpu". seconds: a worker's longest silence, 0 for the default."""

    device: str = "auto"
    bench: bool = True
    seconds: float = 0
    targets: tuple[str, ...] = OFFLINE_TARGETS


class _Listener(threading.Thread):
    """Collects a worker's events, so that several workers can run side by side."""

    def __init__(
        self, job: dict, seconds: float, tell: Callable[[dict], None] = lambda event: None
    ):
        super().__init__(daemon=True)
        self.worker = process.Worker(job, seconds)
        self.tell = tell
        self.events: list[dict] = []
        self.start()

    def run(self) -> None:
        for event in self.worker.events():
            self.events.append(event)
            self.tell(event)

    def result(self) -> tuple[list[dict], process.End]:
        self.join()
        return self.events, self.worker.end


def run(
    script: course.Script,
    path: Path,
    options: Options,
    tell: Callable[[str], None] = lambda text: None,
) -> dict:
    """Check one file against a script's contract.

    path: the file under test. tell: called with a few words when something slow begins.
    Returns the verdict: status ("passed", "not there yet", "fault"), stage, and what each stage
    found.
    """
    started = time.monotonic()
    verdict = {
        "lesson": script.lesson,
        "script": script.file,
        "file": str(path),
        "status": NOT_YET,
        "stage": "source",
        "message": "",
        "line": 0,
        "todos": {"open": [], "total": 0},
        "machine": {},
        "cases": [],
        "causes": [],
        "memory": [],
        "compiled": [],
        "compile_errors": [],
        "timings": [],
        "plots": [],
        "notes": [],
        "output": "",
    }
    if _read_source(path, verdict):
        _run_stages(script, path, options, verdict, tell)
    verdict["seconds"] = round(time.monotonic() - started, 2)
    return verdict


def _read_source(path: Path, verdict: dict) -> bool:
    """Stage 1, as far as the text goes. False if the verdict is in."""
    try:
        text = source.read(path)
    except FileNotFoundError:
        return _fault(verdict, f"{path} does not exist.")
    except (OSError, UnicodeDecodeError) as error:
        return _fault(verdict, f"{path} cannot be read: {error}")
    open_todos = [
        {"number": t.number, "line": t.open_line, "title": t.title} for t in text.open_todos
    ]
    verdict["todos"] = {"open": open_todos, "total": len(text.todos)}
    if text.error:
        verdict.update(
            stage="syntax",
            message=f"Python cannot read the file: {text.error}.",
            line=text.error_line,
        )
        return False
    if open_todos:
        verdict.update(stage="todos", line=open_todos[0]["line"])
        numbers = [str(todo["number"]) for todo in open_todos]
        total = len(text.todos)
        if len(numbers) == total:
            verdict["message"] = (
                f"Not started: all {total} TODOs are still `...`."
                if total > 1
                else "Not started: the TODO is still `...`."
            )
        elif len(numbers) == 1:
            verdict["message"] = f"TODO {numbers[0]} of {total} is still `...`."
        else:
            verdict["message"] = (
                f"TODOs {', '.join(numbers[:-1])} and {numbers[-1]} of {total} are still `...`."
            )
        return False
    return True


def _fault(verdict: dict, message: str) -> bool:
    verdict.update(status=FAULT, message=message)
    return False


def _run_stages(script, path, options, verdict, tell) -> None:
    job = {"lesson": script.lesson, "file": script.file, "path": str(path)}
    gpu = options.device == "gpu" or (options.device == "auto" and backend.gpu_seen_by_driver())
    tell("Checking in the interpreter" + (" and on the GPU" if gpu else "") + ", and compiling")
    interpreter = _Listener({**job, "kind": "check", "device": "cpu"}, options.seconds or 40)
    compiler = _Listener(
        {
            **job,
            "kind": "compile",
            "device": "gpu" if gpu else "cpu",
            "targets": list(options.targets),
        },
        options.seconds or 120,
    )
    on_gpu = (
        _Listener({**job, "kind": "check", "device": "gpu"}, options.seconds or 300)
        if gpu
        else None
    )

    if on_gpu is not None:
        events, end = on_gpu.result()
        if any(e["event"] == "no gpu" for e in events):
            gpu = False
            sentence = (
                "A GPU driver is here, but this PyTorch cannot use it "
                "(torch.cuda.is_available() is False)."
            )
            if options.device == "gpu":
                interpreter.worker.stop()
                compiler.worker.stop()
                _fault(verdict, sentence + " Everything but the timings works with --device cpu.")
                return
            verdict["notes"].append(sentence + " So this is the interpreter.")
        else:
            _take_check(events, end, verdict)
    cpu_events, cpu_end = interpreter.result()
    if not gpu:
        _take_check(cpu_events, cpu_end, verdict)
    else:
        _take_interpreter_beside_gpu(cpu_events, cpu_end, verdict)
    if verdict["status"] == FAULT or verdict["stage"] in ("import", "crash"):
        compiler.worker.stop()
        return
    idle = [row["function"] for row in verdict["memory"] if not row["launches"]]
    if idle and not verdict["message"]:
        verdict["stage"] = "contract"
        verdict["message"] = (
            f"{idle[0]} launched no kernel. PyTorch can do this; the lesson is to write it."
        )
    failed = (
        any(case["status"] not in ("ok", "skipped") for case in verdict["cases"])
        or verdict["message"]
    )
    _take_compilation(*compiler.result(), verdict, failed=bool(failed))
    if failed or verdict["stage"] == "compile":
        _name_todos(verdict)
        return
    verdict.update(status=PASSED, stage="done")
    if gpu and options.bench:
        tell("Right. Timing it (the first run of torch.compile takes a while)")
        _bench(
            {**job, "kind": "bench", "device": "gpu", "results": str(results_folder(script, path))},
            options,
            verdict,
        )


def _name_todos(verdict: dict) -> None:
    """Give a pattern the TODO whose answer is on its line. A mistake knows its own, or has none."""
    text = source.read(Path(verdict["file"]))
    for cause in verdict["causes"]:
        if cause["kind"] == "pattern" and not cause["todo"]:
            cause["todo"] = text.todo_at(cause["line"] or verdict["line"])


def results_folder(script: course.Script, path: Path) -> Path:
    """Where the tables and plots of a checked file go: the lesson's results/, or beside a foreign
    file.
    """
    if path == script.path:
        return script.results
    if path.parent == script.solution.parent:
        return course.STATE / "solutions" / script.lesson
    return path.parent / "results"


def _take_check(events: list[dict], end: process.End, verdict: dict) -> None:
    """Stages 1 to 3 and 5 from a worker that checked."""
    verdict["stage"] = "correctness"
    verdict["output"] = end.output
    current = None
    for event in events:
        kind = event.pop("event")
        if kind == "machine":
            verdict["machine"] = event
        elif kind == "case started":
            current = event
        elif kind == "case":
            verdict["cases"].append(event)
            current = None
        elif kind == "memory":
            verdict["memory"].append(event)
        elif kind == "cause":
            verdict["causes"].append(event)
        elif kind == "import failed":
            verdict.update(
                stage="import",
                message=f"The file cannot be imported: {event['message']}",
                line=event["line"],
            )
        elif kind == "gpu lost":
            verdict["notes"].append(
                "After an access to memory that is not there, the GPU does nothing more for a "
                "process: the other cases were left out."
            )
        elif kind == "gave up":
            enough = "That is enough to go on: the other cases were left out."
            verdict["notes"] += [enough] if enough not in verdict["notes"] else []
        elif kind == "contract" and not verdict["message"]:
            verdict.update(stage="contract", message=event["message"], line=event["line"])
    if end.kind == "done":
        return
    if end.kind == "failed" and current is None and not verdict["cases"]:
        problem = backend.known_problem(end.output)
        _fault(verdict, problem or f"The worker could not start: {_last_line(end.output)}")
        return
    where = f"In the case {current['function']}: {current['label']}, " if current else ""
    if not where and not verdict["cases"]:
        where = "While the file was imported, "
    verdict.update(stage="crash", message=where + end.text, line=end.line)


def _why_it_ended(end: process.End) -> str:
    """A worker's end in words, with what it said last if it failed."""
    return f"{end.text} {_last_line(end.output)}" if end.kind == "failed" else end.text


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "(it printed nothing)"


def _take_interpreter_beside_gpu(events: list[dict], end: process.End, verdict: dict) -> None:
    """Beside a GPU the interpreter adds what only it can see: accesses, races, undefined lanes, and
    causes.

    A kernel that is right on the GPU and that the interpreter cannot run (inline assembly, bfloat16
    arithmetic) is not failed for it.
    """
    seen = ("memory",)
    cases = [e for e in events if e["event"] == "case"]
    causes = [{k: v for k, v in e.items() if k != "event"} for e in events if e["event"] == "cause"]
    undefined = any(c["name"] == "load without other" for c in causes)
    found = [c for c in cases if c["status"] in seen or (undefined and c["status"] == "wrong")]
    wrong_on_gpu = any(c["status"] not in ("ok", "skipped") for c in verdict["cases"])
    if found or (wrong_on_gpu and causes):
        verdict["causes"] = causes or verdict["causes"]
    if found and not wrong_on_gpu:
        verdict["notes"].append(
            "The values are right on the GPU; the interpreter saw what will go wrong elsewhere."
        )
    for case in found:
        verdict["cases"].append(
            {**{k: v for k, v in case.items() if k != "event"}, "where": "interpreter"}
        )
    verdict["memory"] = [
        {k: v for k, v in e.items() if k != "event"} for e in events if e["event"] == "memory"
    ]
    others = [c for c in cases if c["status"] not in ("ok", "skipped") and c not in found]
    if (others or end.kind != "done") and not wrong_on_gpu:
        reason = others[0]["message"] if others else end.text
        verdict["notes"].append(
            f"The interpreter could not follow this kernel ({reason}), so its accesses were not "
            "watched."
        )


def _take_compilation(events: list[dict], end: process.End, verdict: dict, failed: bool) -> None:
    """Stage 4. A kernel that compiles for no target fails; for some targets only, it is a note."""
    own = next((e["own"] for e in events if e["event"] == "targets"), "")
    verdict["compiled"] = [_less(e) for e in events if e["event"] == "compiled"]
    errors = [_less(e) for e in events if e["event"] == "compile error"]
    verdict["compile_errors"] = errors
    verdict["notes"] += [
        f"{e['function']} was not compiled: {e['message']}"
        for e in events
        if e["event"] == "compile skipped"
    ]
    if end.kind != "done":
        verdict["notes"].append(f"The compiler's process did not finish: {_why_it_ended(end)}")
    if failed or not errors:
        return
    compiled = {(c["function"], c["kernel"]) for c in verdict["compiled"]}
    fatal = [
        e for e in errors if (e["function"], e["kernel"]) not in compiled or e["target"] == own
    ]
    if not fatal:
        verdict["notes"] += [
            f"{e['kernel']} does not compile for {e['target']}: {e['message']}" for e in errors
        ]
        return
    first = fatal[0]
    verdict["causes"] = first["causes"]
    _name_todos(verdict)
    verdict.update(
        stage="compile",
        line=first["line"],
        message=f"{first['kernel']} is right in the interpreter, and "
        f"does not compile for a GPU ({first['target']}): {first['message']}",
    )


def _less(event: dict) -> dict:
    return {k: v for k, v in event.items() if k != "event"}


def _bench(job: dict, options: Options, verdict: dict) -> None:
    """Stage 6."""
    events, end = _Listener(job, options.seconds or 600).result()
    verdict["timings"] = [_less(e) for e in events if e["event"] == "timing"]
    verdict["plots"] = [_less(e) for e in events if e["event"] == "plot"]
    if end.kind != "done":
        problem = backend.known_problem(end.output)
        verdict["notes"].append(
            f"The timing stopped early: {problem or end.text} {_last_line(end.output)}"
        )


def picture(script: course.Script, path: Path, folder: Path) -> tuple[bool, str]:
    """Draw the accesses of a script's kernels into `folder`. Returns (all drawn, what to tell)."""
    job = {
        "lesson": script.lesson,
        "file": script.file,
        "path": str(path),
        "kind": "picture",
        "device": "cpu",
        "results": str(folder),
    }
    events, end = _Listener(job, 120).result()
    drawn = [e["png"] for e in events if e["event"] == "plot"]
    failed = ("picture failed", "import failed", "contract")
    problems = [e["message"] for e in events if e["event"] in failed]
    if end.kind != "done":
        problems.append(_why_it_ended(end))
    return not problems, "\n".join(drawn + problems)


def record(script: course.Script, tell: Callable[[str], None]) -> dict:
    """Measure a solution on this machine's GPU, into solutions/results/<GPU>. Returns a verdict
    with timings.
    """
    verdict = {
        "status": NOT_YET,
        "timings": [],
        "plots": [],
        "notes": [],
        "message": "",
        "script": script.file,
    }
    tell("Timing")
    job = {
        "lesson": script.lesson,
        "file": script.file,
        "path": str(script.solution),
        "kind": "bench",
        "device": "gpu",
        "results": str(course.RESULTS),
    }
    events, end = _Listener({**job, "by_gpu": True, "studies": True}, 600).result()
    verdict["timings"] = [_less(e) for e in events if e["event"] == "timing"]
    verdict["plots"] = [_less(e) for e in events if e["event"] in ("plot", "study")]
    verdict["machine"] = next((_less(e) for e in events if e["event"] == "machine"), {})
    if any(e["event"] == "no gpu" for e in events):
        verdict["message"] = "There is no GPU here: timings need one."
    elif end.kind != "done":
        verdict["message"] = f"{end.text} {_last_line(end.output)}"
    elif uncounted := [e["message"] for e in events if e["event"] == "not counted"]:
        verdict["message"] = "\n".join(uncounted)
    else:
        verdict["status"] = PASSED
    return verdict
