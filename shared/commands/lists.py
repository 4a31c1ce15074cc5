"""The list of lessons, what comes next, and a hint, as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence

from shared.commands.terminal import bad, good, shown, strong, wrap
from shared.course import progress
from shared.course.scripts import Script, scripts


def lessons() -> str:
    """The list of lessons with their state, and what to do next."""
    states = _states()
    lines, previous = [], ""
    lesson_width = max(len(script.lesson) for script in states) + 2
    file_width = max(len(script.file) for script in states) + 2
    for script, state in states.items():
        name = script.lesson if script.lesson != previous else ""
        extra = "  (optional)" if script.optional else ""
        columns = f"{name:<{lesson_width}}{script.file:<{file_width}}{state}{extra}"
        lines.append(f"{_mark(state)} {columns}")
        previous = script.lesson
    counted = [state for script, state in states.items() if not script.optional]
    passed = sum(state.startswith("passed") for state in counted)
    lines += ["", f"{passed} of {len(counted)} passed."]
    following = _next(states)
    if following is None:
        return "\n".join([*lines, "That is all of it."])
    page, path = shown(following.page), shown(following.path)
    lines.append(f"Next: read {page}, fill in the TODOs of {path},")
    lines.append(f"then  ./run.sh {following.command_name}")
    return "\n".join(lines)


def onward(checked: Sequence[Script]) -> str:
    """After a pass: where the solutions are and what comes next. Staying is fine too."""
    lines = [f"To compare: {shown(script.solution)}" for script in checked]
    following = _next(_states())
    if following is None:
        lines.append("That was the last one. You have written every kernel of the course.")
    elif following.lesson == checked[-1].lesson:
        lines.append(f"Next: {shown(following.path)}")
    else:
        lines.append(f"Next: {shown(following.page)}")
    return "\n".join(lines)


def optional(script: Script) -> str:
    """The line for an optional script that nobody asked for."""
    state = "to be read" if script.to_read else "not started"
    what = f"{script.lesson}  {script.file} is optional and {state}."
    return f"{what} To check it:  ./run.sh {script.name}"


def hint(script: Script, number: int, level: int, repeated: bool) -> str:
    """One hint, and what follows it. level: from 0. repeated: whether it was given before."""
    texts = script.exercise.hints[number]
    kinds = ("the idea", "the call", "almost the line")
    head = f"{script.file}, TODO {number}: hint {level + 1} of {len(texts)}, {kinds[level]}"
    lines = [strong(head), wrap(texts[level])]
    if level + 1 < len(texts):
        lines.append(f"The next one:  ./run.sh hint {script.name}")
    elif repeated:
        lines.append(f"There are no more. The finished solution: {shown(script.solution)}")
    else:
        lines.append("That is the last one for this TODO.")
    return "\n".join(lines)


def _states() -> dict[Script, str]:
    return {script: progress.state_of(script) for script in scripts()}


def _mark(state: str) -> str:
    if state.startswith("passed"):
        return good("✓")
    return bad("✗") if "fail" in state or "error" in state else " "


def _next(states: dict[Script, str]) -> Script | None:
    """The first script that is not passed; optional ones do not count."""
    open_ones = (s for s, state in states.items() if not state.startswith("passed"))
    return next((script for script in open_ones if not script.optional), None)
