"""Filters, words and order straight from Parquet say the same as plain Python over the same rows."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.errors import UsageError
from verdict_cli.features.viewer.query import Filter, Query, find_rows
from verdict_cli.storage.tables.writer import ParquetTable

NUMBERS = st.none() | st.integers(-5, 5)
TEXTS = st.none() | st.text("abAB <é", max_size=4)
ROWS = st.lists(st.tuples(NUMBERS, TEXTS, st.none() | st.booleans()), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("query")


def write_rows(folder, rows):
    path = folder / "results.parquet"
    with ParquetTable(
        path, {"row": "int", "n": "int", "t": "str", "b": "bool"}, row_group=7
    ) as table:
        for row, (n, t, b) in enumerate(rows):
            table.write({"row": row, "n": n, "t": t, "b": b})
    return path


@given(ROWS, st.integers(-5, 5), st.text("abAB", min_size=1, max_size=2))
def test_filters_and_words_find_what_python_finds(folder, rows, limit, word):
    path = write_rows(folder, rows)

    def rows_found(*filters, words=()):
        query = Query(tuple(Filter(*arguments) for arguments in filters), words)
        return find_rows(
            path, ["t"], {"v": pa.array([n for n, _, _ in rows], pa.float64())}, query
        ).tolist()

    def those(rule):
        return [place for place, row in enumerate(rows) if rule(*row)]

    assert rows_found(("n", "least", str(limit))) == those(
        lambda n, t, b: n is not None and n >= limit
    )
    assert rows_found(("v", "most", str(limit))) == those(
        lambda n, t, b: n is not None and n <= limit
    )
    assert rows_found(("t", "is", word)) == those(lambda n, t, b: t == word)
    assert rows_found(("t", "not", word)) == those(lambda n, t, b: t != word)
    assert rows_found(("t", "has", word)) == those(
        lambda n, t, b: t is not None and word.lower() in t.lower()
    )
    assert rows_found(("b", "is", "true")) == those(lambda n, t, b: b is True)
    assert rows_found(("t", "none"), ("n", "some")) == those(
        lambda n, t, b: t is None and n is not None
    )
    assert rows_found(words=(word,)) == rows_found(("t", "has", word))


@given(ROWS, st.booleans())
def test_the_order_is_that_of_the_values_and_missing_ones_come_last(folder, rows, down):
    path = write_rows(folder, rows)
    places = find_rows(path, ["t"], {}, Query((), (), "n", down)).tolist()
    assert sorted(places) == list(range(len(rows)))
    values = [rows[place][0] for place in places]
    present = [value for value in values if value is not None]
    assert present == sorted(present, reverse=down)
    assert values == present + [None] * (len(values) - len(present))


def test_an_address_without_a_query_is_an_error():
    columns = ("n", "t")
    query = Query.parse(['["n", "least", "2"]'], "two words", "t", True, columns)
    assert query == Query((Filter("n", "least", "2"),), ("two", "words"), "t", True)
    for wrong in (
        "x",
        "[]",
        "{}",
        "3",
        '["n"]',
        '["other", "is", "1"]',
        json.dumps(["n", "rm", "1"]),
    ):
        with pytest.raises(UsageError):
            Query.parse([wrong], "", "", False, columns)
    with pytest.raises(UsageError, match="no column"):
        Query.parse([], "", "other", False, columns)


def test_a_comparison_by_size_needs_numbers(folder):
    path = write_rows(folder, [(1, "a", True)])
    for condition in (
        Filter("n", "least", "many"),
        Filter("t", "most", "3"),
        Filter("n", "is", "x"),
    ):
        with pytest.raises(UsageError):
            find_rows(path, ["t"], {}, Query((condition,)))
