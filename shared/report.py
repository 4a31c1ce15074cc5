"""What a person reads in the terminal. Every other module returns data; this one tells it."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from shared import course, pages, selfcheck

WIDTH = 100
_MOST_CASES = 3
_MOST_OUTPUT_LINES = 20


def _colour(text: str, code: str) -> str:
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain else f"\033[{code}m{text}\033[0m"


def _good(text: str) -> str:
    return _colour(text, "32")


def _bad(text: str) -> str:
    return _colour(text, "31")


def _strong(text: str) -> str:
    return _colour(text, "1")


def _wrap(text: str, indent: str = "  ", first: str | None = None) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def shown(path: str | Path) -> str:
    """A path as short as it can be and still be opened from here."""
    path = Path(path)
    for base in (Path.cwd(), course.ROOT):
        if path.is_relative_to(base):
            return str(path.relative_to(base))
    return str(path)


def progress(text: str) -> None:
    """A line before slow work, on stderr so that it never mixes with the verdict."""
    print(f"  {text} ...", file=sys.stderr, flush=True)


def heading(script: course.Script, path: Path, solution: bool) -> None:
    """Which file is being checked."""
    what = f"{script.lesson}  {script.file}"
    if solution:
        what += "  (the finished solution, not your file)"
    elif path != script.path:
        what += f"  ({shown(path)})"
    print(_strong(what), flush=True)


def optional(script: course.Script) -> str:
    """The line for an optional script that nobody asked for."""
    what = f"{script.lesson}  {script.file} is optional and not started."
    return f"{what} To check it:  ./run.sh {script.name}"


def form(path: Path, target: str, here: str) -> str:
    """Whose kernel it was that was checked. here: the GPU's architecture, "" in the interpreter."""
    if here == target:
        return f"  In half precision this was the kernel of {path.name}, else the lesson's."
    where = f"this GPU is {here}" if here else "this was the interpreter"
    return (
        f"  It was the lesson's kernel: the one of {path.name} is for {target} only, and {where}."
    )


def lessons(states: Sequence[tuple[course.Script, str]]) -> str:
    """The list of lessons with their state, and what to do next."""
    lines, previous = [], ""
    lesson_width = max(len(script.lesson) for script, _ in states) + 2
    file_width = max(len(script.file) for script, _ in states) + 2
    for script, state in states:
        mark = (
            _good("✓")
            if state.startswith("passed")
            else _bad("✗")
            if "fail" in state or "error" in state
            else " "
        )
        name = script.lesson if script.lesson != previous else ""
        extra = "  (optional)" if script.optional else ""
        lines.append(f"{mark} {name:<{lesson_width}}{script.file:<{file_width}}{state}{extra}")
        previous = script.lesson
    counted = [state for script, state in states if not script.optional]
    passed = sum(state.startswith("passed") for state in counted)
    lines += ["", f"{passed} of {len(counted)} passed."]
    following = _next(states)
    if following is None:
        lines.append("That is all of it.")
    else:
        lines.append(
            f"Next: read {shown(following.path.parent / 'README.md')}, fill in the TODOs of "
            f"{shown(following.path)},"
        )
        lines.append(f"then  ./run.sh {following.name if _shared(following) else following.lesson}")
    return "\n".join(lines)


def _shared(script: course.Script) -> bool:
    return sum(s.lesson == script.lesson and not s.optional for s in course.scripts()) > 1


def _next(states) -> course.Script | None:
    return next(
        (s for s, state in states if not state.startswith("passed") and not s.optional), None
    )


def onward(scripts: Sequence[course.Script], states) -> str:
    """After a pass: where the solutions are and what comes next. Staying is fine too."""
    lines = [f"To compare: {shown(script.solution)}" for script in scripts]
    following = _next(states)
    if following is None:
        lines.append("That was the last one. You have written every kernel of the course.")
    elif following.lesson == scripts[-1].lesson:
        lines.append(f"Next: {shown(following.path)}")
    else:
        lines.append(f"Next: {shown(following.path.parent / 'README.md')}")
    return "\n".join(lines)


def verdict(data: dict, script: course.Script) -> str:
    """The whole verdict on one file."""
    lines: list[str] = []
    machine = data["machine"].get("name", "")
    cases = data["cases"]
    failed = [c for c in cases if c["status"] not in ("ok", "skipped")]
    skipped = [c for c in cases if c["status"] == "skipped"]
    if cases:
        passed = len(cases) - len(failed) - len(skipped)
        summary = f"{_good('✓')} {passed} of {len(cases)} cases"
        if failed:
            mark = _good("✓") if passed else " "
            summary = f"{mark} {passed} of {len(cases)} cases   {_bad('✗')} {len(failed)}"
        gap = " " * max(2, WIDTH - 34 - len(machine))
        lines.append(f"{summary}{gap}{machine}")
    if data["message"]:
        place = f"  {shown(data['file'])}:{data['line']}" if data["line"] else ""
        lines.append(
            _wrap(
                data["message"],
                "  ",
                f"{_bad('✗')} " if data["status"] != selfcheck.PASSED else "  ",
            )
        )
        if place:
            lines.append(place)
        if data["stage"] == "todos":
            lines += _open_todos(data)
    lines += _failures(failed, data)
    lines += _causes(data)
    lines += [
        _wrap(f"{case['function']} {case['label']} was left out: {case['message']}")
        for case in skipped
    ]
    if data["status"] == selfcheck.PASSED:
        lines += _memory(data) + _compiled(data)
        lines += [timings(data)] if data["timings"] else _no_timings(data)
    lines += [_wrap(note, "  ", "  ") for note in data["notes"]]
    lines += _output(data)
    lines.append(_ending(data, script))
    return "\n".join(line for line in lines if line)


def _open_todos(data: dict) -> list[str]:
    return [
        _wrap(f"TODO {t['number']}, line {t['line']}: {t['title']}", "      ", "    ")
        for t in data["todos"]["open"][:1]
    ]


def _failures(failed: list[dict], data: dict) -> list[str]:
    lines = []
    shown_messages: set[str] = set()
    picked = []
    for case in failed:
        key = case["message"] if case["status"] != "wrong" else case["function"] + str(len(picked))
        if key not in shown_messages:
            shown_messages.add(key)
            picked.append(case)
    for case in picked[:_MOST_CASES]:
        where = " (in the interpreter)" if case.get("where") else ""
        lines.append(_strong(f"  {case['function']}: {case['label']}") + where)
        lines.append(_wrap(case["message"], "    "))
        if case.get("line") and not data["causes"]:
            lines.append(f"    {shown(data['file'])}:{case['line']}")
        if case["why"]:
            lines.append(_wrap(f"This case is there because: {case['why']}.", "    "))
    if len(failed) > min(len(picked), _MOST_CASES):
        rest = len(failed) - min(len(picked), _MOST_CASES)
        lines.append(f"    and {rest} more case{'s' if rest > 1 else ''}.")
    return lines


def _causes(data: dict) -> list[str]:
    causes = data["causes"]
    failed = [c for c in data["cases"] if c["status"] not in ("ok", "skipped")]
    if not causes:
        if any(c["status"] == "wrong" for c in failed):
            return [
                _wrap(
                    "No known mistake gives these numbers. Take the smallest case above and "
                    "follow it by hand; "
                    "print() inside a kernel works in the interpreter (--device cpu); take it out "
                    "again."
                )
            ]
        return []
    lines = []
    if len(causes) > 1:
        lines.append(f"  {len(causes)} causes fit equally well:")
    for cause in causes:
        opening = "This is what comes out when " if cause["kind"] == "mistake" else ""
        says = cause["says"]
        lines.append(_wrap(f"{opening}{says}" if says.endswith(".") else f"{opening}{says}."))
        if cause["look"]:
            lines.append(
                _wrap(f"Look at: {cause['look']}" if cause["kind"] == "mistake" else cause["look"])
            )
        known = cause["todo"] and data["todos"]["total"]  # a foreign file may have no TODOs
        todo = f"TODO {cause['todo']}  " if known else ""
        if cause["line"]:
            lines.append(f"  {todo}{shown(data['file'])}:{cause['line']}")
        elif todo:
            lines.append(f"  {todo}")
    return lines


def _memory(data: dict) -> list[str]:
    if not data["memory"]:
        return []
    lines = ["  Memory, counted in the interpreter"]
    for row in data["memory"]:
        read, written = row["read"], row["written"]
        sectors = 32 * (row["read_sectors"] + row["written_sectors"])
        fetched = (
            f", in sectors {sectors:,} B ({sectors / max(read + written, 1):.2f}×)"
            if sectors
            else ""
        )
        lines.append(
            f"    {row['function']}, {row['label']}: {row['programs']} programs{_idle(row)}, "
            f"{row['launches']} launch{'es' if row['launches'] != 1 else ''}"
        )
        lines.append(
            f"      reads {read:,} B ({_ratio(read, row['least_read'])} of the least), "
            f"writes {written:,} B ({_ratio(written, row['least_written'])}){fetched}"
        )
        if row["allocated"] > row["returned"]:
            lines.append(
                f"      allocates {row['allocated']:,} B, of which {row['returned']:,} B are the "
                "result"
            )
    return lines


def _idle(row: dict) -> str:
    return f" ({row['idle_programs']} of them did nothing)" if row["idle_programs"] else ""


def _ratio(value: int, least: int) -> str:
    return f"{value / least:.2f}×" if least else "-"


def _compiled(data: dict) -> list[str]:
    if not data["compiled"]:
        return []
    lines = ["  Compiled"]
    functions: dict[str, set[str]] = {}
    for row in data["compiled"]:
        functions.setdefault(row["kernel"], set()).add(row["function"])
    for row in data["compiled"]:
        parts = [f"{row['num_warps']} warps"]
        if row["registers"] is not None:
            parts.append(f"{row['registers']} registers")
        if row["spilled"]:
            parts.append(f"{row['spilled']} B spilled to memory")
        if row["shared"]:
            parts.append(f"{row['shared']:,} B shared")
        if row["occupancy"] is not None:
            parts.append(f"occupancy {row['occupancy']:.0%}")
        if row["load_bytes"]:
            parts.append(f"loads up to {row['load_bytes']} B a thread")
        parts += row["instructions"]
        several = len(functions[row["kernel"]]) > 1
        name = f"{row['kernel']}, {row['function']}" if several else row["kernel"]
        lines.append(f"    {name:<30} {row['target']:<7} {', '.join(parts)}")
    return lines


def timings(data: dict) -> str:
    """The timing tables, one for each function."""
    lines = []
    for function in dict.fromkeys(row["function"] for row in data["timings"]):
        rows = [r for r in data["timings"] if r["function"] == function]
        lines += _table(function, rows)
    for plot in data["plots"]:
        lines += [f"  {shown(plot[kind])}" for kind in ("csv", "png") if kind in plot]
    return "\n".join(lines)


def _table(function: str, rows: list[dict]) -> list[str]:
    names = [*pages.baselines(rows[0]), "yours"]
    unit = pages.speed(rows[0])[1]
    first = max(len(rows[0]["x"]), 10)
    widths = {name: max(len(name) + 2, 12) for name in names}
    head = (
        f"    {rows[0]['x']:>{first}}"
        + "".join(f"{name:>{widths[name]}}" for name in names)
        + f"{unit:>12}{'of the ceiling':>16}"
    )
    what = "; GB/s of the least traffic" if unit == "GB/s" else ""
    lines = [f"  {function}, {rows[0]['dtype']}: median time in µs{what}", head]
    for row in rows:
        cells = f"    {row['value']:>{first},}" + "".join(
            f"{row[name + '_us']:>{widths[name]}.1f}" for name in names
        )
        lines.append(f"{cells}{pages.speed(row)[0]:>12.0f}{row['of_ceiling']:>16.1%}")
    return lines


def _no_timings(data: dict) -> list[str]:
    if data["machine"].get("device") != "cpu":
        return []
    lines = ["  Timings need a GPU: the interpreter's say nothing."]
    names = dict.fromkeys(row["function"] for row in data["memory"])
    for path in [path for name in names for path in pages.results_of(name)[:1]]:
        machine, rows = pages.recorded(path)
        if not rows:
            continue
        best = max(rows, key=lambda row: pages.speed(row)[0])
        speed, unit = pages.speed(best)
        lines.append(
            _wrap(
                f"Recorded for the solution's {path.stem}, not on this machine ({machine}): "
                f"{speed:.0f} {unit} at {int(best['value']):,} {best['x']}, "
                f"{float(best['of_ceiling']):.0%} of the ceiling. {shown(path)}",
                "    ",
                "  ",
            )
        )
    return lines


def _output(data: dict) -> list[str]:
    printed = [line for line in data["output"].splitlines() if line.strip()]
    if not printed:
        return []
    lines = ["  What it printed:"]
    lines += [f"    {line[: WIDTH - 4]}" for line in printed[:_MOST_OUTPUT_LINES]]
    cut = len(printed) - _MOST_OUTPUT_LINES
    return [*lines, f"    [{cut} more lines]"] if cut > 0 else lines


def _ending(data: dict, script: course.Script) -> str:
    name = script.name if _shared(script) or script.optional else script.lesson
    if data["status"] == selfcheck.PASSED:
        return _good("Passed.") + f"  ({data['seconds']:.1f} s)"
    if data["status"] == selfcheck.FAULT:
        return "This is not about the kernel. Nothing was judged."
    if data["file"] != str(script.path):
        return f"Not right yet.  ({data['seconds']:.1f} s)"
    if data["stage"] == "todos":
        return f"Fill it in and run  ./run.sh {name}   A hint:  ./run.sh hint {script.name}"
    return f"Edit it and run  ./run.sh {name}  again.   A hint:  ./run.sh hint {script.name}"


def hint(
    script: course.Script, number: int, level: int, texts: Sequence[str], repeated: bool
) -> str:
    """One hint, and what follows it."""
    kinds = ("the idea", "the call", "almost the line")
    head = _strong(
        f"{script.file}, TODO {number}: hint {level + 1} of {len(texts)}, {kinds[level]}"
    )
    lines = [head, _wrap(texts[level])]
    if level + 1 < len(texts):
        lines.append(f"The next one:  ./run.sh hint {script.name}")
    elif repeated:
        lines.append(f"There are no more. The finished solution: {shown(script.solution)}")
    else:
        lines.append("That is the last one for this TODO.")
    return "\n".join(lines)
