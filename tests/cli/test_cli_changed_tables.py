"""A missing or another part of the tables is noticed by every reader."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonl import jsonl

CONFIG = """verdict: 1
name: t
pipeline: [{unit: MapUnit, name: judge, map: {label: source.said}}]
evaluate: {x: {prediction: output.label, target: source.label, metrics: [accuracy]}}
gates: [{metric: x.accuracy, min: 0.9}]
"""


@pytest.fixture(scope="module")
def rows() -> str:
    return jsonl({"key": row, "label": True, "said": row < 2_000} for row in range(3_000))


@pytest.fixture
def run(shell: Any, rows: str) -> Any:
    config, data = shell.write("c.yaml", CONFIG), shell.write("d.jsonl", rows)
    done = shell("run", config, data, "--out", "out")
    assert done.code == 1, done.err
    shutil.copytree(shell.folder / "out", shell.folder / "other")
    return shell


READERS = [
    ("gate", "out"),
    ("report", "out"),
    ("compare", "other", "out"),
    ("run", "c.yaml", "d.jsonl", "--out", "out"),
]


@pytest.mark.parametrize("words", READERS, ids=[words[0] for words in READERS])
def test_s3_a_table_that_is_not_the_run_s_is_noticed(words, run):
    table = run.folder / "out" / "results.parquet"
    rows = pq.read_table(table)
    pq.write_table(rows.slice(0, 2_000), table)
    done = run(*words)
    assert (done.code, "2,000 rows, and run.json says 3,000" in done.err) == (2, True), done.err
    pq.write_table(pa.concat_tables([rows.slice(0, 2_000), rows.slice(0, 1_000)]), table)
    done = run(*words)
    assert (done.code, "has changed since" in done.err) == (2, True), done.err


@pytest.mark.parametrize("words", READERS, ids=[words[0] for words in READERS])
@pytest.mark.parametrize("name", ["results.parquet", "calls.parquet"])
def test_s3_a_missing_table_is_written_again(name, words, run):
    (run.folder / "out" / name).unlink()
    run(*words)
    assert (run.folder / "out" / name).read_bytes() == (run.folder / "other" / name).read_bytes()


def test_s3_fewer_rows_in_one_file_are_noticed(shell, rows):
    config = shell.write("c.yaml", CONFIG)
    lines = rows.splitlines(keepends=True)
    for name, count in (("all", 100), ("half", 50)):
        shell("run", config, shell.write(f"{name}.jsonl", "".join(lines[:count])), "--out", name)
    shutil.copy(shell.folder / "half" / "results.parquet", shell.folder / "all" / "results.parquet")
    done = shell("gate", "all")
    assert (done.code, "50 rows, and run.json says 100" in done.err) == (2, True), done.err


def test_s20_rows_that_cannot_be_read_count_as_missing(shell):
    config = shell.write("c.yaml", CONFIG.replace("min: 0.9", "min: 0.5"))
    lines = [
        json.dumps({"key": row, "label": True, "said": True}) if row % 10 else "{"
        for row in range(50)
    ]
    data = shell.write("d.jsonl", "\n".join(lines) + "\n")
    done = shell("run", config, data, "--out", "out", "--skip-bad-rows", "--json")
    coverage = next(gate for gate in done.json()["gates"] if gate["metric"] == "run.coverage")
    assert (done.code, coverage["value"]) == (1, 0.9)
