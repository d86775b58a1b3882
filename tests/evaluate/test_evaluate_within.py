"""The mean of each cluster's own correlation, against scipy cluster by cluster."""

import numpy as np
import pytest
import scipy.stats

from verdict_cli.data import ParquetTable
from verdict_cli.evaluate import measure
from verdict_cli.spec.evaluate import Evaluation


def figures(path, rows):
    with ParquetTable(path / "results.parquet", {"row": "int", "status": "str"}) as table:
        for index, (doc, target, said) in enumerate(rows):
            row = {"row": index, "id": index, "status": "ok", "source.doc": doc, "source.score": target}
            table.write(row | {"output.score": said})
    evaluation = Evaluation(
        prediction="output.score",
        target="source.score",
        cluster="source.doc",
        metrics=["pearson_within", "spearman_within", "kendall_within"],
    )
    return measure({"e": evaluation}, path / "results.parquet")["e"].figures


def test_each_document_counts_once_and_one_without_variation_not_at_all(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for doc in range(12):
        target = np.full(16, 3.0) if doc == 5 else rng.integers(1, 6, 16).astype(float)
        rows += [(doc, t, float(t + rng.normal())) for t in target]
    found = figures(tmp_path, rows)
    for name, formula in (
        ("pearson_within", scipy.stats.pearsonr),
        ("spearman_within", scipy.stats.spearmanr),
        ("kendall_within", scipy.stats.kendalltau),
    ):
        each = []
        for doc in set(range(12)) - {5}:
            target, said = zip(*((t, s) for d, t, s in rows if d == doc), strict=True)
            each.append(formula(said, target).statistic)
        assert found[name].value == pytest.approx(np.mean(each), abs=1e-9)
        assert found[name].n == 11
        reach = scipy.stats.t.ppf(0.975, 10) * np.std(each, ddof=1) / np.sqrt(11)
        assert found[name].low == pytest.approx(np.mean(each) - reach, rel=0.1)


def test_documents_without_variation_leave_the_figure_undefined_with_the_reason(tmp_path):
    found = figures(tmp_path, [(0, 1.0, 2.0), (0, 1.0, 3.0), (1, 2.0, 2.0)])
    assert found["kendall_within"].value is None
    assert "no cluster" in found["kendall_within"].reason
