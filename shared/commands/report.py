"""A verdict as a person reads it in the terminal."""

from __future__ import annotations

from pathlib import Path

from shared.commands.terminal import WIDTH, bad, good, shown, strong, wrap
from shared.course.scripts import Script
from shared.facts.findings import CaseResult, Cause, Kind, MemoryUse, Plot, Status
from shared.facts.rows import Row
from shared.facts.verdict import Stage, Verdict
from shared.lesson.prose import unbroken
from shared.measure import tables

_MOST_CASES = 3
_MOST_OUTPUT_LINES = 20


def heading(script: Script, path: Path, solution: bool) -> str:
    """Which file is being checked."""
    what = f"{script.lesson}  {script.file}"
    if solution:
        what += "  (the finished solution, not your file)"
    elif path != script.path:
        what += f"  ({shown(path)})"
    return strong(what)


def told(verdict: Verdict, script: Script) -> str:
    """The whole verdict on one file."""
    lines = [_summary(verdict), *_message(verdict), *_failures(verdict), *_causes(verdict)]
    lines += [
        wrap(f"{case.function} {case.label} was left out: {case.message}")
        for case in verdict.skipped_cases
    ]
    if verdict.passed:
        lines += _memory(verdict) + _compiled(verdict)
        lines += [timings(verdict)] if verdict.timings else _no_timings(verdict)
    lines += [wrap(note) for note in verdict.notes]
    lines += _output(verdict)
    lines += _whose_kernel(verdict, script)
    lines.append(_ending(verdict, script))
    return "\n".join(line for line in lines if line)


def timings(verdict: Verdict) -> str:
    """The timing tables, one for each function, and the files they were saved in."""
    lines = []
    for function in dict.fromkeys(row.function for row in verdict.timings):
        lines += _table([row for row in verdict.timings if row.function == function])
    return "\n".join([*lines, *_files(verdict.plots)])


def _summary(verdict: Verdict) -> str:
    if not verdict.cases:
        return ""
    failed, passed = len(verdict.failed_cases), verdict.n_passed
    mark = good("✓") if passed or not failed else " "
    counts = f"{mark} {passed} of {len(verdict.cases)} cases"
    counts += f"   {bad('✗')} {failed}" if failed else ""
    machine = verdict.machine.name if verdict.machine else ""
    return counts + " " * max(2, WIDTH - 34 - len(machine)) + machine


def _message(verdict: Verdict) -> list[str]:
    if not verdict.message:
        return []
    lines = [wrap(verdict.message, "  ", "  " if verdict.passed else f"{bad('✗')} ")]
    if verdict.line:
        lines.append(f"  {shown(verdict.file)}:{verdict.line}")
    if verdict.stage is Stage.TODOS:
        todo = verdict.open_todos[0]
        lines.append(wrap(f"TODO {todo.number}, line {todo.line}: {todo.title}", "      ", "    "))
    return lines


def _failures(verdict: Verdict) -> list[str]:
    picked = _worth_telling(verdict.failed_cases)[:_MOST_CASES]
    lines = []
    for case in picked:
        where = " (in the interpreter)" if case.in_interpreter else ""
        lines.append(strong(f"  {case.function}: {case.label}") + where)
        lines.append(wrap(case.message, "    "))
        if case.line and not verdict.causes:
            lines.append(f"    {shown(verdict.file)}:{case.line}")
        if case.why:
            lines.append(wrap(f"This case is there because: {case.why}.", "    "))
    if rest := len(verdict.failed_cases) - len(picked):
        lines.append(f"    and {rest} more case{'s' if rest > 1 else ''}.")
    return lines


def _worth_telling(failed: list[CaseResult]) -> list[CaseResult]:
    """The failed cases less those that say the same as one before."""
    seen: set[str] = set()
    picked = []
    for case in failed:
        if case.status is Status.WRONG or case.message not in seen:
            picked.append(case)
        seen.add(case.message)
    return picked


def _causes(verdict: Verdict) -> list[str]:
    if not verdict.causes:
        wrong = any(case.status is Status.WRONG for case in verdict.failed_cases)
        return [wrap(_NOTHING_FITS)] if wrong else []
    lines = []
    if len(verdict.causes) > 1:
        lines.append(f"  {len(verdict.causes)} causes fit equally well:")
    for cause in verdict.causes:
        lines += _cause(cause, verdict)
    return lines


_NOTHING_FITS = unbroken("""No known mistake gives these numbers. Take the smallest case above and
    follow it by hand; print() inside a kernel works in the interpreter (--device cpu); take it out
    again.""")


def _cause(cause: Cause, verdict: Verdict) -> list[str]:
    mistake = cause.kind is Kind.MISTAKE
    says = cause.says if cause.says.endswith(".") else f"{cause.says}."
    lines = [wrap(f"This is what comes out when {says}" if mistake else says)]
    if cause.look:
        lines.append(wrap(f"Look at: {cause.look}" if mistake else cause.look))
    known = cause.todo and verdict.n_todos  # a foreign file may have no TODOs
    todo = f"TODO {cause.todo}  " if known else ""
    place = f"{shown(verdict.file)}:{cause.line}" if cause.line else ""
    return [*lines, f"  {todo}{place}"] if todo or place else lines


def _memory(verdict: Verdict) -> list[str]:
    if not verdict.memory:
        return []
    lines = ["  Memory, counted in the interpreter"]
    for use in verdict.memory:
        lines += _memory_use(use)
    return lines


def _memory_use(use: MemoryUse) -> list[str]:
    moved = use.moved
    idle = f" ({moved.idle_programs} of them did nothing)" if moved.idle_programs else ""
    launches = f"{moved.launches} launch{'es' if moved.launches != 1 else ''}"
    sectors = 32 * (moved.read_sectors + moved.written_sectors)
    ratio = f"{sectors / max(moved.read + moved.written, 1):.2f}×"
    fetched = f", in sectors {sectors:,} B ({ratio})" if sectors else ""
    reads = f"reads {moved.read:,} B ({_ratio(moved.read, use.least_read)} of the least)"
    writes = f"writes {moved.written:,} B ({_ratio(moved.written, use.least_written)})"
    lines = [
        f"    {use.function}, {use.label}: {moved.programs} programs{idle}, {launches}",
        f"      {reads}, {writes}{fetched}",
    ]
    if use.allocated > use.returned:
        result = f"of which {use.returned:,} B are the result"
        lines.append(f"      allocates {use.allocated:,} B, {result}")
    return lines


def _ratio(value: int, least: int) -> str:
    return f"{value / least:.2f}×" if least else "-"


def _compiled(verdict: Verdict) -> list[str]:
    if not verdict.compiled:
        return []
    lines = ["  Compiled"]
    functions: dict[str, set[str]] = {}
    for row in verdict.compiled:
        functions.setdefault(row.kernel, set()).add(row.function)
    for row in verdict.compiled:
        parts = [f"{row.num_warps} warps"]
        if row.registers is not None:
            parts.append(f"{row.registers} registers")
        if row.spilled:
            parts.append(f"{row.spilled} B spilled to memory")
        if row.shared:
            parts.append(f"{row.shared:,} B shared")
        if row.occupancy is not None:
            parts.append(f"occupancy {row.occupancy:.0%}")
        if row.load_bytes:
            parts.append(f"loads up to {row.load_bytes} B a thread")
        several = len(functions[row.kernel]) > 1
        name = f"{row.kernel}, {row.function}" if several else row.kernel
        told_parts = ", ".join([*parts, *row.instructions])
        lines.append(f"    {name:<30} {row.target:<7} {told_parts}")
    return lines


def _table(rows: list[Row]) -> list[str]:
    names = [*rows[0].baselines, "yours"]
    first = max(len(rows[0].x), 10)
    widths = [max(len(name) + 2, 12) for name in names]
    unit = rows[0].unit
    head = "".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    what = "; GB/s of the least traffic" if unit == "GB/s" else ""
    lines = [
        f"  {rows[0].function}, {rows[0].dtype}: median time in µs{what}",
        f"    {rows[0].x:>{first}}{head}{unit:>12}{'of the ceiling':>16}",
    ]
    for row in rows:
        times = zip([*row.baselines.values(), row.yours], widths, strict=True)
        cells = "".join(f"{time:>{width}.1f}" for time, width in times)
        lines.append(f"    {row.value:>{first},}{cells}{row.speed:>12.0f}{row.of_ceiling:>16.1%}")
    return lines


def _files(plots: list[Plot]) -> list[str]:
    return [f"  {shown(path)}" for plot in plots for path in (plot.csv, plot.png) if path]


def _no_timings(verdict: Verdict) -> list[str]:
    if verdict.machine is None or verdict.machine.device != "cpu":
        return []
    lines = ["  Timings need a GPU: the interpreter's say nothing."]
    for name in dict.fromkeys(use.function for use in verdict.memory):
        for path in tables.recorded(name)[:1]:
            table = tables.read(path)
            best = max(table.rows, key=lambda row: row.speed)
            what = f"Recorded for the solution's {name}, not on this machine ({table.machine}):"
            speed = f"{best.speed:.0f} {best.unit} at {best.value:,} {best.x}"
            ceiling = f"{best.of_ceiling:.0%} of the ceiling"
            lines.append(wrap(f"{what} {speed}, {ceiling}. {shown(path)}", "    ", "  "))
    return lines


def _output(verdict: Verdict) -> list[str]:
    printed = [line for line in verdict.output.splitlines() if line.strip()]
    if not printed:
        return []
    lines = ["  What it printed:"]
    lines += [f"    {line[: WIDTH - 4]}" for line in printed[:_MOST_OUTPUT_LINES]]
    cut = len(printed) - _MOST_OUTPUT_LINES
    return [*lines, f"    [{cut} more lines]"] if cut > 0 else lines


def _whose_kernel(verdict: Verdict, script: Script) -> list[str]:
    """For a script whose own kernels are for one GPU: whether it was one of them that ran."""
    target = script.exercise.target
    if not target or not verdict.cases:
        return []
    here = verdict.machine.target if verdict.machine else ""
    if here == target:
        return [f"  In half precision this was the kernel of {script.file}, else the lesson's."]
    where = f"this GPU is {here}" if here else "this was the interpreter"
    return [f"  It was the lesson's kernel: {script.file} has one for {target} only, and {where}."]


def _ending(verdict: Verdict, script: Script) -> str:
    name = script.command_name
    if verdict.passed:
        return good("Passed.") + f"  ({verdict.seconds:.1f} s)"
    if verdict.at_fault:
        return "This is not about the kernel. Nothing was judged."
    if verdict.file != str(script.path):
        return f"Not right yet.  ({verdict.seconds:.1f} s)"
    again = f"./run.sh {name}"
    hint = f"A hint:  ./run.sh hint {script.name}"
    if verdict.stage is Stage.TODOS:
        return f"Fill it in and run  {again}   {hint}"
    return f"Edit it and run  {again}  again.   {hint}"
