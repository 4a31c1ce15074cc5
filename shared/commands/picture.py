"""`./run.sh picture 02`: which program of a kernel touches which elements, drawn."""

from __future__ import annotations

from pathlib import Path

from shared.check import drawing, stages
from shared.commands.exits import NOT_YET, PASS
from shared.commands.parser import parser
from shared.course import source
from shared.course.scripts import resolve

_DESCRIPTION = "Draw which program touches which elements, from the accesses of the real kernel."


def picture(arguments: list[str]) -> int:
    """Draw what was asked for. Returns the exit status."""
    asked = parser("picture", description=_DESCRIPTION)
    asked.add_argument("name", help="a lesson or a script")
    asked.add_argument("--solution", action="store_true", help="of the solution, not of your file")
    asked.add_argument("--into", metavar="FOLDER", help="where the picture goes")
    given = asked.parse_args(arguments)
    status = PASS
    for script in resolve(given.name):
        path = script.solution if given.solution else script.path
        if source.read(path).open_gaps:
            print(f"{script.file}: fill in its TODOs first, or add --solution.")
            status = NOT_YET
            continue
        into = Path(given.into).resolve() if given.into else stages.results_folder(script, path)
        drawn, problems = drawing.picture(script, path, into)
        print("\n".join(drawn + problems))
        status = NOT_YET if problems else status
    return status
