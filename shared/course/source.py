"""A script as text: its TODOs, where their answers lie, which are open; and as a module."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_TODO = re.compile(r"^(?P<indent>\s*)# TODO (?P<number>\d+)(?P<title>.*)$")


@dataclass(frozen=True)
class Gap:
    """A numbered TODO in a text. Lines count from 1.

    line:        of its comment.
    indent:      of the comment, and so of the answer.
    first, last: the lines of its answer: what follows the comment, up to an empty line or the end
                 of the block. `last` is below `first` if there is none.
    open_line:   of the `...` still standing, 0 if it is done.
    """

    number: int
    line: int
    title: str
    indent: str
    first: int
    last: int
    open_line: int = 0


@dataclass(frozen=True)
class Source:
    """A script's text, read once. error is a sentence if it does not parse, with error_line."""

    path: Path
    text: str
    gaps: tuple[Gap, ...]
    error: str = ""
    error_line: int = 0

    @property
    def open_gaps(self) -> tuple[Gap, ...]:
        return tuple(gap for gap in self.gaps if gap.open_line)

    def line_of(self, todo: int) -> int:
        """The line of a TODO's comment, 0 if it is not there (any more)."""
        return next((gap.line for gap in self.gaps if gap.number == todo), 0)

    def todo_at(self, line: int) -> int:
        """The number of the TODO whose comment or answer is on that line, 0 if it is nobody's."""
        return next((g.number for g in self.gaps if g.line < line <= max(g.last, g.first - 1)), 0)


def read(path: Path) -> Source:
    """Read a script. Raises OSError if it cannot be read, UnicodeDecodeError if it is not UTF-8."""
    return parse(path.read_text(encoding="utf-8-sig"), path)


def parse(text: str, path: Path) -> Source:
    """What `read` returns, from a text. A `...` belongs to the nearest TODO above it."""
    lines = text.splitlines()
    comments = [(n, m) for n, line in enumerate(lines, 1) if (m := _TODO.match(line))]
    error, error_line, open_lines = "", 0, []
    try:
        open_lines = sorted(node.lineno for node in ast.walk(ast.parse(text)) if _is_unknown(node))
    except (SyntaxError, ValueError) as problem:  # ValueError: a NUL byte, on older Pythons
        error = str(getattr(problem, "msg", problem))
        error_line = getattr(problem, "lineno", 0) or 0
    gaps = []
    for (line, match), (end, _) in zip(comments, [*comments[1:], (len(lines) + 1, None)]):
        still = next((n for n in open_lines if line < n < end), 0)
        gaps.append(_gap(lines, line, match, still))
    return Source(path, text, tuple(gaps), error, error_line)


def _gap(lines: list[str], line: int, match: re.Match, open_line: int) -> Gap:
    indent = match["indent"]
    title = [match["title"].lstrip(" :").strip()]
    first = line + 1
    while first <= len(lines) and lines[first - 1].startswith(f"{indent}# "):
        if _TODO.match(lines[first - 1]):
            break
        title.append(lines[first - 1].strip().removeprefix("# "))
        first += 1
    last = first
    while last <= len(lines) and lines[last - 1].strip() and lines[last - 1].startswith(indent):
        if _TODO.match(lines[last - 1]):
            break
        last += 1
    return Gap(int(match["number"]), line, " ".join(title), indent, first, last - 1, open_line)


def _is_unknown(node: ast.AST) -> bool:
    """`...` as a statement, as what is assigned, or as what is returned."""
    if not isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return):
        return False
    return isinstance(node.value, ast.Constant) and node.value.value is ...


def functions_defined(text: str) -> list[str]:
    """Names of the functions at the top level of a script that parses."""
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]


def load_module(path: Path, name: str) -> ModuleType:
    """Import a script from its path. Raises whatever it raises."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
