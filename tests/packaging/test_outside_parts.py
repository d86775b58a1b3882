"""Commands, report sections and importers from another package: one file and one entry point each.

Units, scales, extractors and metrics: tests/language/file/test_spec_offered.py; providers: tests/llm/test_doors.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

SOURCE = '''
from typing import Annotated

import typer

from verdict_cli.report.document import Note, Section


def greet(name: Annotated[str, typer.Argument(help="Who.")]) -> None:
    """Greet somebody.

    Example: verdict greet Ada
    """
    print(f"hello {name}")


def pace(report, context):
    yield Section("Pace", [Note(f"{report.facts.rows} rows, as another package counts them")])


def read_lines(path):
    for index, line in enumerate(path.read_text().splitlines()):
        yield {"id": index, "input": None, "output": line, "messages": None, "target": None, "scores": {}, "model": None, "metadata": {}}
'''
ENTRY_POINTS = """
[verdict_cli.commands]
greet = extra_parts:greet
[verdict_cli.sections]
Pace = extra_parts:pace
[verdict_cli.importers]
lines = extra_parts:read_lines
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with an installed package of one module."""
    folder = tmp_path / "site"
    metadata = folder / "extra_parts-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "extra_parts.py").write_text(SOURCE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: extra-parts\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def run(package: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "verdict_cli", *words],
        cwd=package.parent,
        env={
            **os.environ,
            "PYTHONPATH": f"{package}{os.pathsep}{ROOT}",
            "VERDICT_CACHE_DIR": str(package.parent / "cache"),
        },
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_command_is_listed_and_runs(package):
    assert "greet" in run(package, "--help")
    assert run(package, "greet", "Ada") == "hello Ada\n"


def test_a_section_is_in_the_report(package):
    out = run(
        package,
        "run",
        "xstest",
        "xstest_sample",
        "--model",
        "baseline/lexical",
        "--out",
        "out",
    )
    assert "as another package counts them" in out
    assert "as another package counts them" in (package.parent / "out" / "report.md").read_text(
        encoding="utf-8"
    )


def test_an_importer_reads_its_format(package):
    (package.parent / "log.txt").write_text("first\nsecond\n")
    run(package, "import", "lines", "log.txt", "--out", "rows.jsonl")
    assert '"output":"second"' in (package.parent / "rows.jsonl").read_text(encoding="utf-8")
