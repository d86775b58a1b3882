"""A run's rows as expressions see them once they are saved: keys of mappings keep their meaning."""

import pytest

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.stats.columns.saved_rows import TextKeyed
from verdict_cli.stats.measure import measure
from verdict_cli.storage.tables.writer import ParquetTable


@pytest.mark.parametrize(
    ("keys", "expression"),
    [
        ((True, False), "output.distribution[true]"),
        ((True, False), "output.distribution['true']"),
        ((True, False), "output.distribution.get(true)"),
        ((True, False), "output.distribution[true] if true in output.distribution else 0"),
        ((4, 5), "output.distribution[4]"),
        ((0.5, 1.0), "output.distribution[0.5]"),
        ((1.0, 2.0), "output.distribution[1]"),
        (("A", "B"), "output.distribution['A']"),
        ((True, False), "nodes.judge.distribution[true]"),
    ],
)
def test_a_distribution_is_indexed_in_evaluations_as_in_the_pipeline(tmp_path, keys, expression):
    results = tmp_path / "results.parquet"
    with ParquetTable(results, {"row": "int", "id": "int", "status": "str"}) as table:
        for row, p in enumerate((0.25, 0.75)):
            distribution = dict(zip(keys, (p, 1 - p), strict=True))
            table.write(
                {
                    "row": row,
                    "status": "ok",
                    "output.distribution": distribution,
                    "judge.distribution": dict(distribution),
                }
            )
    measures = measure({"e": Evaluation(value=expression, metrics=("mean",))}, results)["e"]
    assert (measures.values["mean"].value, measures.values["mean"].n) == (0.5, 2)


def test_a_key_that_is_in_no_spelling_there_is_missing():
    by_key = TextKeyed({"true": 1, "2": 3})
    assert (by_key[True], by_key[2], by_key[2.0]) == (1, 3, 3)
    assert 1 not in by_key
    assert by_key.get(False, "none") == "none"
    for absent in (False, 1, "2.0", None):
        with pytest.raises(KeyError):
            by_key[absent]


def table(path, rows):
    with ParquetTable(path, {"row": "int", "id": "int", "status": "str"}) as file:
        for number, row in enumerate(rows):
            file.write({"row": number, "id": number, "status": "ok", **row})
    return path


def test_an_expression_is_computed_once_for_each_distinct_tuple_that_it_reads(
    tmp_path, monkeypatch
):
    rows = [
        {"source.kind": "ab"[number % 2], "output.score": number % 3, "source.text": f"{number}"}
        for number in range(600)
    ]
    results = table(tmp_path / "results.parquet", rows)
    computed = []
    compute = Expression.__call__

    def counted(self, values):
        computed.append(self.text)
        return compute(self, values)

    monkeypatch.setattr(Expression, "__call__", counted)
    evaluation = Evaluation(
        prediction="'good' if output.score > 1 else 'bad'",
        target="'good' if source.kind == 'a' else 'bad'",
        where="output.score > 0 or source.kind == 'b'",
        by=("source.kind | upper",),
        metrics=("accuracy",),
    )
    measures = measure({"e": evaluation}, results)["e"]
    assert measures.rows == 500
    assert {text: computed.count(text) for text in computed} == {
        "output.score > 0 or source.kind == 'b'": 6,
        "'good' if output.score > 1 else 'bad'": 3,
        "'good' if source.kind == 'a' else 'bad'": 2,
        "source.kind | upper": 2,
    }


def test_what_where_leaves_out_has_no_say_in_the_kind_of_the_values(tmp_path):
    rows = [
        {"source.n": number % 4, "source.value": "none" if number % 4 == 3 else number % 4}
        for number in range(40)
    ]
    results = table(tmp_path / "results.parquet", rows)
    evaluation = Evaluation(value="source.value", where="source.n < 3", metrics=("mean",))
    measures = measure({"e": evaluation}, results)["e"]
    assert (measures.values["mean"].value, measures.values["mean"].n) == (1.0, 30)


def test_the_first_row_without_a_value_is_named_and_all_are_counted(tmp_path):
    rows = [{"output.text": "x" if number % 5 == 3 else "4"} for number in range(50)]
    results = table(tmp_path / "results.parquet", rows)
    evaluation = Evaluation(value="output.text.index('4')", metrics=("mean",))
    measures = measure({"e": evaluation}, results)["e"]
    assert measures.unreadable == {"value": 10}
    assert "row 3:" in " ".join(measures.warnings)
