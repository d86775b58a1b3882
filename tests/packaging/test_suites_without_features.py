"""The tests of the core and of each feature pass without the other features.

All tests of a feature are collected in each copy that has it, which imports everything they use. To run them all would take an
hour, so each feature runs its smallest module of tests that is not slow. Without any feature, the core runs all but a few.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from test_features import FEATURES, ROOT, copy_without, with_dependents

pytestmark = pytest.mark.slow

CORE = [
    f"tests/{name}"
    for name in ("cli", "language", "llm", "plan", "python", "report", "run", "storage")
]
"""What runs without any feature. The tests of statistics take as long as these together: they are collected only."""
OWN = "not slow and not local and not ancestor and not ray and not trl"


Pair = tuple[str, str]
"""A feature that is deleted, and one that is tested without it."""


def pairs(removed: Collection[str]) -> set[Pair]:
    """What a copy without these features shows."""
    return {(feature, other) for feature in removed for other in FEATURES if other not in removed}


def few_copies() -> list[set[str]]:
    """The features that each copy is without: few copies, so that each feature is tested without each that it does not need.

    Each copy is the best of some that are drawn: the fewest would take a search, and save none or one."""
    drawn = random.Random(0)
    lacking = {pair for feature in FEATURES for pair in pairs(with_dependents([feature]))}
    copies = []
    while lacking:
        halves = (
            with_dependents([feature for feature in FEATURES if drawn.random() < 0.4])
            for _ in range(300)
        )
        copies.append(max(halves, key=lambda removed: len(pairs(removed) & lacking)))
        lacking -= pairs(copies[-1])
    return copies


COPIES = few_copies()


def with_tests(removed: Collection[str], folder: Path) -> None:
    """A copy of the project, with its tests."""
    copy_without(removed, folder)

    def unneeded(directory: str, names: list[str]) -> set[str]:
        return {
            name
            for name in names
            if Path(directory) == ROOT / "tests" / "features" and name in removed
        }

    shutil.copytree(ROOT / "tests", folder / "tests", ignore=unneeded, copy_function=os.link)
    for name in (
        ".pre-commit-hooks.yaml",
        "README.md",
        "benchmarks",
        "docs",
        "examples",
        "pyproject.toml",
    ):
        (folder / name).symlink_to(ROOT / name)


def smallest_modules(features: Collection[str]) -> Iterator[str]:
    """A module of tests of each feature."""
    for feature in sorted(features):
        modules = (ROOT / "tests" / "features" / feature).rglob("test_*.py")
        fast = [
            path
            for path in modules
            if "pytestmark = pytest.mark" not in path.read_text(encoding="utf-8")
        ]
        if fast:
            yield min(fast, key=lambda path: path.stat().st_size).relative_to(ROOT).as_posix()


def output_of_tests(folder: Path, *words: str) -> str:
    """The output of pytest in a copy, "" where all tests pass."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        OWN,
        *words,
    ]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    return "" if done.returncode == 0 else done.stdout[-2000:] + done.stderr[-1000:]


def test_the_core_passes_its_tests_without_any_feature(tmp_path):
    with_tests(FEATURES, tmp_path / "core")
    assert output_of_tests(tmp_path / "core", "--collect-only", "tests/stats") == ""
    assert output_of_tests(tmp_path / "core", *CORE) == ""


@pytest.mark.parametrize("removed", COPIES, ids=range(len(COPIES)))
def test_features_pass_their_tests_without_others(removed, tmp_path):
    with_tests(removed, tmp_path / "copy")
    assert output_of_tests(tmp_path / "copy", "--collect-only", "tests/features") == ""
    assert output_of_tests(tmp_path / "copy", *smallest_modules(set(FEATURES) - removed)) == ""
