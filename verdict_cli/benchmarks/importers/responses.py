"""Benchmarks of single responses: their errors, and the scores of summaries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from verdict_cli.benchmarks.importers.imported import (
    Imported,
    Record,
    Rows,
    columns,
    no_file_of,
    records,
    told,
)
from verdict_cli.errors import DataError, Problem

_ERROR = {"error": "error", "no_error": "no_error"}
_HALLUCINATION = {"yes": "error", "no": "no_error"}
_DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")


def realmistake(path: Path) -> Imported:
    """ReaLMistake (Kamoi et al., 2024): `id, input, response, label` (error or no_error)."""
    if not {"input", "llm_response", "label"} <= columns(path):
        raise no_file_of(
            "ReaLMistake", path, "its data have input, llm_response, label, and metadata with an id"
        )

    def rows() -> Rows:
        for place, record in enumerate(records(path)):
            about = record.get("metadata")
            identity = about.get("id", place) if isinstance(about, Mapping) else record.get("id", place)
            yield {
                "id": str(identity),
                "input": record["input"],
                "response": record["llm_response"],
                "label": told(record["label"], _ERROR, "label", path),
            }

    return Imported(rows)


def halueval(path: Path) -> Imported:
    """HaluEval's general part (Li et al., 2023): `id, input, response, label` (error or no_error).

    A few of its rows share an ID: the later ones have their place behind it.
    """
    found = columns(path)
    label = next((name for name in ("hallucination", "hallucination_label") if name in found), None)
    if label is None or not {"ID", "user_query", "chatgpt_response"} <= found:
        raise no_file_of(
            "HaluEval's general part", path, "it has ID, user_query, chatgpt_response, hallucination"
        )

    def rows() -> Rows:
        seen: set[str] = set()
        for place, record in enumerate(records(path)):
            own = str(record["ID"])
            identity = f"{own}-{place}" if own in seen else own
            seen.add(own)
            yield {
                "id": identity,
                "input": record["user_query"],
                "response": record["chatgpt_response"],
                "label": told(record[label], _HALLUCINATION, label, path),
            }

    return Imported(rows)


def summeval(path: Path) -> Imported:
    """SummEval (Fabbri et al., 2021): `id, system, source, summary` and the means of the experts' four scores.

    Reads summaries with the articles in `documents.jsonl.gz` beside them, and the authors' annotations once their
    script has paired them with the articles (`text`).
    """
    found = columns(path)
    if {"doc_id", "system", "summary", *_DIMENSIONS} <= found:
        return Imported(lambda: _converted(path))
    if {"id", "model_id", "decoded", "expert_annotations", "text"} <= found:
        return Imported(lambda: map(_annotated, records(path)))
    raise no_file_of(
        "SummEval",
        path,
        "the authors' annotations need their articles: run pair_data.py of github.com/Yale-LILY/SummEval first",
    )


def _converted(path: Path) -> Rows:
    documents = next((each for each in path.parent.glob("documents.jsonl*")), None)
    if documents is None:
        raise DataError(
            Problem(
                "file-not-found",
                "the articles are missing",
                "put documents.jsonl.gz beside it",
                file=str(path),
            )
        )
    articles = {record["doc_id"]: record["source"] for record in records(documents)}
    for record in records(path):
        yield {
            "id": f"{record['doc_id']}-{record['system']}",
            "system": record["system"],
            "source": articles[record["doc_id"]],
            "summary": record["summary"],
            **{name: record[name] for name in _DIMENSIONS},
        }


def _annotated(record: Record) -> Mapping[str, Any]:
    experts = record["expert_annotations"]
    return {
        "id": f"{record['id']}-{record['model_id']}",
        "system": record["model_id"],
        "source": record["text"],
        "summary": record["decoded"],
        **{name: fmean(each[name] for each in experts) for name in _DIMENSIONS},
    }
