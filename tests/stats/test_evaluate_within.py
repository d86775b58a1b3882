"""The mean of each cluster's own correlation, against scipy cluster by cluster."""

import gzip
import json

import numpy as np
import pandas
import pytest
import scipy.stats
from paths import SHARED

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.measure import measure
from verdict_cli.storage.tables.writer import ParquetTable

SUMMEVAL = SHARED / "data" / "summeval" / "summaries.jsonl.gz"
COEFFICIENTS = {
    "pearson_within": scipy.stats.pearsonr,
    "spearman_within": scipy.stats.spearmanr,
    "kendall_within": scipy.stats.kendalltau,
}


def figures(path, rows):
    with ParquetTable(path / "results.parquet", {"row": "int", "status": "str"}) as table:
        for index, (doc, target, score) in enumerate(rows):
            row = {
                "row": index,
                "id": index,
                "status": "ok",
                "source.doc": doc,
                "source.score": target,
            }
            table.write(row | {"output.score": score})
    evaluation = Evaluation(
        prediction="output.score",
        target="source.score",
        cluster="source.doc",
        metrics=list(COEFFICIENTS),
    )
    return measure({"e": evaluation}, path / "results.parquet")["e"].values


def test_each_document_counts_once_and_one_without_variation_not_at_all(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for doc in range(12):
        target = np.full(16, 3.0) if doc == 5 else rng.integers(1, 6, 16).astype(float)
        rows += [(doc, t, float(t + rng.normal())) for t in target]
    estimates = figures(tmp_path, rows)
    for name, formula in COEFFICIENTS.items():
        coefficients = []
        for doc in set(range(12)) - {5}:
            target, scores = zip(*((t, s) for d, t, s in rows if d == doc), strict=True)
            coefficients.append(formula(scores, target).statistic)
        assert estimates[name].value == pytest.approx(np.mean(coefficients), abs=1e-9)
        assert estimates[name].n == 11
        reach = scipy.stats.t.ppf(0.975, 10) * np.std(coefficients, ddof=1) / np.sqrt(11)
        assert estimates[name].low == pytest.approx(np.mean(coefficients) - reach, rel=0.1)


def test_documents_without_variation_leave_the_metric_undefined_with_the_reason(tmp_path):
    estimates = figures(tmp_path, [(0, 1.0, 2.0), (0, 1.0, 3.0), (1, 2.0, 2.0)])
    assert estimates["kendall_within"].value is None
    assert "no cluster" in estimates["kendall_within"].reason


@pytest.mark.skipif(not SUMMEVAL.is_file(), reason="no expert scores beside the project")
def test_correlations_within_documents_and_of_systems_are_as_summeval_reports_them(tmp_path):
    """Fabbri et al. (2021): 16 systems on 100 documents, one expert score against another."""
    rows = [json.loads(line) for line in gzip.decompress(SUMMEVAL.read_bytes()).splitlines()]
    with ParquetTable(tmp_path / "results.parquet", {"row": "int", "status": "str"}) as table:
        for index, row in enumerate(rows):
            row_columns = {f"source.{key}": row[key] for key in ("doc_id", "system", "relevance")}
            table.write(
                {
                    "row": index,
                    "id": index,
                    "status": "ok",
                    **row_columns,
                    "output.score": row["coherence"],
                }
            )
    pair = {"prediction": "output.score", "target": "source.relevance"}
    measures = measure(
        {
            "documents": Evaluation(**pair, cluster="source.doc_id", metrics=list(COEFFICIENTS)),
            "systems": Evaluation(
                **pair,
                group="source.system",
                reduce={"prediction": "mean", "target": "mean"},
                metrics=["pearson", "spearman", "kendall"],
            ),
        },
        tmp_path / "results.parquet",
    )
    frame = pandas.DataFrame(rows)
    means = frame.groupby("system")[["coherence", "relevance"]].mean()
    for name, formula in COEFFICIENTS.items():
        coefficients = [
            formula(documents.coherence, documents.relevance).statistic
            for _, documents in frame.groupby("doc_id")
        ]
        within = measures["documents"].values[name]
        assert (within.value, within.n) == (
            pytest.approx(np.nanmean(coefficients), abs=1e-9),
            np.isfinite(coefficients).sum(),
        )
        across = measures["systems"].values[name.removesuffix("_within")]
        wanted = formula(means.coherence, means.relevance).statistic
        assert (across.value, across.n) == (pytest.approx(wanted, abs=1e-9), 16)
