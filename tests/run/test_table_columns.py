"""Tables of earlier versions: a column that they lack is read as null, and any other missing column is told."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec import structs
from paths import ROOT

from verdict_cli.errors import DataError
from verdict_cli.run.digests import write_digests
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.tables.reader import read_arrow, read_table

pytestmark = pytest.mark.slow

PIPELINE = """verdict: 1
name: p
model: baseline/lexical
pipeline: [{unit: JudgeUnit, name: seconds, prompt: '{source.q}'}]
evaluate: {e: {prediction: output.score, target: source.label, metrics: [accuracy]}}
"""
LATER_RESULT = """
    RunColumn(
        "seconds", "float", lambda result: sum(call.latency_s for call in result.calls), "how long its calls took",
        since="9.9", title="Seconds",
    ),
"""
LATER_CALL = """
    RunColumn("wait_s", "float", lambda call: 0.0, "how long it waited", since="9.9"),
"""


def verdict(package: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "verdict_cli", *map(str, arguments)]
    return subprocess.run(
        command, check=False, cwd=package, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def old_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    (folder / "p.yaml").write_text(PIPELINE, encoding="utf-8")
    rows = [json.dumps({"q": f"a{number}", "label": 3}) for number in range(4)]
    (folder / "d.jsonl").write_text("\n".join(rows), encoding="utf-8")
    result = verdict(
        ROOT,
        "run",
        folder / "p.yaml",
        folder / "d.jsonl",
        "--out",
        folder / "run",
        "--no-cache",
        "-q",
    )
    assert result.returncode == 0, result.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def later_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with one more column of results, and one more of calls."""
    folder = tmp_path_factory.mktemp("later")
    for name in ("verdict_cli", "schemas"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    table = folder / "verdict_cli/storage/tables/run_columns.py"
    text = table.read_text(encoding="utf-8")
    for start, line in (("RESULT_COLUMNS = (", LATER_RESULT), ("CALL_COLUMNS = (", LATER_CALL)):
        assert text.count(f"\n{start}\n") == 1
        text = text.replace(f"\n{start}\n", f"\n{start}{line}", 1)
    table.write_text(text, encoding="utf-8")
    return folder


def test_a_run_without_a_later_column_is_reported(old_run, later_package, tmp_path):
    shutil.copytree(old_run, tmp_path / "run")
    result = verdict(later_package, "report", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert "accuracy" in result.stdout


def test_a_new_run_has_a_later_column_in_its_table_and_its_report(old_run, later_package, tmp_path):
    out = tmp_path / "new"
    config, data = old_run.parent / "p.yaml", old_run.parent / "d.jsonl"
    result = verdict(later_package, "run", config, data, "--out", out, "--no-cache", "-q")
    assert result.returncode == 0, result.stderr
    assert {"seconds", "seconds.score"} <= set(pq.read_schema(out / "results.parquet").names)
    assert "wait_s" in pq.read_schema(out / "calls.parquet").names
    assert "Seconds" in (out / "report.html").read_text(encoding="utf-8")


def without(run: Path, table: str, column: str, to: Path) -> Path:
    """A copy of the run whose table lacks the column, with the digests of a run that wrote it so."""
    shutil.copytree(run, to)
    whole = pq.read_table(to / table)
    pq.write_table(whole.drop_columns([column]), to / table)
    directory = RunDirectory(to)
    facts = directory.facts()
    assert facts is not None
    write_digests(directory, structs.replace(facts, digests={}), tuple(facts.digests))
    (to / "run.db").unlink()
    return to


def test_calls_without_the_later_column_usage_note_are_read_with_nulls(old_run, tmp_path):
    run = without(old_run, "calls.parquet", "usage_note", tmp_path / "run")
    assert verdict(ROOT, "report", run).returncode == 0
    names = ("unit", "usage_note")
    (batch,) = read_table(run / "calls.parquet", names)
    assert batch == {"unit": ["seconds"] * 4, "usage_note": [None] * 4}
    (arrow,) = read_arrow(run / "calls.parquet", names)
    assert arrow.column("usage_note").null_count == arrow.num_rows == 4
    (only,) = read_table(run / "calls.parquet", ["usage_note"])
    assert only == {"usage_note": [None] * 4}


def test_a_table_without_a_column_of_every_version_is_refused(old_run, tmp_path):
    run = without(old_run, "results.parquet", "calls", tmp_path / "run")
    result = verdict(ROOT, "report", run)
    assert result.returncode == 2
    assert "there is no column 'calls'" in result.stderr
    with pytest.raises(DataError):
        list(read_table(run / "results.parquet", ["calls"]))
