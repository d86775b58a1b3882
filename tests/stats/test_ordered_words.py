"""Words of an ordered scale are ordinal, words of a nominal one are labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.measure import measure
from verdict_cli.storage.tables.column_types import ORDERED_KEY, DeclaredType
from verdict_cli.storage.tables.writer import ParquetTable

WORDS = ["poor", "fair", "good"]
SAID = ["poor", "fair", "good", "good", "fair", "poor", "good", "fair"]
TRUE = ["poor", "good", "good", "fair", "fair", "fair", "good", "fair"]


def measured(folder: Path, *, ordered: bool, true: list[str] = TRUE, **keys: object):
    schema = {"type": "string", "enum": WORDS} | ({ORDERED_KEY: True} if ordered else {})
    path = folder / "results.parquet"
    with ParquetTable(
        path, {"row": "int", "status": "str"}, declared={"output.score": DeclaredType(schema)}
    ) as table:
        for row, (score, target) in enumerate(zip(SAID, true, strict=True)):
            table.write({"row": row, "status": "ok", "output.score": score, "source.y": target})
    evaluation = Evaluation(prediction="output.score", target="source.y", **keys)
    return measure({"e": evaluation}, path)["e"]


def test_words_of_an_ordered_scale_have_rank_metrics_and_an_ordered_matrix(
    tmp_path,
):
    measures = measured(tmp_path, ordered=True)
    assert measures.kind == "ordinal"
    assert set(measures.values) == {"accuracy", "weighted_kappa", "spearman", "confusion"}
    assert measures.values["confusion"].value["labels"] == WORDS
    numbers = {word: place for place, word in enumerate(WORDS)}
    from sklearn.metrics import cohen_kappa_score

    wanted = cohen_kappa_score(
        [numbers[word] for word in TRUE], [numbers[word] for word in SAID], weights="quadratic"
    )
    assert measures.values["weighted_kappa"].value == pytest.approx(wanted)


def test_words_off_an_ordered_scale_are_a_classification(
    tmp_path,
):
    assert measured(tmp_path, ordered=False).kind == "classification"
    assert measured(tmp_path, ordered=True, true=["Poor", *TRUE[1:]]).kind == "classification"
    assert measured(tmp_path, ordered=True, positive="good").kind == "classification"
    assert measured(tmp_path, ordered=True, kind="classification").kind == "classification"
