"""A run's rows as expressions see them once they are saved: keys of mappings keep their meaning."""

import pytest

from verdict_cli.language.evaluations import Evaluation
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
            said = dict(zip(keys, (p, 1 - p), strict=True))
            table.write(
                {
                    "row": row,
                    "status": "ok",
                    "output.distribution": said,
                    "judge.distribution": dict(said),
                }
            )
    found = measure({"e": Evaluation(value=expression, metrics=("mean",))}, results)["e"]
    assert (found.values["mean"].value, found.values["mean"].n) == (0.5, 2)


def test_a_key_that_is_in_no_spelling_there_is_missing():
    found = TextKeyed({"true": 1, "2": 3})
    assert (found[True], found[2], found[2.0]) == (1, 3, 3)
    assert 1 not in found
    assert found.get(False, "none") == "none"
    for absent in (False, 1, "2.0", None):
        with pytest.raises(KeyError):
            found[absent]
