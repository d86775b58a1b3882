"""A row's key is its content."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl
from paths import ROOT

from verdict_cli.storage.datasets.dataset import Dataset, content_key
from verdict_cli.storage.datasets.read import stream_rows

ROWS = [{"a": "one", "b": "two"}, {"a": "drei", "b": "vier ö"}]


def keys(path: Path, **settings: Any) -> list[str]:
    return [row.key for row in stream_rows(Dataset(files=(path,), **settings))]


def test_the_same_rows_have_the_same_keys_in_every_format(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "x.jsonl").write_text(jsonl(ROWS))
    (tmp_path / "x.json").write_text(json.dumps(ROWS, indent=2))
    (tmp_path / "x.csv").write_text("b,a\n" + "".join(f"{row['b']},{row['a']}\n" for row in ROWS))
    (tmp_path / "x.tsv").write_text("a\tb\n" + "".join(f"{row['a']}\t{row['b']}\n" for row in ROWS))
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "x.parquet")
    keys_of_formats = {tuple(keys(path)) for path in tmp_path.iterdir()}
    assert keys_of_formats == {tuple(map(content_key, ROWS))}


def test_how_the_pipeline_reads_a_row_does_not_change_its_key(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": "1"}\n')
    read = {"columns": {"b": "a"}, "id": "b", "cast": lambda row: {"b": f"{row['b']}!"}}
    assert keys(path, **read) == keys(path) == [content_key({"a": "1"})]


@pytest.mark.parametrize(
    "other", [{"a": 1.0}, {"a": "1"}, {"a": None}, {}, {"a": 1, "b": None}, {"b": 1}]
)
def test_other_content_has_another_key(other):
    assert content_key(other) != content_key({"a": 1})


@pytest.mark.parametrize("odd", [2**70, "\ud800", {"x": [float("nan")]}])
def test_whatever_a_row_can_hold_has_a_key(odd):
    assert (
        content_key({"a": odd, "b": 1}) == content_key({"b": 1, "a": odd}) != content_key({"b": 1})
    )


def test_another_process_finds_the_same_key():
    program = f"from verdict_cli.storage.datasets.dataset import content_key\nprint(content_key({ROWS[0]!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == content_key(ROWS[0])
