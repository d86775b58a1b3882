"""A table gives back what was written into it."""

import csv
import errno
import json
import math
import random
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from verdict_cli.errors import DataError, OutputError, UsageError
from verdict_cli.storage.tables.reader import export_table, read_arrow, read_table, table_columns
from verdict_cli.storage.tables.writer import ParquetTable

Rows = list[dict[str, Any]]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(codec=None), max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
names = st.sampled_from(["a", "c", "c.d", "e[0]"])
tables = st.lists(st.dictionaries(names, values, min_size=1), max_size=8)
narrow = st.lists(
    st.dictionaries(names, st.none() | st.integers(0, 3) | st.floats(0, 1), min_size=1), max_size=12
)


def write(path: Path, rows: Rows, row_group: int = 5000, **settings: Any) -> Path:
    with ParquetTable(path, row_group=row_group, **settings) as table:
        for row in rows:
            table.write(row)
    return path


def read(path: Path, columns: list[str] | None = None, batch: int = 3) -> Rows:
    return [
        dict(zip(part, cells, strict=True))
        for part in read_table(path, columns, batch)
        for cells in zip(*part.values(), strict=True)
    ]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=tables | narrow, row_group=st.integers(1, 4))
def test_any_values_come_back(tmp_path, rows, row_group):
    path = write(tmp_path / "t.parquet", rows, row_group)
    order = list(dict.fromkeys(name for row in rows for name in row))
    expected = [{name: row.get(name) for name in order} for row in rows]
    assert table_columns(path) == tuple(order)
    assert same(read(path), expected)
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.parquet"]
    if order:
        last = order[-1]
        assert same(read(path, [last]), [{last: row[last]} for row in expected])


@pytest.mark.parametrize(
    ("cells", "arrow"),
    [
        ([None, None], pa.null()),
        ([None, True], pa.bool_()),
        ([1, None, -(2**63)], pa.int64()),
        ([1, 2**63], pa.string()),
        ([1, 0.5], pa.float64()),
        ([0.5, 2**53], pa.float64()),
        ([2**53 + 1, 0.5], pa.string()),
        ([0.5, 2**53 + 1], pa.string()),
        (["a", None], pa.string()),
        ([True, 1], pa.string()),
        (["a", 1], pa.string()),
        ([[1], None], pa.string()),
        (["\ud800"], pa.string()),
    ],
)
@pytest.mark.parametrize("row_group", [1, 10])
def test_a_column_takes_the_narrowest_kind(tmp_path, cells, arrow, row_group):
    path = write(tmp_path / "t.parquet", [{"x": cell} for cell in cells], row_group)
    assert pq.read_schema(path).field("x").type == arrow
    assert [row["x"] for row in read(path)] == cells


def test_rows_are_written_one_by_one_or_by_column(tmp_path):
    rows: Rows = [{"x": 1, "y": [2]}, {"y": None, "z": "é"}, {"y": "3", "z": None}]
    one_by_one = write(tmp_path / "a.parquet", rows).read_bytes()
    with ParquetTable(tmp_path / "b.parquet") as table:
        table.add({"x": [1], "y": [[2]]})
        table.add({"y": (None, "3"), "z": ("é", None)})
    assert (tmp_path / "b.parquet").read_bytes() == one_by_one


def test_any_mapping_is_written(tmp_path):
    cell = MappingProxyType({"a": MappingProxyType({"b": (1, 2)})})
    assert read(write(tmp_path / "t.parquet", [{"x": cell}])) == [{"x": {"a": {"b": [1, 2]}}}]


def test_every_cell_of_a_json_column_is_json(tmp_path):
    rows: Rows = [{"x": "1"}, {"x": None}, {"x": 1}, {"x": {"b": 1, "a": 2}}]
    path = write(tmp_path / "t.parquet", rows, 1)
    column = pq.read_table(path).column("x")
    assert column.to_pylist() == ['"1"', None, "1", '{"b":1,"a":2}']
    assert pq.read_schema(path).field("x").metadata[b"verdict"] == b"json"


def test_numbers_that_a_stranger_marks_as_json_stay_numbers(tmp_path):
    marked = pa.field("x", pa.int64(), metadata={"verdict": "json"})
    pq.write_table(pa.table({"x": [1, 2]}, pa.schema([marked])), tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet") == [{"x": 1}, {"x": 2}]


def test_a_missing_column_is_told_also_where_arrow_is_read(tmp_path):
    path = write(tmp_path / "t.parquet", [{"score": 1}])
    with pytest.raises(DataError) as missing:
        list(read_arrow(path, ["score", "scor"]))
    assert "there is no column 'scor'" in str(missing.value)


def test_plain_text_is_not_json(tmp_path):
    path = write(tmp_path / "t.parquet", [{"x": "1"}])
    assert not pq.read_schema(path).field("x").metadata


def test_the_row_groups_do_not_change_the_values_or_kinds(tmp_path):
    rows: Rows = [{"x": 1}, {"x": 2, "y": None}, {"x": 0.5, "y": "a"}, {"y": 3}]
    schemas = {
        str(pq.read_schema(write(tmp_path / f"{n}.parquet", rows, n))) for n in (1, 2, 3, 10)
    }
    assert len(schemas) == 1


def test_equal_rows_give_equal_bytes(tmp_path):
    rows = [{"x": n, "y": None if n < 5 else "late", "z": {"n": n}} for n in range(10)]
    first = write(tmp_path / "a.parquet", rows, 3).read_bytes()
    assert write(tmp_path / "b.parquet", rows, 3).read_bytes() == first


def test_requested_columns_are_there_and_come_first(tmp_path):
    path = write(
        tmp_path / "t.parquet", [{"x": 1, "f": 1}], columns={"e": "str", "f": "float", "j": "json"}
    )
    assert table_columns(path) == ("e", "f", "j", "x")
    assert [str(field.type) for field in pq.read_schema(path)] == [
        "string",
        "double",
        "string",
        "int64",
    ]
    assert table_columns(write(tmp_path / "u.parquet", [], columns={"e": "str"})) == ("e",)


def test_long_texts_are_not_in_memory_until_the_row_group_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr("verdict_cli.storage.tables.writer._GROUP_BYTES", 1000)
    rows: Rows = [{"x": "y" * 600, "z": ["y" * 600]} for _ in range(4)]
    path = write(tmp_path / "t.parquet", rows)
    assert pq.ParquetFile(path).num_row_groups == 4
    assert read(path) == rows


def test_long_texts_after_a_short_one_are_not_in_memory_until_the_row_group_is_full(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("verdict_cli.storage.tables.writer._GROUP_BYTES", 50_000)
    texts = ["", "y" * 1000] * 100
    with ParquetTable(tmp_path / "t.parquet") as table:
        for _ in range(4):
            table.add({"x": texts})
    assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups == 4
    assert read(tmp_path / "t.parquet") == [{"x": text} for text in texts * 4]


def test_an_exception_leaves_no_file(tmp_path):
    with pytest.raises(KeyError), ParquetTable(tmp_path / "t.parquet", row_group=1) as table:
        table.write({"x": 1})
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_an_exception_leaves_the_earlier_table(tmp_path):
    path = write(tmp_path / "t.parquet", [{"x": 1}])
    with pytest.raises(KeyError), ParquetTable(path) as table:
        table.write({"x": 2})
        raise KeyError
    assert read(path) == [{"x": 1}]


def test_what_a_killed_run_left_is_removed(tmp_path):
    (tmp_path / "t.parquet.part").write_text("cut off")
    (tmp_path / "t.parquet.part2").write_text("cut off")
    write(tmp_path / "t.parquet", [{"x": 1}])
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.parquet"]


def test_a_full_disk_names_the_table(tmp_path, monkeypatch):
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(
        OutputError, match=r"t\.parquet: the table cannot be written: No space left"
    ):
        write(tmp_path / "t.parquet", [{"x": 1}])
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_place_of_the_directory_is_reported(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        write(tmp_path / "out" / "t.parquet", [{"x": 1}])


def test_an_unknown_column_names_the_nearest(tmp_path):
    path = write(tmp_path / "t.parquet", [{"judge.score": 1}])
    with pytest.raises(DataError, match=r"did you mean 'judge\.score'\?"):
        read(path, ["judge.scor"])


def test_reading_another_file_says_it_is_no_table(tmp_path):
    (tmp_path / "t.parquet").write_text("x\n")
    with pytest.raises(DataError, match="not a Parquet file"):
        read(tmp_path / "t.parquet")


MIXED: Rows = [
    {"id": 1, "text": 'a,"b"\nc', "mixed": "word", "ok": True, "score": 0.5},
    {"id": 2, "text": None, "mixed": {"a": [1]}, "ok": None, "score": None},
]


def test_export_to_jsonl_keeps_nulls(tmp_path):
    export_table(write(tmp_path / "t.parquet", MIXED), tmp_path / "t.jsonl")
    assert [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()] == MIXED


def test_export_to_jsonl_is_json_for_every_value(tmp_path):
    def refused(name: str) -> None:
        raise AssertionError(name)

    odd = [{"x": [2**70, math.nan], "s": "\ud800"}]
    export_table(write(tmp_path / "t.parquet", odd), tmp_path / "t.jsonl")
    line = (tmp_path / "t.jsonl").read_text()
    assert json.loads(line, parse_constant=refused) == {"x": [2**70, None], "s": "\ud800"}


def test_export_to_csv(tmp_path):
    export_table(write(tmp_path / "t.parquet", MIXED), tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["id", "text", "mixed", "ok", "score"],
            ["1", 'a,"b"\nc', "word", "true", "0.5"],
            ["2", "", '{"a":[1]}', "", ""],
        ]


def test_export_to_another_ending_is_refused(tmp_path):
    path = write(tmp_path / "t.parquet", MIXED)
    with pytest.raises(UsageError, match=r"\.csv or \.jsonl"):
        export_table(path, tmp_path / "t.xlsx")


def test_export_to_where_nothing_can_be_written_is_reported(tmp_path):
    path = write(tmp_path / "t.parquet", MIXED)
    with pytest.raises(OutputError, match="cannot be written"):
        export_table(path, tmp_path / "nowhere" / "t.csv")


def test_no_flipped_bit_in_the_data_of_a_table_goes_unnoticed(tmp_path):
    path = write(
        tmp_path / "t.parquet", [{"row": place, "score": place % 7} for place in range(2000)]
    )
    content = path.read_bytes()
    errors, chosen = 0, random.Random(0)
    for _ in range(60):
        damaged = bytearray(content)
        damaged[chosen.randrange(4, len(content) // 2)] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        try:
            rows = read(path)
        except DataError:
            errors += 1
        else:
            assert rows == [{"row": place, "score": place % 7} for place in range(2000)]
    assert errors > 50
