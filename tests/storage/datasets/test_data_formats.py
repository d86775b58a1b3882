"""Each format gives the same rows, and tells its own troubles with file and line."""

import csv
import datetime
import decimal
import gzip
import io
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paths import ROOT

from verdict_cli.errors import DataError, Problem
from verdict_cli.storage.datasets import json_files
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import scan, stream_rows

ROWS = [{"q": "2+2?", "a": "4"}, {"q": 'größer,\n"quoted"', "a": ""}, {"q": " \t", "a": "null"}]


def lines(values: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def separated(values: list[dict[str, Any]], delimiter: str = ",") -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(values[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(values)
    return out.getvalue().encode()


def sources(path: Path) -> list[Any]:
    dataset = Dataset((path,))
    facts = scan(dataset)
    read = list(stream_rows(dataset, facts.selection))
    assert facts.rows == facts.total == len(read)
    assert [row.index for row in read] == [row.id for row in read] == list(range(len(read)))
    return [row.source for row in read]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def trouble(path: Path, content: bytes) -> Problem:
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        scan(Dataset((path,)))
    assert caught.value.problem.file == str(path)
    return caught.value.problem


zstd = partial(pa.compress, codec="zstd", asbytes=True)
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".zst": lambda data: zstd(data[:5]) + zstd(data[5:]),
}


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(
    ("ending", "content"),
    [
        (".jsonl", lines(ROWS)),
        (".ndjson", lines(ROWS).replace(b"\n", b"\r\n\r\n")),
        (".json", json.dumps(ROWS, indent=1).encode()),
        (".csv", separated(ROWS)),
        (".tsv", separated(ROWS, "\t")),
    ],
)
def test_every_text_format_reads_the_same(tmp_path, ending, content, packing, bom):
    assert sources(write(tmp_path / f"d{ending}{packing}", PACKED[packing](bom + content))) == ROWS


def test_the_last_line_needs_no_line_end(tmp_path):
    assert sources(write(tmp_path / "d.jsonl", lines(ROWS).rstrip())) == ROWS
    assert sources(write(tmp_path / "d.csv", separated(ROWS).rstrip())) == ROWS


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cells=st.lists(
        st.tuples(st.text(), st.text()).filter(lambda row: "".join(row).strip()), min_size=1
    ),
    delimiter=st.sampled_from(",\t"),
)
def test_any_text_of_rows_that_are_not_blank_survives_csv(tmp_path, cells, delimiter):
    values = [{"a": a, "b": b} for a, b in cells]
    path = tmp_path / ("d.csv" if delimiter == "," else "d.tsv")
    assert sources(write(path, separated(values, delimiter))) == values


def test_json_values_keep_their_types(tmp_path):
    values = [{"a": [1, 2.5, None, {"b": True}], "n": 2**63}]
    assert sources(write(tmp_path / "d.jsonl", lines(values))) == values


def test_a_cell_longer_than_the_csv_default_is_read(tmp_path):
    values = [{"a": "x" * 300_000}]
    assert sources(write(tmp_path / "d.csv", separated(values))) == values


def test_parquet_gives_plain_values(tmp_path):
    path = tmp_path / "d.parquet"
    table = pa.table(
        {
            "n": [1, None],
            "list": [["a"], []],
            "day": [datetime.date(2024, 5, 1), None],
            "at": [datetime.datetime(2024, 5, 1, 12), None],
            "price": [decimal.Decimal("1.50"), None],
            "raw": [b"text", None],
            "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "word": pa.array(["x", "x"]).dictionary_encode(),
        }
    )
    pq.write_table(table, path)
    nothing = dict.fromkeys(table.column_names)
    assert sources(path) == [
        {
            "n": 1,
            "list": ["a"],
            "day": "2024-05-01",
            "at": "2024-05-01T12:00:00",
            "price": 1.5,
            "raw": "text",
            "map": {"k": 1},
            "word": "x",
        },
        nothing | {"list": [], "word": "x"},
    ]


def test_bytes_that_are_no_text_are_reported_with_their_row(tmp_path):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"raw": [b"ok", b"\xff"]}), path)
    with pytest.raises(DataError) as caught:
        scan(Dataset((path,), required=("raw",)))
    assert (caught.value.problem.code, caught.value.problem.line) == ("bad-encoding", 2)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("d.jsonl", b'{"a":1}\n\n{"a":\n', ("broken-json", 3, "not valid JSON")),
        ("d.jsonl", b'{"a":1}\n{"a":NaN}\n', ("broken-json", 2, "write null")),
        ("d.jsonl", b'{"a":1}\n[1]\n', ("not-an-object", 2, "this is a list")),
        ("d.jsonl", b'{"a":1}\nnull\n', ("not-an-object", 2, "this is null")),
        ("d.jsonl", b'{"a":1}\n{"a":"\xfc"}\n', ("bad-encoding", 2, "byte 0xfc at byte 7")),
        ("d.jsonl", b"", ("empty-dataset", 0, "no rows")),
        ("d.jsonl", b"\n \r\n", ("empty-dataset", 0, "no rows")),
        ("d.json", b"[]", ("empty-dataset", 0, "no rows")),
        ("d.json", b'{"a":1}\n{"a":2}\n', ("json-lines", 0, "let its name end in .jsonl")),
        ("d.json", b'{"a":\n1}', ("not-an-array", 0, "found one object")),
        ("d.json", b"3", ("not-an-array", 0, "an array of objects")),
        ("d.json", b'[{"a":1},\n{"a":]', ("broken-json", 2, "not valid JSON")),
        ("d.json", b'[{"a":"]["}\n\n,\n{"a":1},4]', ("not-an-object", 4, "this is a number")),
        ("d.json", b'[{"a":"\xfc"}]', ("bad-encoding", 1, "0xfc")),
        ("d.csv", b"", ("empty-dataset", 0, "no rows")),
        ("d.csv", b"a,b\n", ("empty-dataset", 0, "no rows")),
        ("d.csv", b'a,b\n"1\n",2\n3\n', ("cell-count", 4, "has 1 cells, the header has 2")),
        ("d.csv", b"a,b\n1,2\n\n3,4,5\n", ("cell-count", 4, "has 3 cells")),
        ("d.csv", b'a,b\n1,2\n3,"4\n', ("broken-csv", 3, "closing")),
        ("d.csv", b"a,b\n1,2\n3,\xfc\n", ("bad-encoding", 3, "0xfc")),
        ("d.csv", b",\n1,2\n", ("bad-header", 1, "names no column")),
        ("d.jsonl", b'{"a":1},\n{"a":2}\n', ("broken-json", 1, "not valid JSON")),
        ("d.csv", b"a,a\n1,2\n", ("bad-header", 1, "names 'a' twice")),
        ("d.tsv", b"a\tb\n1\n", ("cell-count", 2, "a tab")),
        ("d.parquet", b"a,b\n1,2\n", ("not-parquet", 0, "not a Parquet file")),
        ("d.parquet", b"", ("not-parquet", 0, "not a Parquet file")),
        ("d.parquet", b"PAR1" + b"\0" * 50 + b"PAR1", ("not-parquet", 0, "damaged")),
        ("d.csv.gz", b"a,b\n1,2\n", ("broken-gzip", 0, "damaged or cut off")),
        ("d.csv.zst", b"a,b\n1,2\n", ("broken-zst", 0, "damaged or cut off")),
    ],
)
def test_trouble_names_its_file_and_line(tmp_path, name, content, expected):
    code, line, words = expected
    problem = trouble(tmp_path / name, content)
    assert (problem.code, problem.line) == (code, line)
    assert words in f"{problem.message} {problem.hint}"


@pytest.mark.parametrize(("ending", "code"), [(".gz", "broken-gzip"), (".zst", "broken-zst")])
def test_a_truncated_archive_names_its_file(tmp_path, ending, code):
    packed = PACKED[ending](lines(ROWS * 100))
    for cut in (10, len(packed) // 2, len(packed) - 1):
        assert trouble(tmp_path / f"d.jsonl{ending}", packed[:cut]).code == code


def test_a_damaged_gzip_names_its_file(tmp_path):
    packed = bytearray(gzip.compress(lines(ROWS * 100)))
    packed[40] ^= 0xFF
    assert trouble(tmp_path / "d.jsonl.gz", bytes(packed)).code in {"broken-gzip", "broken-json"}


def test_a_missing_file_is_reported(tmp_path):
    for name in ("d.jsonl", "d.csv.gz", "d.parquet"):
        with pytest.raises(DataError, match="there is no such file"):
            scan(Dataset((tmp_path / name,)))


def test_importing_data_and_reading_jsonl_need_no_heavy_module(tmp_path):
    path = write(tmp_path / "d.jsonl", lines(ROWS))
    program = (
        "import sys, pathlib\n"
        "from verdict_cli.storage.datasets.dataset import Dataset; from verdict_cli.storage.datasets.files import find_files as locate; from verdict_cli.storage.datasets.read import scan\n"
        "scan(Dataset(locate(sys.argv[1])))\n"
        "print([name for name in ('pyarrow', 'pandas', 'numpy') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_a_parquet_file_with_two_columns_of_one_name_is_refused(tmp_path):
    path = tmp_path / "d.parquet"
    pq.write_table(
        pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["id", "a", "a"]), path
    )
    for read in (lambda: list(stream_rows(Dataset((path,)))), lambda: scan(Dataset((path,)))):
        with pytest.raises(DataError, match="two columns are named 'a'") as caught:
            read()
        assert caught.value.problem.file == str(path) and caught.value.problem.hint


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
def test_an_array_is_read_in_pieces_of_any_size(size, tmp_path, monkeypatch):
    rows = [
        {"a": ']}\\"\u00e4\U0001f600', "n": [1.5e3, {"b": None}], "i": 2**70},
        {},
        {"c": "x" * 300},
    ] * 3
    path = write(
        tmp_path / "d.json",
        b" \n " + json.dumps(rows, indent=1, ensure_ascii=False).encode() + b"\n",
    )
    monkeypatch.setattr(json_files, "_CHUNK", size)
    assert sources(path) == rows
    text = b'[{"a":1},\n\n {"b": 2},{"b":\n1, "b":2}]'
    assert trouble(tmp_path / "e.json", text).code == "duplicate-key"
    for place, line in enumerate((1, 3, 3)):
        assert json_files.line_of(tmp_path / "e.json", place) == line


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'[{"a":1} {"a":2}]', (1, 10, "expected a comma")),
        (b'[{"a":1},\n {"a":2}] 3', (2, 11, "after the array")),
        (b'[{"a":1},\n {"a":tru', (2, 7, "Expecting value")),
        (b'[{"a":1},\n {"a":"b', (2, 7, "Unterminated string")),
        (b'[{"a":NaN}]', (1, 7, "write null")),
        (b'[{"a":1},]', (1, 10, "Expecting value")),
        (b'[{"a":1},\n{"a":"\xfc"]', (2, 9, "")),
        (b"[" * 100_000, (1, 2, "nested too deeply")),
    ],
)
def test_an_array_that_is_broken_is_reported_with_its_place(content, expected, tmp_path):
    error = trouble(tmp_path / "d.json", content)
    assert (error.line, error.column) == expected[:2], error
    assert expected[2] in f"{error.message} {error.hint}"


def test_an_array_of_any_length_takes_bounded_memory(tmp_path):
    path = tmp_path / "d.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"[")
        for _ in range(60):
            file.write(b'{"a": "' + b"x" * 1_000_000 + b'"},\n')
        file.write(b'{"a": 1}]')
    tracemalloc.start()
    try:
        assert scan(Dataset((path,))).rows == 61
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_an_item_without_end_is_left_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "LONGEST_LINE", 1_000_000)
    error = trouble(tmp_path / "d.json", b'[{"a":1},\n{"a":"' + b"x" * 5_000_000 + b'"}]')
    assert (error.code, error.line) == ("too-long", 2)
