"""Commands, options, report sections, file keys and importers from another package: one file and one entry point each.

Units, scales, extractors and metrics: tests/language/file/test_spec_offered.py; providers and middleware: tests/llm/test_doors.py;
engines and stores: tests/run/engines/test_engine_plugins.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SOURCE = '''
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated

import typer

from verdict_cli.report.document import Note, Section


def greet(name: Annotated[str, typer.Argument(help="Who.")]) -> None:
    """Greet somebody.

    Example: verdict greet Ada
    """
    print(f"hello {name}")


@dataclass(frozen=True, kw_only=True)
class Shout:
    """An option of `verdict run`."""

    shout: Annotated[bool, typer.Option("--shout", help="Say what runs.")] = False

    def applied(self, call):
        if self.shout:
            print(f"RUNNING {call.options['config']}".upper())
        return nullcontext()


def pace(report, context):
    yield Section("Pace", [Note(f"{report.facts.rows} rows, as another package counts them")])


def read_lines(path):
    for index, line in enumerate(path.read_text().splitlines()):
        yield {"id": index, "input": None, "output": line, "messages": None, "target": None, "scores": {}, "model": None, "metadata": {}}
'''
KEYS = '''
from verdict_cli.config_model import ConfigModel


class Tier(ConfigModel):
    """A key of a model."""

    tier: str = "basic"
    """Which contract pays."""
'''
ENTRY_POINTS = """
[verdict_cli.commands]
greet = extra_parts:greet
[verdict_cli.run_options]
shout = extra_parts:Shout
[verdict_cli.sections]
Pace = extra_parts:pace
[verdict_cli.file_keys]
Model.tier = extra_keys:Tier
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
    (folder / "extra_keys.py").write_text(KEYS)
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


def test_a_command_is_listed_and_runs(package: Path) -> None:
    assert "greet" in run(package, "--help")
    assert run(package, "greet", "Ada") == "hello Ada\n"


def test_an_option_and_a_section_reach_the_run_and_its_report(package: Path) -> None:
    out = run(
        package,
        "run",
        "xstest",
        "xstest_sample",
        "--model",
        "baseline/lexical",
        "--out",
        "out",
        "--shout",
    )
    assert out.startswith("RUNNING") and "as another package counts them" in out
    assert "as another package counts them" in (package.parent / "out" / "report.md").read_text(
        encoding="utf-8"
    )


def test_an_importer_reads_its_format(package: Path) -> None:
    (package.parent / "log.txt").write_text("first\nsecond\n")
    run(package, "import", "lines", "log.txt", "--out", "rows.jsonl")
    assert '"output":"second"' in (package.parent / "rows.jsonl").read_text(encoding="utf-8")


def test_a_key_of_a_file_is_checked_and_in_the_schema(package: Path) -> None:
    file = package.parent / "keyed.yaml"
    head = "verdict: 1\nname: t\npipeline: [{unit: JudgeUnit, prompt: x}]\nmodel: {name: baseline/lexical, tier: "
    file.write_text(head + "gold}\n")
    assert "valid" in run(package, "validate", "keyed.yaml")
    assert "Which contract pays." in run(package, "schema", "pipeline")
    file.write_text(head + "[1]}\n")
    with pytest.raises(AssertionError, match=r"model.tier: expected a text, found a list"):
        run(package, "validate", "keyed.yaml")
