"""What people say of rows: kept line by line, the last counts."""

from __future__ import annotations

import pytest

from verdict_cli.errors import DataError, OutputError
from verdict_cli.storage.tables.human_labels import (
    FILE,
    add_label,
    consensus,
    label_key,
    read_annotations,
    row_label,
)


def read_labels(path):
    """The label of each row, of all people."""
    return {key: row_label(row) for key, row in read_annotations(path).items()}


def test_the_last_line_of_a_row_counts_and_an_empty_one_takes_it_back(tmp_path):
    path = tmp_path / FILE
    assert read_labels(path) == {}
    add_label(path, "a", "yes", None, "2026-01-01")
    add_label(path, "a", "no", "seen twice", "2026-01-02")
    add_label(path, 1, True, None, "2026-01-03")
    add_label(path, "1", None, "a note alone", "2026-01-04")
    add_label(path, "b", "yes", None, "2026-01-05")
    add_label(path, "b", None, "", "2026-01-06")
    labels = read_labels(path)
    assert labels[label_key("a")] == {"label": "no", "note": "seen twice", "at": "2026-01-02"}
    assert (labels[label_key(1)]["label"], labels[label_key("1")]["label"]) == (True, None)
    assert label_key("b") not in labels
    assert len(path.read_text().splitlines()) == 6


def test_a_line_cut_by_a_crash_is_skipped_and_the_next_label_has_its_own_line(
    tmp_path,
):
    path = tmp_path / FILE
    add_label(path, "a", "yes", None, "")
    with path.open("a") as file:
        file.write('{"id": "b", "lab')
    assert list(read_labels(path)) == [label_key("a")]
    add_label(path, "c", "no", None, "")
    with pytest.raises(DataError, match=r"labels\.jsonl:2"):
        read_labels(path)


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        add_label(tmp_path / "none" / FILE, "a", "yes", None, "")


def test_each_annotator_has_their_own_label_and_the_row_their_consensus(tmp_path):
    path = tmp_path / FILE
    add_label(path, "a", "good", "clear", "2026-01-01", "ann")
    add_label(path, "a", "bad", None, "2026-01-02", "bob")
    add_label(path, "a", "bad", None, "2026-01-03", "cyd")
    add_label(path, "b", None, None, "2026-01-04", "ann", skipped=True)
    annotations = read_annotations(path)
    assert {by: label.label for by, label in annotations[label_key("a")].items()} == {
        "ann": "good",
        "bob": "bad",
        "cyd": "bad",
    }
    assert annotations[label_key("b")]["ann"].skipped
    assert read_labels(path)[label_key("a")] == {
        "label": "bad",
        "note": "ann: clear",
        "at": "2026-01-03",
    }
    assert read_labels(path)[label_key("b")]["label"] is None


@pytest.mark.parametrize(
    ("labels", "agreed"),
    [
        ([], None),
        (["x"], "x"),
        (["x", "y"], None),
        (["x", "y", "y"], "y"),
        (["x", "y", "z"], None),
        ([True, 1], None),
        ([4, 5], 4.5),
        ([1, 5, 5], 5),
        ([1, 3, 5], 3),
    ],
)
def test_a_consensus_is_the_majority_or_of_numbers_the_median(labels, agreed):
    assert consensus(labels) == agreed


def test_a_line_whose_annotator_is_not_a_name_is_an_error_with_its_line(tmp_path):
    path = tmp_path / FILE
    path.write_text('{"id": "a", "label": "x", "by": ["ann"]}\n')
    with pytest.raises(DataError, match=r"labels\.jsonl:1.*`by` is not a name"):
        read_annotations(path)
