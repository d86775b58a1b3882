"""Findings S7, S22: the same rows from Parquet as from JSONL, and rows that are too large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonl import jsonl

from verdict_cli.errors import DataError
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import stream_rows

ROWS: list[dict[str, Any]] = [
    {"calls": [{"name": "find", "arguments": {"from": "Linz"}}], "meta": {"a": 1}},
    {
        "calls": [{"name": "book", "arguments": {"id": 7, "when": {"day": "Monday"}}}],
        "meta": {"b": None, "c": "x"},
    },
    {"calls": [], "meta": None},
]


def sources(path: Path) -> list[Any]:
    return [row.source for row in stream_rows(Dataset((path,)))]


def without_nulls(value: Any, depth: int = 0) -> Any:
    if isinstance(value, dict):
        return {
            key: without_nulls(item, depth + 1)
            for key, item in value.items()
            if item is not None or not depth
        }
    return [without_nulls(item, depth + 1) for item in value] if isinstance(value, list) else value


def test_s7_a_null_field_below_the_top_level_is_an_absent_key(tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl").write_text(jsonl(ROWS))
    assert sources(tmp_path / "rows.parquet") == [
        without_nulls(row) for row in sources(tmp_path / "rows.jsonl")
    ]


def test_s7_a_null_column_stays_a_column(tmp_path):
    pq.write_table(
        pa.Table.from_pylist([{"a": 1, "b": None}, {"a": None, "b": "x"}]),
        tmp_path / "rows.parquet",
    )
    assert sources(tmp_path / "rows.parquet") == [{"a": 1, "b": None}, {"a": None, "b": "x"}]


def test_s15_nan_in_a_table_is_null(tmp_path):
    pq.write_table(pa.table({"score": [1.0, float("nan")]}), tmp_path / "rows.parquet")
    assert sources(tmp_path / "rows.parquet") == [{"score": 1.0}, {"score": None}]


def test_s22_a_row_with_millions_of_values_in_a_kilobyte_is_refused_unread(tmp_path):
    values = pa.array([[0] * 40_000_000], pa.list_(pa.int8()))
    pq.write_table(pa.table({"many": values}), tmp_path / "rows.parquet", compression="zstd")
    assert (tmp_path / "rows.parquet").stat().st_size < 100_000
    with pytest.raises(DataError, match="are too large"):
        sources(tmp_path / "rows.parquet")
