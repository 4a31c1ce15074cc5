"""A script as text and as module: its TODOs, which are open, syntax errors, importing it."""

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
class Todo:
    """A numbered TODO. line: of its comment. open_line: of the `...` still standing, 0 if it is
    done.
    """

    number: int
    line: int
    title: str
    open_line: int = 0


@dataclass(frozen=True)
class Source:
    """A script's text, read once. error is a sentence if it does not parse, with error_line."""

    path: Path
    text: str
    todos: tuple[Todo, ...]
    error: str = ""
    error_line: int = 0

    @property
    def open_todos(self) -> tuple[Todo, ...]:
        return tuple(todo for todo in self.todos if todo.open_line)

    def todo_line(self, number: int) -> int:
        """The line of TODO `number`, 0 if the comment is not there (any more)."""
        return next((todo.line for todo in self.todos if todo.number == number), 0)

    def todo_at(self, line: int) -> int:
        """The number of the TODO whose answer is on that line, 0 if it is nobody's."""
        lines = self.text.splitlines()
        for todo in self.todos:
            if todo.line < line <= len(lines) and all(t.strip() for t in lines[todo.line : line]):
                between = [other for other in self.todos if todo.line < other.line <= line]
                if not between:
                    return todo.number
        return 0


def read(path: Path) -> Source:
    """Read a script. Raises OSError if it cannot be read, UnicodeDecodeError if it is not UTF-8."""
    return parse(path.read_text(encoding="utf-8-sig"), path)


def parse(text: str, path: Path) -> Source:
    """What `read` returns, from a text. A `...` belongs to the nearest TODO above it."""
    lines = text.splitlines()
    comments = [(n, m) for n, line in enumerate(lines, 1) if (m := _TODO.match(line))]
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:  # ValueError: a NUL byte, on older Pythons
        todos = tuple(Todo(int(m["number"]), n, _title(lines, n, m)) for n, m in comments)
        return Source(
            path, text, todos, str(getattr(error, "msg", error)), getattr(error, "lineno", 0) or 0
        )
    open_lines = [node.lineno for node in ast.walk(tree) if _is_unknown(node)]
    todos = []
    for position, (line, match) in enumerate(comments):
        end = comments[position + 1][0] if position + 1 < len(comments) else len(lines) + 1
        still = sorted(n for n in open_lines if line < n < end)
        todos.append(
            Todo(int(match["number"]), line, _title(lines, line, match), still[0] if still else 0)
        )
    return Source(path, text, tuple(todos))


def _title(lines: list[str], number: int, match: re.Match) -> str:
    """The whole comment, which may go on over the next lines, as one text."""
    parts = [match["title"].lstrip(" :").strip()]
    for line in lines[number:]:
        if not line.startswith(match["indent"] + "# ") or _TODO.match(line):
            break
        parts.append(line.strip().removeprefix("# "))
    return " ".join(parts)


def _is_unknown(node: ast.AST) -> bool:
    """`...` as a statement, as what is assigned, or as what is returned."""
    if not isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return):
        return False
    return isinstance(node.value, ast.Constant) and node.value.value is ...


def functions_defined(text: str) -> list[str]:
    """Names of the functions at the top level of a script that parses."""
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]


def load_module(path: str, name: str) -> ModuleType:
    """Import a script from its path. Raises whatever it raises."""
    folder = str(Path(path).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
