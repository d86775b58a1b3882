"""The package keeps its shape: no circles of imports, no stubs, no paths of a machine."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import ROOT

PACKAGE = ROOT / "verdict_cli"

MACHINE_PATH = re.compile(rb"/(?:work|root|home|tmp|Users)/[A-Za-z0-9_.-]+")


def modules() -> Iterator[tuple[str, Path]]:
    """Path within the package without its suffix, and the file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).with_suffix("").as_posix(), path


def imports(source: str, package: set[str]) -> set[str]:
    """The modules among ``known`` that the source imports when it runs, within functions too."""
    modules = set()
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
            continue
        pending += ast.iter_child_nodes(node)
        names = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import | ast.ImportFrom)
            else []
        )
        if isinstance(node, ast.ImportFrom):
            names = [
                f"{node.module}.{name}" if f"{node.module}.{name}" in package else str(node.module)
                for name in names
            ]
        modules |= set(names) & package
    return modules


def circles(sources: dict[str, str]) -> list[set[str]]:
    """The groups of modules that import each other, by their dotted names."""
    edges = {module: imports(source, set(sources)) - {module} for module, source in sources.items()}
    reached: dict[str, set[str]] = {}
    for module in edges:
        pending, reachable = [module], set()
        while pending:
            new = edges[pending.pop()] - reachable
            reachable |= new
            pending += new
        reached[module] = reachable
    groups = {
        frozenset(other for other in reachable if module in reached[other])
        for module, reachable in reached.items()
    }
    return [set(group) for group in groups if group]


def test_a_circle_is_detected_in_any_place_of_an_import():
    sources = {
        "p.a": "import p.b\n",
        "p.b": "def late():\n    from p import c\n",
        "p.c": "from p.a import x\n",
        "p.d": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.e\n",
        "p.e": "import p.d\n",
    }
    assert circles(sources) == [{"p.a", "p.b", "p.c"}]


def test_no_modules_import_each_other():
    dotted = {
        f"verdict_cli/{module}".removesuffix("/__init__").replace("/", "."): path.read_text(
            encoding="utf-8"
        )
        for module, path in modules()
    }
    assert circles(dotted) == []


def test_types_are_in_the_modules_themselves():
    assert list(PACKAGE.rglob("*.pyi")) == []


def test_no_file_has_a_path_of_somebody_s_machine():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    places = [
        f"{path.relative_to(ROOT)}: {match.decode()}"
        for path in paths
        if path.is_file() and path.suffix not in (".png", ".parquet", ".gz", ".zst")
        for match in MACHINE_PATH.findall(path.read_bytes())
    ]
    assert places == []


def test_every_slow_test_exists():
    listed = (ROOT / "tests" / "slow_tests.txt").read_text(encoding="utf-8").split()
    assert listed == sorted(set(listed))
    for test in listed:
        path, *_, name = test.split("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test
