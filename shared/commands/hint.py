"""`./run.sh hint 02`: the next hint for the TODO that is open or failing."""

from __future__ import annotations

from shared.commands import lists
from shared.commands.exits import PASS, BadCommand
from shared.commands.parser import parser
from shared.course import progress, source
from shared.course.progress import Progress
from shared.course.scripts import Script, resolve


def hint(arguments: list[str]) -> int:
    """Give one hint, and remember that it was given. Returns the exit status."""
    asked = parser("hint", description="The next hint for the TODO that is open or failing.")
    asked.add_argument("name", help="a lesson or a script")
    asked.add_argument("todo", nargs="?", type=int, help="the TODO, if another one is meant")
    given = asked.parse_args(arguments)
    scripts = [s for s in resolve(given.name) if not s.to_read]
    if not scripts:
        raise BadCommand(f"{given.name} is there to be read: it has no TODOs.")
    open_ones = (s for s in scripts if not progress.state_of(s).startswith("passed"))
    script = next(open_ones, scripts[0])
    known, hints = progress.recall(script), script.exercise.hints
    number = given.todo or _todo_in_question(script, known)
    if number not in hints:
        numbers = ", ".join(map(str, hints))
        raise BadCommand(f"{script.file} has no TODO {number}. It has hints for {numbers}.")
    given_so_far = known.hints.get(str(number), 0)
    level = min(given_so_far, len(hints[number]) - 1)
    progress.remember(script, hints={**known.hints, str(number): level + 1})
    print(lists.hint(script, number, level, repeated=given_so_far >= len(hints[number])))
    return PASS


def _todo_in_question(script: Script, known: Progress) -> int:
    """The first open TODO, else the one last blamed, else the first with hints left."""
    open_gaps = source.read(script.path).open_gaps if script.path.exists() else ()
    if open_gaps:
        return open_gaps[0].number
    hints = script.exercise.hints
    left = (n for n, texts in hints.items() if known.hints.get(str(n), 0) < len(texts))
    return known.todo or next(left, min(hints))
