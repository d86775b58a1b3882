"""The package keeps its shape: no circles, no public name twice, no drawer for everything."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "verdict_cli"

VAGUE = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
"""Module names that say nothing of what is inside."""

SAME_NAME = {
    "app": "each group of commands is a Typer application of this name",
    "PARTS": "what the folder of a feature brings",
}
"""Public names that several modules may define, each with its reason. Exempt are also type variables, and functions that are
commands: a command has the name that users type."""

FOREIGN_NAMES = ("features/compat/", "language/authoring/step", "language/authoring/units")
"""Modules with names of others: those of another library, and Python's units, layers and blocks, each of which has the name
of the class of the language whose keys it takes."""

MACHINE_PATH = re.compile(rb"/(?:work|root|home|tmp|Users)/[A-Za-z0-9_.-]+")


def modules() -> Iterator[tuple[str, Path]]:
    """Path within the package without its suffix, and the file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).with_suffix("").as_posix(), path


def definitions(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """The names that the statements define, those under a top-level `if` or `try` among them; imports define nothing."""
    for statement in body:
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, statement
            case ast.Assign(targets=targets):
                names = [node for target in targets for node in ast.walk(target)]
                yield from ((node.id, statement) for node in names if isinstance(node, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, statement
            case ast.If(body=first, orelse=other):
                yield from definitions([*first, *other])
            case ast.Try(body=first, handlers=handlers, orelse=other):
                yield from definitions([*first, *(line for each in handlers for line in each.body), *other])


def is_type_variable(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec" | "TypeVarTuple"))):
            return True
    return False


def is_command(module: str, statement: ast.stmt) -> bool:
    """A function that is registered with a Typer application, or that the registry of commands finds by its module."""
    if not isinstance(statement, ast.FunctionDef):
        return False
    calls = (node.func if isinstance(node, ast.Call) else node for node in statement.decorator_list)
    registered = any(isinstance(call, ast.Attribute) and call.attr in ("command", "callback") for call in calls)
    return registered or module == f"cli/{statement.name}" or module.endswith("command")


def duplicates(sources: dict[str, str]) -> dict[str, list[str]]:
    """The public names that more than one module defines, with those modules."""
    homes: dict[str, set[str]] = defaultdict(set)
    for module, source in sources.items():
        for name, statement in definitions(ast.parse(source).body):
            exempt = (
                name in SAME_NAME
                or module.startswith(FOREIGN_NAMES)
                or is_type_variable(statement)
                or is_command(module, statement)
            )
            if not name.startswith("_") and not exempt:
                homes[name].add(module)
    return {name: sorted(found) for name, found in sorted(homes.items()) if len(found) > 1}


def imports(source: str, known: set[str]) -> set[str]:
    """The modules among ``known`` that the source imports when it runs, within functions too."""
    found = set()
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
            continue
        pending += ast.iter_child_nodes(node)
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            names = [
                f"{node.module}.{name}" if f"{node.module}.{name}" in known else str(node.module) for name in names
            ]
        found |= set(names) & known
    return found


def circles(sources: dict[str, str]) -> list[set[str]]:
    """The groups of modules that import each other, by their dotted names."""
    edges = {module: imports(source, set(sources)) - {module} for module, source in sources.items()}
    reached: dict[str, set[str]] = {}
    for module in edges:
        pending, seen = [module], set()
        while pending:
            new = edges[pending.pop()] - seen
            seen |= new
            pending += new
        reached[module] = seen
    groups = {frozenset(other for other in seen if module in reached[other]) for module, seen in reached.items()}
    return [set(group) for group in groups if group]


def test_a_circle_is_found_wherever_the_import_stands() -> None:
    sources = {
        "p.a": "import p.b\n",
        "p.b": "def late():\n    from p import c\n",
        "p.c": "from p.a import x\n",
        "p.d": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.e\n",
        "p.e": "import p.d\n",
    }
    assert circles(sources) == [{"p.a", "p.b", "p.c"}]


def test_no_modules_import_each_other() -> None:
    dotted = {
        f"verdict_cli/{module}".removesuffix("/__init__").replace("/", "."): path.read_text(encoding="utf-8")
        for module, path in modules()
    }
    assert circles(dotted) == []


def test_a_duplicate_name_is_found_and_the_exceptions_are_not() -> None:
    sources = {
        "run/a": "T = TypeVar('T')\nclass Row: ...\nif True:\n    LIMIT = 1\ndef _own(): ...\n",
        "plan/b": "T = TypeVar('T')\nfrom a import Row as Line\nLIMIT: int = 2\ndef _own(): ...\n",
        "stats/c": "class Row: ...\napp = 1\ndef explain(): ...\n",
        "cli/d": "app = 2\n@app.command()\ndef explain(): ...\n",
        "cli/explain": "def explain(): ...\n",
    }
    assert duplicates(sources) == {"LIMIT": ["plan/b", "run/a"], "Row": ["run/a", "stats/c"]}


def test_no_public_name_is_defined_in_two_modules() -> None:
    assert duplicates({module: path.read_text(encoding="utf-8") for module, path in modules()}) == {}


def test_no_module_or_folder_is_a_drawer_for_everything() -> None:
    assert [module for module, _ in modules() if VAGUE & set(Path(module).parts)] == []


def test_types_are_in_the_modules_themselves() -> None:
    assert list(PACKAGE.rglob("*.pyi")) == []


def test_no_file_has_a_path_of_somebody_s_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    found = [
        f"{path.relative_to(ROOT)}: {match.decode()}"
        for path in paths
        if path.is_file() and path.suffix not in (".png", ".parquet", ".gz", ".zst")
        for match in MACHINE_PATH.findall(path.read_bytes())
    ]
    assert found == []


def test_every_slow_test_exists() -> None:
    listed = (ROOT / "tests" / "slow_tests.txt").read_text(encoding="utf-8").split()
    assert listed == sorted(set(listed))
    for test in listed:
        path, *_, name = test.split("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test
