"""What people say of rows: kept line by line, the last counts."""

from __future__ import annotations

import pytest

from verdict_cli.errors import DataError, OutputError
from verdict_cli.storage.tables.human_labels import FILE, add_label, label_key, read_labels


def test_the_last_line_of_a_row_counts_and_an_empty_one_takes_it_back(tmp_path):
    path = tmp_path / FILE
    assert read_labels(path) == {}
    add_label(path, "a", "yes", None, "2026-01-01")
    add_label(path, "a", "no", "seen twice", "2026-01-02")
    add_label(path, 1, True, None, "2026-01-03")
    add_label(path, "1", None, "a note alone", "2026-01-04")
    add_label(path, "b", "yes", None, "2026-01-05")
    add_label(path, "b", None, "", "2026-01-06")
    found = read_labels(path)
    assert found[label_key("a")] == {"label": "no", "note": "seen twice", "at": "2026-01-02"}
    assert (found[label_key(1)]["label"], found[label_key("1")]["label"]) == (True, None)
    assert label_key("b") not in found
    assert len(path.read_text().splitlines()) == 6


def test_what_a_crash_left_unfinished_is_passed_over_and_the_next_label_stands_on_a_line_of_its_own(tmp_path):
    path = tmp_path / FILE
    add_label(path, "a", "yes", None, "")
    with path.open("a") as file:
        file.write('{"id": "b", "lab')
    assert list(read_labels(path)) == [label_key("a")]
    add_label(path, "c", "no", None, "")
    with pytest.raises(DataError, match=r"labels\.jsonl:2"):
        read_labels(path)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        add_label(tmp_path / "none" / FILE, "a", "yes", None, "")
