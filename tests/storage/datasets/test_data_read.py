"""What a dataset's rows are, which of them are taken, and what makes two datasets the same."""

import gzip
import io
import json
import os
import tracemalloc
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from verdict_cli.errors import DataError, OutputError, Problem, RowError
from verdict_cli.storage.datasets import files
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.local_copy import copy_stdin
from verdict_cli.storage.datasets.read import scan, stream_rows


def jsonl(path: Path, values: list[Any]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def numbered(path: Path, count: int) -> Dataset:
    return Dataset((jsonl(path, [{"n": n} for n in range(count)]),))


def problem(dataset: Dataset) -> Problem:
    with pytest.raises(DataError) as caught:
        scan(dataset)
    return caught.value.problem


def even(row: Mapping[str, Any]) -> bool:
    return bool(row["n"] % 2 == 0)


def test_rows_are_numbered_through_all_files(tmp_path):
    (tmp_path / "b.csv").write_text("n\n2\n")
    dataset = Dataset((jsonl(tmp_path / "a.jsonl", [{"n": 0}, {"n": 1}]), tmp_path / "b.csv"))
    assert [(row.index, row.id, row.source["n"]) for row in stream_rows(dataset)] == [
        (0, 0, 0),
        (1, 1, 1),
        (2, 2, "2"),
    ]
    assert scan(dataset).total == 3


def test_columns_are_renamed(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", [{"question": "q", "prompt": "p", "x": 1, "y": 2}])
    dataset = Dataset((path,), columns={"prompt": "question", "x": "y", "y": "x"}, id="prompt")
    (row,) = stream_rows(dataset)
    assert (row.id, row.source) == ("q", {"prompt": "q", "x": 2, "y": 1})
    assert set(scan(dataset).columns) == {"prompt", "x", "y"}


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_a_missing_column_names_the_nearest(tmp_path, name):
    path = tmp_path / name
    match path.suffix:
        case ".jsonl":
            jsonl(path, [{"question": 1, "id": 2}])
        case ".csv":
            path.write_text("question,id\n1,2\n")
        case _:
            pq.write_table(pa.table({"question": [1], "id": [2]}), path)
    error = problem(Dataset((path,), columns={"q": "questoin"}, required=("id", "q")))
    assert (error.code, error.file, error.line) == ("missing-column", str(path), 1)
    assert error.message == "there is no column 'questoin' ('q' in the pipeline)"
    assert error.hint == "did you mean 'question'? the columns are: question, id"


def test_a_column_missing_from_a_later_row_is_reported_there(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", [{"q": 1}, {"q": 2}, {"a": 3}])
    assert problem(Dataset((path,), required=("q",))).line == 3
    assert problem(Dataset((path,), id="q")).line == 3


def test_a_header_without_a_used_column_is_no_matter_of_skipping(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    assert problem(Dataset((path,), required=("b",), skip_bad_rows=True)).code == "missing-column"


@pytest.mark.parametrize("value", [None, True, 1.5, ["x"]])
def test_an_id_is_a_string_or_an_integer(tmp_path, value):
    path = jsonl(tmp_path / "a.jsonl", [{"k": "a"}, {"k": 7}, {"k": value}])
    dataset = Dataset((path,), id="k", skip_bad_rows=True)
    assert [row.id for row in stream_rows(dataset)] == ["a", 7]
    error = problem(replace(dataset, skip_bad_rows=False))
    assert (error.code, error.line) == ("bad-id", 3)


def test_the_schema_converts_and_refuses(tmp_path):
    def cast(row: Mapping[str, Any]) -> Mapping[str, Any]:
        if row["n"] == 2:
            raise ValueError("n: 2 is not one of 0, 1")
        return {"n": str(row["n"])}

    dataset = replace(numbered(tmp_path / "a.jsonl", 3), cast=cast, skip_bad_rows=True)
    assert [row.source for row in stream_rows(dataset)] == [{"n": "0"}, {"n": "1"}]
    assert scan(dataset).skipped == 1
    error = problem(replace(dataset, skip_bad_rows=False))
    assert (error.code, error.line, error.message) == (
        "schema",
        3,
        "the row breaks the schema: n: 2 is not one of 0, 1",
    )


def test_where_keeps_rows_under_their_own_numbers(tmp_path):
    dataset = replace(numbered(tmp_path / "a.jsonl", 5), keep=even)
    assert [row.index for row in stream_rows(dataset)] == [0, 2, 4]
    assert (scan(dataset).rows, scan(dataset).total) == (3, 5)


def test_where_that_fails_on_a_row_names_the_row(tmp_path):
    def keep(row: Mapping[str, Any]) -> bool:
        raise RowError("'x' is undefined")

    error = problem(replace(numbered(tmp_path / "a.jsonl", 2), keep=keep))
    assert (error.code, error.line) == ("where", 1)
    assert "'x' is undefined" in error.message


def test_bad_rows_are_counted_and_keep_their_numbers(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n":0}\nbroken\n\n[]\n{"n":"\xff"}\n{"n":4}\n')
    facts = scan(Dataset((path,), skip_bad_rows=True))
    assert (facts.rows, facts.total, facts.skipped) == (2, 5, 3)
    assert [row.index for row in stream_rows(Dataset((path,), skip_bad_rows=True))] == [0, 4]


def test_bad_csv_rows_are_skipped_one_by_one(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'a,b\n1,2\n3\n"4"x,5\n6,\xff\n7,8\n')
    dataset = Dataset((path,), skip_bad_rows=True)
    assert [(row.index, row.source["a"]) for row in stream_rows(dataset)] == [(0, "1"), (4, "7")]


def test_an_empty_dataset_says_why(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", [{"n": 1}, {"n": 3}])
    assert problem(Dataset((path,), keep=even)).message == "`where` leaves none of the 2 rows"
    path = jsonl(tmp_path / "b.jsonl", [1, 2])
    assert problem(Dataset((path,), skip_bad_rows=True)).message == "all 2 rows are bad"


def test_limit_takes_the_first_rows_that_pass(tmp_path):
    dataset = replace(numbered(tmp_path / "a.jsonl", 9), keep=even)
    facts = scan(dataset, limit=2)
    assert (facts.rows, facts.total) == (2, 3)
    assert [row.index for row in stream_rows(dataset, facts.selection)] == [0, 2]
    assert scan(dataset, limit=99).rows == 5


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sample=st.integers(1, 12),
    limit=st.none() | st.integers(1, 12),
    seed=st.integers(-(2**40), 2**40),
)
def test_a_sample_is_ordered_repeatable_and_of_the_requested_size(tmp_path, sample, limit, seed):
    dataset = numbered(tmp_path / "a.jsonl", 10)
    facts = scan(dataset, limit=limit, sample=sample, seed=seed)
    drawn = [row.index for row in stream_rows(dataset, facts.selection)]
    assert drawn == sorted(set(drawn))
    assert len(drawn) == facts.rows == min(sample, limit or 10, 10)
    assert all(index < (limit or 10) for index in drawn)
    assert drawn == [row.index for row in stream_rows(dataset, facts.selection)]


def test_a_sample_draws_every_row_equally_often(tmp_path):
    dataset = numbered(tmp_path / "a.jsonl", 5)
    counts = Counter(
        row.index
        for seed in range(1000)
        for row in stream_rows(dataset, scan(dataset, sample=2, seed=seed).selection)
    )
    assert all(abs(count - 400) < 80 for count in counts.values())


def test_the_fingerprint_is_of_content_and_settings_only(tmp_path):
    dataset = numbered(tmp_path / "a.jsonl", 4)
    same = replace(dataset, files=(jsonl(tmp_path / "other.jsonl", [{"n": n} for n in range(4)]),))
    os.utime(same.files[0], (0, 0))
    first = scan(dataset).fingerprint
    assert scan(same).fingerprint == first
    assert scan(dataset, seed=1).fingerprint == first
    (tmp_path / "c.jsonl").write_text("\n")
    others = [
        scan(numbered(tmp_path / "b.jsonl", 5)),
        scan(replace(dataset, files=(*dataset.files, tmp_path / "c.jsonl"))),
        scan(replace(dataset, columns={"m": "n"})),
        scan(replace(dataset, id="n")),
        scan(replace(dataset, rules="source.n > 0")),
        scan(replace(dataset, skip_bad_rows=True)),
        scan(dataset, limit=3),
        scan(dataset, sample=3),
        scan(dataset, sample=3, seed=1),
    ]
    assert len({first, *(facts.fingerprint for facts in others)}) == len(others) + 1


def test_memory_does_not_grow_with_the_rows(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", [{"n": n, "text": "x" * 500} for n in range(20_000)])
    dataset = Dataset((path,))
    tracemalloc.start()
    facts = scan(dataset, sample=10_000)
    assert sum(1 for _ in stream_rows(dataset, facts.selection)) == 10_000
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < path.stat().st_size / 2


def test_standard_input_is_saved_as_a_file(tmp_path):
    path = copy_stdin(io.BytesIO(b'{"n":1}\n'), tmp_path / "out")
    assert path == tmp_path / "out" / "input.jsonl"
    assert [row.source for row in stream_rows(Dataset((path,)))] == [{"n": 1}]
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["input.jsonl"]


def test_standard_input_that_cannot_be_saved_is_reported(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputError, match="standard input cannot be saved"):
        copy_stdin(io.BytesIO(b""), tmp_path / "out")


@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.gz", "d.csv", "d.csv.gz", "d.jsonl.zst"])
@pytest.mark.parametrize("content", [b'{"a": "%s"}\n' % (b"x" * 5000), b"\n" * 5000])
def test_a_line_and_blank_lines_are_bounded(tmp_path, monkeypatch, name, content):
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    monkeypatch.setattr(files, "MOST_BLANK_LINES", 1000)
    pack = {".gz": gzip.compress, ".zst": partial(pa.compress, codec="zstd", asbytes=True)}.get(
        Path(name).suffix, bytes
    )
    (tmp_path / name).write_bytes(pack(b'"a"\n' * name.startswith("d.csv") + content))
    error = problem(Dataset((tmp_path / name,)))
    assert error.code == "too-long"
    assert error.line in (1, 2, 1001, 1002)


def test_scattered_blank_lines_do_not_add_up(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_BLANK_LINES", 10)
    path = tmp_path / "d.jsonl"
    path.write_text(('{"a": 1}\n' + "\n" * 10) * 3)
    assert [row.source["a"] for row in stream_rows(Dataset((path,)))] == [1, 1, 1]


@pytest.mark.parametrize(
    "line",
    ['{"a": 1, "a": 2}', '{"a": 1, "b": {"c": "\\"", "c": 3}}', '{"a": [{"b": "", "\\u0062": 1}]}'],
)
def test_a_duplicate_key_of_a_row_is_an_error(tmp_path, line):
    path = tmp_path / "d.jsonl"
    path.write_text(f'{{"a": 0}}\n{line}\n')
    error = problem(Dataset((path,)))
    assert (error.code, error.line) == ("duplicate-key", 2)


def test_integers_of_any_size_stay_exact(tmp_path):
    path = jsonl(
        tmp_path / "d.jsonl",
        [{"n": 2**64 + 1, "text": 'a \\ "quoted" \u00e4 text'}, {"n": -(10**40)}],
    )
    dataset = Dataset((path,))
    scan(dataset)
    assert [row.source["n"] for row in stream_rows(dataset)] == [2**64 + 1, -(10**40)]


@pytest.mark.parametrize(
    "line", ['{"n": 1.5, "m": 18446744073709551617}', '{"n": [18446744073709551617]}']
)
def test_a_large_integer_beside_a_fraction_or_in_a_list_stays_exact(tmp_path, line):
    path = tmp_path / "d.jsonl"
    path.write_text(f"{line}\n")
    assert [row.source for row in stream_rows(Dataset((path,)))] == [json.loads(line)]


def test_a_scan_draws_rows_of_the_whole_file_in_their_order(tmp_path):
    path = jsonl(tmp_path / "d.jsonl", [{"n": n} for n in range(2000)])
    rows = list(stream_rows(Dataset((path,))))
    counts = [0] * 4
    for seed in range(20):
        drawn = scan(Dataset((path,)), seed=seed, draw=100).drawn
        assert len(drawn) == len({row.index for row in drawn}) == 100
        assert list(drawn) == [rows[row.index] for row in sorted(drawn, key=lambda row: row.index)]
        for row in drawn:
            counts[row.index // 500] += 1
    assert all(400 <= count <= 600 for count in counts), (
        counts
    )  # 500 each, with a standard deviation of 19
    assert scan(Dataset((path,)), draw=5000).drawn == tuple(rows)
    assert scan(Dataset((path,))).drawn == ()
