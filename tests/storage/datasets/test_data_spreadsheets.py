"""Files as spreadsheet programs write them, and ids inside nested columns."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.errors import DataError
from verdict_cli.storage.datasets import separated
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.files import Reading
from verdict_cli.storage.datasets.read import scan, stream_rows

TABLE = [{"a": "1,5", "b": "x"}, {"a": "2", "b": "y;z\n\u2028é"}]


def rows(path: Path, **keys: Any) -> list[Any]:
    dataset = Dataset((path,), **keys)
    scan(dataset)
    return [(row.id, dict(row.source)) for row in stream_rows(dataset)]


@pytest.mark.parametrize("mark", [";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_the_delimiter_is_that_of_the_header_with_and_without_a_byte_order_mark(
    tmp_path: Path, mark: str, encoding: str
) -> None:
    path = tmp_path / "d.csv"
    text = f'a{mark}b\r\n"1,5"{mark}x\r\n2{mark}"y;z\n\u2028é"\r\n'
    path.write_bytes(text.encode(encoding))
    assert [source for _, source in rows(path)] == TABLE


def test_commas_win_where_the_header_has_them(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a;x,b;y\n1,2\n", encoding="utf-8")
    assert rows(path) == [(0, {"a;x": "1", "b;y": "2"})]


@pytest.mark.parametrize("text", ["a;b\n1;2\n", '"a\nz",b\n1;2,3\n', "\na;b\n1;2\n", "a;b\n", ""])
def test_a_file_is_opened_once_for_its_delimiter_header_and_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    opened = []
    original = separated.open_bytes
    monkeypatch.setattr(separated, "open_bytes", lambda path: opened.append(path) or original(path))
    path = tmp_path / "d.csv"
    path.write_text(text, encoding="utf-8")
    headers: list[tuple[str, ...]] = []
    records = [record for _, record in separated.csv_records(path, Reading(headers.append))]
    assert len(opened) == 1
    assert len(records) == text.count("1;2")
    assert len(headers) == bool(text)


def test_a_delimiter_that_the_pipeline_names_is_used(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,x;b\n1;2\n", encoding="utf-8")
    assert rows(path, delimiter=";") == [(0, {"a,x": "1", "b": "2"})]


def test_another_encoding_is_refused_with_a_cure(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes("a;b\n1;2\n".encode("utf-16"))
    with pytest.raises(DataError, match="not valid UTF-8") as caught:
        rows(path)
    assert "as UTF-8" in caught.value.problem.hint


def workbook(path: Path, lines: list[list[Any]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for line in lines:
        book.active.append(line)
    book.save(path)
    return path


def test_the_first_sheet_of_a_workbook_is_a_dataset(tmp_path: Path) -> None:
    day = datetime.date(2026, 11, 22)
    lines = [["id", "text", "score", "day", None], ["r1", "é", 4, day], [], ["r2", None, 0.5, None]]
    path = workbook(tmp_path / "d.xlsx", lines)
    assert rows(path, id="id") == [
        ("r1", {"id": "r1", "text": "é", "score": 4, "day": "2026-11-22T00:00:00"}),
        ("r2", {"id": "r2", "text": None, "score": 0.5, "day": None}),
    ]


@pytest.mark.parametrize(
    ("lines", "message"), [([["a", "a"], [1, 2]], "twice"), ([["a"], [1, 2]], "more than the 1")]
)
def test_a_bad_sheet_is_an_error(tmp_path: Path, lines: list[list[Any]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        rows(workbook(tmp_path / "d.xlsx", lines))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04no", b"text"])
def test_what_is_not_a_workbook_is_an_error(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("openpyxl")
    path = tmp_path / "d.xlsx"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not an Excel workbook"):
        rows(path)


def test_an_id_may_be_inside_a_nested_column(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(
        '{"conv": {"id": "a"}}\n{"conv": {"id": "b"}, "conv.id": "c"}\n', encoding="utf-8"
    )
    assert [identity for identity, _ in rows(path, id="conv.id")] == ["a", "c"]
    with pytest.raises(DataError, match=r"there is no column 'conv\.key'"):
        rows(path, id="conv.key")
