"""The rooms of shared/: imports point down only, and a check needs nothing but what it declares."""

import ast
import itertools
import subprocess
import sys
import tokenize

from shared.course import layout

# From the ground up. A room may import from those before it.
FLOORS = (
    ("facts", "lesson"),
    ("machine", "course"),
    ("execution",),
    ("diagnosis", "measure"),
    ("check",),
    ("commands",),
)
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
SHARED = layout.ROOT / "shared"


def imports(path):
    """The modules of this project that a file imports, inside of functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shared"):
            yield from (
                f"{node.module}.{alias.name}"
                if (_file(f"{node.module}.{alias.name}"))
                else node.module
                for alias in node.names
            )
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("shared"))


def _file(module):
    path = layout.ROOT / (module.replace(".", "/") + ".py")
    return path if path.exists() else None


def modules():
    files = [p for p in SHARED.rglob("*.py") if "tests" not in p.parts and p.parent != SHARED]
    return {".".join(p.relative_to(layout.ROOT).with_suffix("").parts): p for p in files}


def test_every_room_has_its_floor():
    assert {path.parent.name for path in modules().values()} == set(LEVEL)


def test_imports_point_down_and_never_in_a_circle():
    edges = {name: set(imports(path)) for name, path in modules().items()}
    for name, imported in edges.items():
        room = name.split(".")[1]
        for other in imported:
            other_room = other.split(".")[1]
            assert LEVEL[other_room] < LEVEL[room] or other_room == room, f"{name} imports {other}"
    done = set()

    def visit(name, way):
        assert name not in way, " -> ".join([*way, name])
        if name not in done:
            for other in edges.get(name, ()):
                visit(other, [*way, name])
            done.add(name)

    for name in edges:
        visit(name, [])


def test_no_module_names_a_lesson():
    lessons = [path.name for path in layout.LESSONS.glob("[0-9]*")]
    for path in modules().values():
        strings = {n.value for n in ast.walk(ast.parse(path.read_text())) if _is_text(n)}
        named = [lesson for lesson in lessons if strings & {lesson, f"{lesson}/check.py"}]
        assert not named, f"{path}: {named}"


def _is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_a_check_imports_only_what_a_lesson_declares():
    for check in layout.LESSONS.glob("*/check.py"):
        for node in ast.walk(ast.parse(check.read_text())):
            if isinstance(node, ast.Import):
                assert [alias.name for alias in node.names] == ["sys"], check
            elif isinstance(node, ast.ImportFrom):
                assert node.module.startswith(("shared.lesson", "pathlib")), check


def test_the_runner_imports_neither_torch_nor_triton(tmp_path):
    """Not for the list, a hint or an unfinished file, which answer at once."""
    code = """if True:
        import sys
        from shared.commands import cli
        cli.main([])
        cli.main(["hint", "00"])
        cli.main(["00"])
        print(sorted({"torch", "triton", "numpy", "pandas"} & set(sys.modules)))
    """
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=layout.ROOT, capture_output=True, text=True, timeout=60
    )
    assert run.stdout.splitlines()[-1] == "[]", run.stdout + run.stderr


def test_no_sentence_is_broken_by_a_formatter():
    """Texts that go on over several lines are written in one piece and wrapped where they are
    shown.
    """
    begins = {tokenize.STRING, getattr(tokenize, "FSTRING_START", tokenize.STRING)}
    ends = {tokenize.STRING, getattr(tokenize, "FSTRING_END", tokenize.STRING)}
    broken = []
    for path in [*SHARED.rglob("*.py"), *layout.LESSONS.glob("*/check.py")]:
        with open(path, encoding="utf-8") as file:
            tokens = [t for t in tokenize.generate_tokens(file.readline) if t.type not in _NOTHING]
        for before, after in itertools.pairwise(tokens):
            if before.type in ends and after.type in begins:
                broken.append(f"{path.name}:{after.start[0]}")
    assert not broken, broken


_NOTHING = (tokenize.NL, tokenize.COMMENT)
