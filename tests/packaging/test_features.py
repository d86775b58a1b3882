"""Features: the core knows none of them, and each can be deleted."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import pytest
from paths import ROOT

from verdict_cli.registry import feature_parts

PACKAGE = ROOT / "verdict_cli"
FEATURES = sorted(path.parent.name for path in PACKAGE.glob("features/*/__init__.py"))
DOCUMENTED_NAMES = {"rewards": "rl"}
"""Modules at the head of the package that only give a feature its documented name."""


@lru_cache
def needed() -> Mapping[str, frozenset[str]]:
    """The other features that a feature may import, from the contract of import-linter."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (
        contract
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["type"] == "independence"
    )
    pairs = [re.findall(r"features\.(\w+)", line) for line in contract["ignore_imports"]]
    return {
        name: frozenset(other for importer, other in pairs if importer == name) for name in FEATURES
    }


def with_dependents(names: Collection[str]) -> set[str]:
    """The features, and those that need one of them."""
    removed = set(names)
    while more := {name for name in FEATURES if needed()[name] & removed} - removed:
        removed |= more
    return removed


def imported(path: Path) -> Iterator[str]:
    """The modules of this package that a module imports anywhere, in functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_the_core_imports_no_feature():
    names = {PACKAGE / f"{module}.py" for module in DOCUMENTED_NAMES.values()}
    core = [
        path
        for path in PACKAGE.rglob("*.py")
        if PACKAGE / "features" not in path.parents and path not in names
    ]
    imports_of_features = {
        path.relative_to(ROOT).as_posix(): name
        for path in core
        for name in imported(path)
        if "verdict_cli.features" in name
    }
    assert imports_of_features == {}


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_says_what_it_brings_and_imports_nothing_for_it(feature):
    path = PACKAGE / "features" / feature / "__init__.py"
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert set(imported(path)) <= {"verdict_cli.registry", "verdict_cli.registry.PartSpec"}
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 40


def copy_without(features: Collection[str], folder: Path) -> None:
    """A copy of the project without these features and those that need them."""
    removed = with_dependents(features)

    def unneeded(directory: str, names: list[str]) -> set[str]:
        return {
            name for name in names if Path(directory) == PACKAGE / "features" and name in removed
        }

    for name in ("verdict_cli", "schemas", "configs", "datasets"):
        shutil.copytree(ROOT / name, folder / name, ignore=unneeded, copy_function=os.link)
    for feature, module in DOCUMENTED_NAMES.items():
        if feature in removed:
            (folder / "verdict_cli" / f"{module}.py").unlink()


COMMANDS = (
    ("validate", "xstest", "xstest_sample"),
    ("run", "xstest", "xstest_sample", "--model", "baseline/lexical", "--out", "a", "--quiet"),
    ("run", "xstest", "xstest_sample", "--model", "baseline/random", "--out", "b", "--quiet"),
    (
        "judge",
        "xstest",
        "--model",
        "baseline/lexical",
        "--row",
        '{"prompt": "Hello", "label": "safe"}',
    ),
    ("gate", "a", "--gates", "gates.yaml"),
    ("compare", "a", "b"),
    ("validate", "needs.yaml"),
    ("--help",),
)
NEEDS = """
verdict: 1
name: needs
model: {name: gpt-4o-mini, batch: true}
pipeline: [{unit: JudgeUnit, prompt: "{source.q}"}]
evaluate: {board: {arena: {system: source.s, score: output.score, item: source.q}, metrics: [win_rate]}}
"""
"""Has a key of each feature that adds some."""
SMOKE = """
import json, os, sys
import jinja2, numpy, orjson, pyarrow.compute, pyarrow.parquet, pydantic, rich.console, scipy.special, scipy.stats, typer, yaml

def run(folder, commands):
    os.chdir(folder)
    sys.path.insert(0, folder)
    sys.stdout = sys.stderr = open("output.txt", "w")
    from verdict_cli.cli.app import main
    codes = []
    for words in commands:
        sys.argv = ["verdict", *words]
        try:
            main()
            codes.append(0)
        except SystemExit as left:
            codes.append(left.code or 0)
    sys.stdout.flush()
    open("codes.json", "w").write(json.dumps(codes))

for folder in sys.argv[2:]:
    if (child := os.fork()) == 0:
        try:
            run(folder, json.loads(sys.argv[1]))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
"""
"""Runs the commands in each folder, in a child of one process that has imported the large libraries."""


def smoke(base: Path, *names: str) -> Iterator[tuple[str, list[int], str]]:
    """The exit codes and the output of the commands without each of these features; `all` stands for all of them.

    Compiled files are copied too, so that nothing is compiled again."""
    for name in names:
        copy_without(FEATURES if name == "all" else (name,), base / name)
        (base / name / "gates.yaml").write_text("gates: [{metric: run.coverage, min: 0.9}]")
        (base / name / "needs.yaml").write_text(NEEDS)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["VERDICT_CACHE_DIR"] = str(base / "cache")
    folders = [str(base / name) for name in names]
    subprocess.run(
        [sys.executable, "-P", "-c", SMOKE, json.dumps(COMMANDS), *folders],
        check=True,
        env=environment,
    )
    for name in names:
        yield (
            name,
            json.loads((base / name / "codes.json").read_text()),
            (base / name / "output.txt").read_text(),
        )


def check(name: str, codes: list[int], output: str) -> None:
    """Every command works, `--help` lacks just the commands of the features that are gone, and keys of theirs are refused."""
    removed = with_dependents(FEATURES if name == "all" else (name,))
    lacking = removed & {"batches", "rank"}
    assert codes == [2 if lacking and words[-1] == "needs.yaml" else 0 for words in COMMANDS], (
        name,
        output,
    )
    assert set(re.findall(r"needs the feature `(\w+)`", output)) == lacking
    listed = re.findall(r"^  ([a-z]+)  ", output.partition("Usage:")[2], re.MULTILINE)
    commands = {
        command: package.rpartition(".")[2] not in removed
        for command, (package, _) in feature_parts()["commands"].items()
    }
    assert {command for command in commands if command in listed} == {
        command for command in commands if commands[command]
    }, name


def test_without_any_feature_the_core_works_and_lacks_their_commands(tmp_path):
    for name, codes, output in smoke(tmp_path, "all"):
        check(name, codes, output)


@pytest.mark.slow
def test_without_one_feature_the_core_works_and_lacks_its_commands(tmp_path):
    for name, codes, output in smoke(tmp_path, *FEATURES):
        check(name, codes, output)
