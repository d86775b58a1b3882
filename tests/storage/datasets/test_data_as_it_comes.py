"""Files as other tools write them: each is read, or the error leads to its rows."""

from __future__ import annotations

import datetime
import decimal
import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from verdict_cli.errors import DataError, Problem
from verdict_cli.storage.datasets import seen_ids
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts
from verdict_cli.storage.datasets.read import scan, stream_rows
from verdict_cli.storage.datasets.seen_ids import SeenIds


def read(
    path: Path, content: bytes | None = None, **keys: Any
) -> tuple[list[dict[str, Any]], DatasetFacts]:
    if content is not None:
        path.write_bytes(content)
    dataset = Dataset((path,), **keys)
    facts = scan(dataset)
    return [dict(row.source) for row in stream_rows(dataset, facts.selection)], facts


def problem(path: Path, content: bytes | None = None, **keys: Any) -> Problem:
    with pytest.raises(DataError) as caught:
        read(path, content, **keys)
    return caught.value.problem


def codes(facts: DatasetFacts) -> list[str]:
    return [note.code for note in facts.notes]


TWO = [{"k": "1", "q": "hello"}, {"k": "2", "q": "world"}]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("name", ["d.csv", "d.tsv", "d.csv.gz"])
def test_lines_end_as_any_spreadsheet_program_ends_them(
    tmp_path: Path, end: bytes, last: bool, name: str
) -> None:
    mark = b"\t" if ".tsv" in name else b","
    content = end.join(
        mark.join(cells) for cells in ((b"k", b"q"), (b"1", b"hello"), (b"2", b"world"))
    )
    content += end if last else b""
    rows, _ = read(tmp_path / name, gzip.compress(content) if name.endswith(".gz") else content)
    assert rows == TWO


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.csv", b"k,q\r1,hello\r2,world\r"),
        ("d.jsonl", b'{"k":"1","q":"hello"}\r{"k":"2","q":"world"}\r'),
    ],
)
def test_lines_that_end_with_a_carriage_return_alone_are_refused(
    tmp_path: Path, name: str, content: bytes
) -> None:
    assert "line" in problem(tmp_path / name, content).hint


def test_a_cell_in_quotes_keeps_its_line_breaks_and_carriage_returns(tmp_path: Path) -> None:
    assert read(tmp_path / "d.csv", b'k,q\n1,"a\rb"\n2,"c\nd"\n')[0] == [
        {"k": "1", "q": "a\rb"},
        {"k": "2", "q": "c\nd"},
    ]
    assert read(tmp_path / "h.csv", b'"a\rb",q\n1,2\n')[0] == [{"a\rb": "1", "q": "2"}]


def test_a_carriage_return_within_a_cell_without_quotes_is_named(tmp_path: Path) -> None:
    error = problem(tmp_path / "d.csv", b"k,q\n1,hel\rlo\n2,world\n")
    assert (error.code, error.line) == ("broken-csv", 2)
    assert "carriage return" in error.message
    assert "universal-newline" not in error.message


@pytest.mark.parametrize("name", ["d.csv", "d.tsv", "d.jsonl", "d.json"])
@pytest.mark.parametrize(
    ("start", "what"),
    [
        (b"PK\x03\x04\x14\x00\r\x06", "a spreadsheet"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "a spreadsheet"),
        (gzip.compress(b"k,q\n1,2\n", mtime=0), "compressed by gzip"),
        (b"\x28\xb5\x2f\xfd\x00", "compressed by Zstandard"),
        (b"PAR1\x15\x04", "a Parquet file"),
        (b"%PDF-1.7\r", "a PDF document"),
        (b"\n<!DOCTYPE html>\n<html>", "a page of HTML"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
        (b"\0\0\0\0\0\0", "zero bytes"),
    ],
)
def test_another_format_under_the_name_of_this_one_is_reported(
    tmp_path: Path, name: str, start: bytes, what: str
) -> None:
    error = problem(tmp_path / name, start)
    assert what in error.message
    assert error.hint


def test_a_link_to_nothing_is_called_that(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").symlink_to(tmp_path / "gone.jsonl")
    assert "a link to a file that is not there" in problem(tmp_path / "d.jsonl").message


@pytest.mark.parametrize("name", ["d.csv", "d.tsv"])
def test_blank_rows_are_left_out_and_counted(tmp_path: Path, name: str) -> None:
    mark = "\t" if name == "d.tsv" else ","
    lines = ["k,q", "1,hello", ",", "  ,", "2,world", ",,,,", ""]
    rows, facts = read(tmp_path / name, "\n".join(lines).replace(",", mark).encode())
    assert rows == TWO
    assert [str(note) for note in facts.notes] == [f"{tmp_path / name}: 3 blank rows are left out"]


def test_a_row_behind_blank_ones_keeps_the_number_of_its_line(tmp_path: Path) -> None:
    assert problem(tmp_path / "d.csv", b"k,q\n,\n,\n1,2,3\n").line == 4


@pytest.mark.parametrize("line", ["sep=;", '"sep=;"', "SEP=;\r"])
def test_the_line_in_which_excel_names_the_delimiter_is_no_header(
    tmp_path: Path, line: str
) -> None:
    rows, _ = read(tmp_path / "d.csv", f"{line}\nk;q\n1;hello\n2;world\n".encode())
    assert rows == TWO
    assert problem(tmp_path / "e.csv", b"sep=;\nk;q\n1;2;3\n").line == 3


def test_quotes_of_a_tsv_that_nothing_closes_are_text(tmp_path: Path) -> None:
    rows, facts = read(tmp_path / "d.tsv", b'k\tq\n1\t"hello there\n2\t"bye" she said\n3\tfine\n')
    assert [row["q"] for row in rows] == ['"hello there', '"bye" she said', "fine"]
    assert codes(facts) == ["literal-quotes"]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        (b'k\tq\n1\t"a ""b"" c"\n', 'a "b" c'),
        (b'k\tq\n1\t"a\nb\tc"\n', "a\nb\tc"),
        (b'"k"\t"q"\n"1"\t"a"\n', "a"),
    ],
)
def test_quotes_of_a_tsv_enclose_cells_where_they_are_closed(
    tmp_path: Path, text: bytes, cell: str
) -> None:
    rows, facts = read(tmp_path / "d.tsv", text)
    assert ([row["q"] for row in rows], codes(facts)) == ([cell], [])


def test_several_sheets_are_reported(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for line in (["k", "q"], ["1", "hello"], [None, " "], ["2", "world"], [" ", None]):
        book.active.append(line)
    book.create_sheet("old")
    book.save(tmp_path / "d.xlsx")
    rows, facts = read(tmp_path / "d.xlsx")
    assert rows == TWO
    sheets, blank = facts.notes
    assert "only the first sheet 'Sheet' is read, not 'old'" in sheets.message
    assert blank.message == "1 blank row is left out"


@pytest.mark.parametrize(
    ("name", "content", "hint"),
    [
        ("d.json", b'{"data": [{"q": "a"}], "n": 1}', "the rows are under 'data'"),
        ("d.json", b'{"q": {"0": "a", "1": "b"}, "k": {"0": 1, "1": 2}}', "orient='records'"),
        ("d.json", b'{"q": ["a", "b"], "k": [1, 2]}', "orient='records'"),
        ("d.json", b'{"columns": ["q"], "index": [0], "data": [["a"]]}', "orient='records'"),
        (
            "d.json",
            b'{"q1": {"q": "a"}, "q2": {"q": "b"}}',
            "the rows are the values of the object",
        ),
        ("d.json", b'{"q": "a"}', "put the object in [ ]"),
        ("d.json", b'{"q": "a"} {"q": "b"}', "put the objects in [ ]"),
        ("d.json", b'[["q"], ["a"]]', "a header and its rows can be saved as CSV"),
        ("d.jsonl", b'{\n  "q": "a"\n}\n', "one object a line"),
        ("d.jsonl", b'[\n{"q": "a"}\n]\n', "one JSON list of rows has the ending .json"),
        ("d.jsonl", b'{"q": "a"}{"q": "b"}\n', "begin each on a line of its own"),
        ("d.jsonl", b"{'q': 'a'}\n", "json.dumps"),
        ("d.jsonl", b'{"q": True}\n', "json.dumps"),
    ],
)
def test_the_hint_about_a_json_file_leads_to_its_rows(
    tmp_path: Path, name: str, content: bytes, hint: str
) -> None:
    assert hint in problem(tmp_path / name, content).hint


def test_a_byte_order_mark_within_joined_files_is_no_text(tmp_path: Path) -> None:
    assert read(tmp_path / "d.jsonl", b'\xef\xbb\xbf{"q":"a"}\n\xef\xbb\xbf{"q":"b"}\n')[0] == [
        {"q": "a"},
        {"q": "b"},
    ]


def column(tmp_path: Path, values: pa.Array, **keys: Any) -> list[Any]:
    pq.write_table(pa.table({"x": values, "q": ["a"] * len(values)}), tmp_path / "d.parquet")
    return [row["x"] for row in read(tmp_path / "d.parquet", **keys)[0]]


NOON = datetime.datetime(2026, 11, 25, 12, 30)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1_764_000_000_123_456_789, None], pa.timestamp("ns")), ["2025-11-24T16:00:00.123456789", None]),
        (pa.array([NOON], pa.timestamp("ns")), ["2026-11-25T12:30:00"]),
        (pa.array([NOON], pa.timestamp("us", "Asia/Kolkata")), ["2026-11-25T18:00:00+05:30"]),
        (pa.array([NOON], pa.timestamp("ns", "UTC")), ["2026-11-25T12:30:00+00:00"]),
        (pa.array([253_402_300_800], pa.timestamp("s")), ["10000-01-01T00:00:00"]),
        (pa.array([253_402_300_800], pa.timestamp("s", "UTC")), ["10000-01-01T00:00:00+00:00"]),
        (pa.array([2_932_897], pa.date32()), ["10000-01-01"]),
        (pa.array([datetime.date(2024, 5, 1)], pa.date64()), ["2024-05-01"]),
        (pa.array([45_296_123_456_789], pa.time64("ns")), ["12:34:56.123456789"]),
        (pa.array([datetime.time(1, 2, 3)], pa.time32("s")), ["01:02:03"]),
        (pa.array([1_500_000_000, None], pa.duration("ns")), [1.5, None]),
        (pa.array([datetime.timedelta(seconds=90)], pa.duration("us")), [90.0]),
        (pa.array([decimal.Decimal("1.50")], pa.decimal128(5, 2)), [1.5]),
        (pa.array([decimal.Decimal(12345678901234567890)], pa.decimal128(38, 0)), [12345678901234567890]),
        (pa.array([[NOON, None], None], pa.list_(pa.timestamp("ns"))), [["2026-11-25T12:30:00", None], None]),
        (
            pa.array([{"at": 2_932_897, "n": [1]}, None], pa.struct([("at", pa.date32()), ("n", pa.list_(pa.int8()))])),
            [{"at": "10000-01-01", "n": [1]}, None],
        ),
        (pa.array([[("k", NOON)], None, []], pa.map_(pa.string(), pa.timestamp("ns"))), [{"k": "2026-11-25T12:30:00"}, None, {}]),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), [[1, 2], None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array([b"text"]), ["text"]),
    ],
)  # fmt: skip
def test_values_of_parquet_become_those_of_json(
    tmp_path: Path, values: Any, expected: list[Any]
) -> None:
    assert column(tmp_path, values) == expected


def test_a_time_zone_that_this_machine_does_not_know_is_read_in_utc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(name: str) -> Any:
        raise KeyError(name)

    values = pa.array([NOON], pa.timestamp("us", "America/Nuuk"))
    monkeypatch.setattr(pa.lib, "string_to_tzinfo", unknown)
    assert column(tmp_path, values) == ["2026-11-25T12:30:00+00:00"]


IMAGES = pa.array(
    [{"bytes": b"\xff\xd8", "path": "a.jpg"}],
    pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
)


@pytest.mark.parametrize(
    "values", [pa.array([b"\xff\xd8"]), pa.array([[b"\xff"]], pa.list_(pa.binary())), IMAGES]
)
def test_bytes_are_left_out_where_nothing_uses_them_and_else_named(
    tmp_path: Path, values: Any
) -> None:
    assert column(tmp_path, values, required=("q",)) == [None]
    _, facts = read(tmp_path / "d.parquet", required=("q",))
    assert [note.code for note in facts.notes] == ["unused-bytes"]
    assert "the column 'x' is left out" in facts.notes[0].message
    error = problem(tmp_path / "d.parquet", required=("x",))
    assert (error.code, error.line) == ("bad-encoding", 1)
    assert error.message == "the column 'x' holds bytes that are not UTF-8 text"


@pytest.mark.parametrize("name", ["d.csv", "d.jsonl"])
def test_all_missing_columns_are_reported_at_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(
        '{"question": "a"}\n' if name == "d.jsonl" else "question\na\n", encoding="utf-8"
    )
    with pytest.raises(DataError) as caught:
        scan(Dataset((path,), required=("questoin", "answer", "label")))
    assert [error.message for error in caught.value.problems] == [
        f"there is no column {column!r}" for column in ("questoin", "answer", "label")
    ]
    assert str(caught.value).count("the columns are: question") == 1
    assert "did you mean 'question'?" in caught.value.problem.hint


def test_bad_rows_are_reported_together_each_kind_once(tmp_path: Path) -> None:
    content = b'{"q":1}\n{"a":2}\n[1]\n{"a":3}\n{"q":"\xff"}\n' + b'{"a":0}\n' * 4
    with pytest.raises(DataError) as caught:
        read(tmp_path / "d.jsonl", content, required=("q",))
    assert [(error.code, error.line) for error in caught.value.problems] == [
        ("missing-column", 2),
        ("not-an-object", 3),
        ("bad-encoding", 5),
        ("more-bad-rows", 0),
    ]
    assert caught.value.problems[-1].message == "5 more of the 9 rows cannot be used"


@pytest.mark.parametrize(
    ("rows", "identity"),
    [
        ([{"id": "a", "q": 1}, {"id": "b", "q": 1}], "id"),
        ([{"id": "a", "uid": 1}, {"id": "a", "uid": 2}], "uid"),
        ([{"question_id": 7}, {"question_id": 8}], "question_id"),
        ([{"prompt_id": "a"}, {"prompt_id": None}], None),
        ([{"id": 1.5}, {"id": 2.5}], None),
        ([{"id": True}, {"id": False}], None),
        ([{"q": "a"}, {"q": "b"}], None),
        ([{"id": "a"}, {"q": "b"}], None),
    ],
)
def test_a_unique_column_of_a_usual_name_identifies_rows_and_is_reported(
    tmp_path: Path, rows: list[dict[str, Any]], identity: str | None
) -> None:
    path = tmp_path / "d.parquet"
    names = dict.fromkeys(name for row in rows for name in row)
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), path)
    dataset = Dataset((path,))
    facts = scan(dataset, draw=5)
    streamed = [*stream_rows(dataset, facts.selection)]
    assert facts.selection.id == identity
    assert [row.id for row in streamed] == ([row[identity] for row in rows] if identity else [0, 1])
    assert [row.placed for row in streamed] == [identity is None] * 2
    assert list(facts.drawn) == streamed
    assert [note.message for note in facts.notes] == (
        [f"rows are identified by the column {identity!r}"] if identity else []
    )


def test_an_optional_id_column_may_be_absent_and_a_named_one_may_not(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"q": "a"}\n{"q": "b"}\n', encoding="utf-8")
    optional = Dataset((path,), id="key", is_id_optional=True)
    facts = scan(optional)
    assert [row.id for row in stream_rows(optional, facts.selection)] == [0, 1]
    assert [row.id for row in stream_rows(optional)] == [0, 1]
    assert (
        "there is no column 'key', so rows are identified by their numbers"
        in facts.notes[0].message
    )
    assert problem(path, id="key").message == "there is no column 'key'"


def test_ids_beyond_those_in_memory_are_still_distinguished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seen_ids, "MOST_IN_MEMORY", 10)
    ids = SeenIds()
    assert all(
        ids.add(identity) for identity in [*range(10), *map(str, range(10)), 2**80, "\ud800"]
    )
    assert not any(
        ids.add(identity) for identity in [*range(10), *map(str, range(10)), 2**80, "\ud800"]
    )


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_a_column_without_a_name_is_left_out_and_reported(tmp_path: Path, ending: str) -> None:
    """pandas writes its index so."""
    import pandas as pd

    path = tmp_path / f"d{ending}"
    frame = pd.DataFrame({"x": ["a", "b"]})
    frame.to_csv(path) if ending == ".csv" else frame.to_excel(path)
    rows, facts = read(path)
    assert rows == [{"x": "a"}, {"x": "b"}]
    assert "column 1 has no name and is left out" in facts.notes[0].message


@pytest.mark.parametrize(
    ("value", "text"), [("null", "nothing"), ("true", "true"), ("1.5", "1.5"), ("[1]", "a list")]
)
def test_an_invalid_id_is_quoted_as_the_file_has_it(tmp_path: Path, value: str, text: str) -> None:
    error = problem(tmp_path / "d.jsonl", f'{{"id": {value}, "x": 1}}\n'.encode(), id="id")
    assert error.message == f"the id column 'id' holds {text}"
