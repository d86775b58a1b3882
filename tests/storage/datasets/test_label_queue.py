"""The queue of rows to label: who sees which row, and what expressions see of it."""

from __future__ import annotations

import pytest

from verdict_cli.errors import DataError
from verdict_cli.storage.tables.human_labels import (
    FILE,
    HumanLabel,
    add_label,
    label_key,
    read_annotations,
)
from verdict_cli.storage.tables.label_queue import (
    QUEUE_FILE,
    LabelQueue,
    QueuedRow,
    human_values,
    is_open,
    next_rows,
    read_queue,
)

ROWS = tuple(QueuedRow(f"r{place}", place, 0.25) for place in range(6))


def queue_of(annotators=2):
    return LabelQueue("random", annotators, True, 7, ROWS)


def labels_of(*labels):
    return {f"p{place}": HumanLabel(label) for place, label in enumerate(labels)}


def test_a_written_queue_is_read_back(tmp_path):
    (tmp_path / QUEUE_FILE).write_bytes(queue_of().file_text())
    assert read_queue(tmp_path) == queue_of()
    assert read_queue(tmp_path / "none") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"queue": 2}',
        '{"queue":1,"choose":"random","annotators":1,"blind":false,"seed":0}\n{"id":"a","row":0,"inclusion":0}',
    ],
)
def test_a_file_that_is_no_queue_is_one_error(tmp_path, text):
    (tmp_path / QUEUE_FILE).write_text(text)
    with pytest.raises(DataError, match="not a queue"):
        read_queue(tmp_path)


@pytest.mark.parametrize(
    ("labels", "waits"),
    [
        ((), True),
        (("x",), True),
        (("x", "x"), False),
        (("x", "y"), True),  # a second opinion
        (("x", "y", "z"), False),
        ((3, 4), False),
        ((1, 4), True),
    ],
)
def test_a_row_waits_for_enough_labels_and_for_one_more_where_they_disagree(labels, waits):
    assert is_open(queue_of(), labels_of(*labels), "ann") is waits
    assert not is_open(queue_of(), {**labels_of(*labels), "ann": HumanLabel(skipped=True)}, "ann")


def test_two_people_label_each_row_and_a_third_only_where_they_disagree(tmp_path):
    queue, path = queue_of(), tmp_path / FILE
    for name in ("ann", "bob"):
        while waiting := next_rows(queue, read_annotations(path), name):
            differs = name == "bob" and waiting[0].id == "r3"
            add_label(path, waiting[0].id, "y" if differs else "x", None, "", name)
    annotations = read_annotations(path)
    assert all(set(annotations[label_key(row.id)]) == {"ann", "bob"} for row in ROWS)
    assert [row.id for row in next_rows(queue, annotations, "cyd")] == ["r3"]


def test_people_see_different_orders(tmp_path):
    first, second = ([row.id for row in next_rows(queue_of(), {}, name)] for name in ("ann", "bob"))
    assert sorted(first) == sorted(second) and first != second


def test_expressions_see_the_labels_of_each_person_and_the_inclusion(tmp_path):
    (tmp_path / QUEUE_FILE).write_bytes(queue_of().file_text())
    add_label(tmp_path / FILE, "r1", "x", None, "", "ann")
    add_label(tmp_path / FILE, "elsewhere", "x", None, "", "ann")
    values = human_values(tmp_path, read_annotations(tmp_path / FILE))
    assert (values[label_key("r1")]["label"], values[label_key("r1")]["inclusion"]) == ("x", 0.25)
    assert (values[label_key("r1")]["labels"]["ann"], values[label_key("r1")]["labels"]["bob"]) == (
        "x",
        None,
    )
    assert (values[label_key("r2")]["label"], values[label_key("r2")]["inclusion"]) == (None, 0.25)
    assert values[label_key("elsewhere")]["inclusion"] is None
