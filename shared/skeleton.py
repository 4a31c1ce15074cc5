"""Makes a skeleton from its solution: the statements that a TODO asks for become `...`.

The solution is the single source. What belongs to a TODO is what follows its comment, up to an
empty line or the end of the block. A name that the rest of the function needs stays, as
`name = ...`; everything else in the answer goes, its comments included.
"""

from __future__ import annotations

import ast
import re

_TODO = re.compile(r"^(\s*)# TODO \d+")


def skeleton_of(solution: str) -> str:
    """The skeleton's text. Raises ValueError if a TODO has no answer, or two are not told apart."""
    lines = solution.splitlines()
    tree = ast.parse(solution)
    result: list[str] = []
    position = 0
    while position < len(lines):
        match = _TODO.match(lines[position])
        if not match:
            result.append(lines[position])
            position += 1
            continue
        indent = match.group(1)
        while position < len(lines) and lines[position].startswith(f"{indent}#"):
            result.append(lines[position])
            position += 1
        start = position
        while (
            position < len(lines) and lines[position].startswith(indent) and lines[position].strip()
        ):
            position += 1
        if any(_TODO.match(line) for line in lines[start:position]):
            raise ValueError(f"line {start}: an empty line is missing between two TODOs")
        answer = _unknowns(tree, start + 1, position, len(indent))
        if not answer:
            raise ValueError(f"line {start}: the TODO has no answer below it")
        result.extend(indent + line for line in answer)
    return "\n".join(result) + "\n"


def _unknowns(tree: ast.Module, first: int, last: int, column: int) -> list[str]:
    """What stands in for the statements on lines first to last."""
    function = next(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= first <= (node.end_lineno or 0)
    )
    needed = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and not first <= node.lineno <= last
    }
    statements = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and first <= node.lineno <= last and node.col_offset == column
    ]
    result: list[str] = []
    for statement in sorted(statements, key=lambda node: node.lineno):
        if isinstance(statement, ast.Return):
            line = "return ..."
        else:
            stored = [
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            ]
            names = [name for name in dict.fromkeys(stored) if name in needed]
            line = f"{', '.join(names)} = ..." if names else "..."
        if line not in result:
            result.append(line)
    return [line for line in result if line != "..."] or result
