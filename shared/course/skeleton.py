"""Makes a skeleton from its solution: the statements that a TODO asks for become `...`.

The solution is the single source. What an answer defines and the rest of the function needs stays,
as `name = ...`; everything else in the answer goes, its comments included. At the end stand the
lines that let the script be run by itself.
"""

from __future__ import annotations

import ast
from pathlib import Path

from shared.course import source

ENDING = """

if __name__ == "__main__":  # the same as ./run.sh with this file's name
    import os
    import sys
    from pathlib import Path

    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
"""


def skeleton_of(solution: str) -> str:
    """The skeleton's text. Raises ValueError if a TODO has no answer, or two are not told apart."""
    lines = solution.splitlines()
    tree = ast.parse(solution)
    result: list[str] = []
    position = 0
    for gap in source.parse(solution, Path()).gaps:
        if gap.last < gap.first:
            raise ValueError(f"line {gap.line}: the TODO has no answer below it")
        if gap.last < len(lines) and lines[gap.last].lstrip().startswith("# TODO"):
            raise ValueError(f"line {gap.last}: an empty line is missing between two TODOs")
        result += lines[position : gap.first - 1]
        result += [gap.indent + line for line in _unknowns(tree, gap)]
        position = gap.last
    return "\n".join([*result, *lines[position:]]) + "\n" + ENDING


def _unknowns(tree: ast.Module, gap: source.Gap) -> list[str]:
    """What stands in for an answer: one line for each of its statements that defines something."""
    blocks = _blocks_around(tree, gap)
    block, start, end, _ = blocks[-1]
    result: list[str] = []
    for statement in block[start:end]:
        if isinstance(statement, ast.Return):
            line = "return ..."
        else:
            names = [name for name in _stored(statement) if _needed_later(name, blocks)]
            line = f"{', '.join(names)} = ..." if names else "..."
        if line not in result:
            result.append(line)
    return [line for line in result if line != "..."] or result


Block = tuple[list[ast.stmt], int, int, ast.stmt | ast.Module]


def _blocks_around(tree: ast.Module, gap: source.Gap) -> list[Block]:
    """The blocks of a function that enclose an answer, the innermost last: their statements, the
    first of those that hold the answer and the one after the last, and what the block belongs to.
    """
    found: list[Block] = []
    owner: ast.stmt | ast.Module | None = tree
    while owner is not None:
        inside = None
        for block in (getattr(owner, "body", []), getattr(owner, "orelse", [])):
            held = [
                number
                for number, statement in enumerate(block)
                if statement.lineno <= gap.last and (statement.end_lineno or 0) >= gap.first
            ]
            if held:
                found.append((block, held[0], held[-1] + 1, owner))
                inside = block[held[0]] if block[held[0]].lineno < gap.first else None
        owner = inside
    return [block for block in found if block[3] is not tree]


def _needed_later(name: str, blocks: list[Block]) -> bool:
    """Whether the code after an answer, or before it in a loop's next turn, reads the name before
    it assigns it anew.
    """
    for block, start, end, owner in reversed(blocks):
        reads = _reads_first(block[end:], name)
        if reads is not None:
            return reads
        again = isinstance(owner, ast.While) or (
            isinstance(owner, ast.For) and name not in _stored(owner.target)
        )
        if again and _reads_first(block[:start], name):
            return True
    return False


def _reads_first(block: list[ast.stmt], name: str) -> bool | None:
    """Whether the first thing that statements do with a name is to read it; None if they do
    neither.
    """
    for statement in block:
        parts = [part for part in ("body", "orelse") if getattr(statement, part, None)]
        if not parts or isinstance(statement, ast.FunctionDef):
            if name in _loaded(statement):
                return True
            if name in _stored(statement):
                return False
            continue
        if isinstance(statement, ast.For):
            if name in _loaded(statement.iter):
                return True
            if name in _stored(statement.target):
                return False
        elif name in _loaded(getattr(statement, "test", statement)):
            return True
        uses = [_reads_first(getattr(statement, part), name) for part in parts]
        if True in uses:
            return True
        if isinstance(statement, ast.If) and uses == [False, False]:
            return False
    return None


def _stored(tree: ast.AST) -> list[str]:
    """The names that are assigned, in the order of the text."""
    return [node.id for node in _names(tree) if isinstance(node.ctx, ast.Store)]


def _loaded(tree: ast.AST) -> set[str]:
    """The names that are read; `name += ...` reads too."""
    read = {node.id for node in _names(tree) if isinstance(node.ctx, ast.Load)}
    if isinstance(tree, ast.AugAssign) and isinstance(tree.target, ast.Name):
        read.add(tree.target.id)
    return read


def _names(tree: ast.AST) -> list[ast.Name]:
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return sorted(names, key=lambda node: (node.lineno, node.col_offset))
