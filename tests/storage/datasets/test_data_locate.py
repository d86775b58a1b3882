"""Which files a dataset's name stands for."""

from pathlib import Path

import pytest

from verdict_cli.errors import DataError
from verdict_cli.storage.datasets.files import find_files


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("b.jsonl", "a.csv.gz", "c.PARQUET", ".hidden.jsonl", "notes.txt", "deep/d.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def problem(data: str) -> tuple[str, str, str]:
    with pytest.raises(DataError) as caught:
        find_files(data)
    return caught.value.problem.code, caught.value.problem.message, caught.value.problem.hint


def test_a_file_means_itself(here):
    assert find_files("b.jsonl") == (Path("b.jsonl"),)
    assert find_files(str(here / "b.jsonl")) == (here / "b.jsonl",)


def test_a_directory_means_its_readable_files_in_order(here):
    assert [path.name for path in find_files(".")] == ["a.csv.gz", "b.jsonl", "c.PARQUET"]


def test_a_glob_means_its_matches_in_order(here):
    assert find_files("*.[cj]s*") == (Path("a.csv.gz"), Path("b.jsonl"))
    assert find_files(str(here / "**" / "*.jsonl")) == (here / "b.jsonl", here / "deep" / "d.jsonl")


def test_a_file_whose_name_looks_like_a_glob_is_a_file(here):
    Path("x[1].csv").touch()
    assert find_files("x[1].csv") == (Path("x[1].csv"),)


def test_a_missing_file_names_the_nearest_one(here):
    assert problem("bb.jsonl") == (
        "file-not-found",
        "there is no such file",
        "did you mean b.jsonl?",
    )
    assert problem("bb*.jsonl")[1:] == ("no file matches this pattern", "did you mean b.jsonl?")


def test_a_missing_directory_is_named(here):
    assert problem("nowhere/b.jsonl")[2] == "there is no directory nowhere either"


def test_an_unknown_ending_names_the_supported_ones(here):
    code, _, hint = problem("notes.txt")
    assert code == "unknown-format"
    assert ".ndjson" in hint
    assert ".zst" in hint
    assert problem("*")[0] == "unknown-format"


def test_a_parquet_file_is_not_compressed_again(here):
    Path("t.parquet.gz").touch()
    assert "compressed inside" in problem("t.parquet.gz")[1]


def test_a_directory_without_data_says_so(here):
    Path("empty").mkdir()
    assert problem("empty")[:2] == ("file-not-found", "the directory holds no dataset")
