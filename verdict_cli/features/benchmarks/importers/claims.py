"""Benchmarks of claims and the texts that should support them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from verdict_cli.features.benchmarks.importers.imported import (
    ImportedBenchmark,
    ImportedRows,
    file_columns,
    file_records,
    label_meaning,
    not_a_file_of,
)

_SUPPORTED = {1: "supported", 0: "not supported", "1": "supported", "0": "not supported"}
_WHOLE = {"supported": "supported", "partially_supported": "not supported", "not_supported": "not supported"}


def expertqa(path: Path) -> ImportedBenchmark:
    """ExpertQA's claims (Malaviya et al., 2024), with the columns that they have."""
    needed = {"id", "question", "claim", "references", "label"}
    if not needed <= file_columns(path):
        raise not_a_file_of("ExpertQA", path, f"its claims have {', '.join(sorted(needed))}")
    return ImportedBenchmark(lambda: file_records(path))


def aggrefact(path: Path) -> ImportedBenchmark:
    """LLM-AggreFact (Tang et al., 2024): `id, dataset, group, document, claim, label`, each claim its own group."""
    if not {"dataset", "doc", "claim", "label"} <= file_columns(path):
        raise not_a_file_of("LLM-AggreFact", path, "it has dataset, doc, claim, label")

    def rows() -> ImportedRows:
        for index, record in enumerate(file_records(path)):
            yield {
                "id": str(index),
                "dataset": record["dataset"],
                "group": str(index),
                "document": record["doc"],
                "claim": record["claim"],
                "label": label_meaning(record["label"], _SUPPORTED, "label", path),
            }

    return ImportedBenchmark(rows)


def wice(path: Path) -> ImportedBenchmark:
    """WiCE's claims by chunks of evidence (Kamoi et al., 2023); the chunks of a claim are its group.

    Only `supported` counts: a claim that is supported in part is not. Reads the authors' oracle chunks, which name the
    claim in `meta`, and rows that have `id` and `chunk` of their own.
    """
    columns = file_columns(path)
    if not {"label", "claim", "evidence"} <= columns or not columns & {"meta", "id"}:
        raise not_a_file_of("WiCE", path, "its chunks have label, claim, evidence, and meta or id")

    def rows() -> ImportedRows:
        chunks: Counter[str] = Counter()
        for record in file_records(path):
            claim = str(record["id"] if "id" in record else record["meta"]["id"])
            yield {
                "id": f"{claim}-{record.get('chunk', chunks[claim])}",
                "dataset": "WiCE",
                "group": claim,
                "document": record["evidence"],
                "claim": record["claim"],
                "label": label_meaning(record["label"], _WHOLE, "label", path),
            }
            chunks[claim] += 1

    return ImportedBenchmark(rows)
