"""Rows read by their places."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.storage.datasets.arrow_vectors import characters, floats, integers, present, truths
from verdict_cli.storage.tables.reader import read_rows
from verdict_cli.storage.tables.writer import ParquetTable


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("picked") / "t.parquet"
    with ParquetTable(path, row_group=7) as table:
        for place in range(40):
            table.write({"place": place, "value": [place] if place % 2 else {"a": "\ud800"}})
    return path


@given(places=st.sets(st.integers(0, 39)), batch=st.integers(1, 9))
def test_exactly_the_wanted_rows_come_in_order(table, places, batch):
    wanted = sorted(places)
    read_places = [
        place for rows in read_rows(table, wanted, batch=batch) for place in rows["place"]
    ]
    assert read_places == wanted
    values = [
        value
        for rows in read_rows(table, wanted, ["value"], batch=batch)
        for value in rows["value"]
    ]
    assert values == [[place] if place % 2 else {"a": "\ud800"} for place in wanted]


def test_arrays_keep_their_values_and_say_where_there_is_none():
    assert np.isnan(floats(pa.array([None, None]))).all()
    assert floats(pa.array([1, None, 3])).tolist()[::2] == [1.0, 3.0]
    assert floats(pa.array([True, False])).tolist() == [1.0, 0.0]
    assert floats(pa.array([0.5, 1.5, 2.5])[1:]).tolist() == [1.5, 2.5]
    assert integers(pa.array([5, 6], pa.int32())).tolist() == [5, 6]
    assert truths(pa.array([True, None, False])).tolist() == [True, False, False]
    assert truths(pa.array([True, None, True, False])[1:]).tolist() == [False, True, False]
    assert np.isnan(floats(pa.array([1, None, 3, 4])[1:3])).tolist() == [True, False]
    assert present(pa.array(["a", None, "b"])[1:]).tolist() == [False, True]
    assert present(pa.array(["a"])).tolist() == [True]
    assert present(pa.array([None, None])).tolist() == [False, False]
    for read in (floats, integers, truths, present):
        assert len(read(pa.array([], pa.int64()))) == 0


@given(
    texts=st.lists(st.none() | st.text(alphabet="aé漢🙂\x00", max_size=5), max_size=9),
    start=st.integers(0, 9),
    count=st.integers(0, 9),
)
def test_the_characters_of_texts_are_counted(texts, start, count):
    array = pa.array(texts, pa.string())[start : start + count]
    wanted = [len(text or "") for text in texts[start : start + count]]
    assert characters(array).tolist() == wanted
