"""Benchmarks of single responses: XSTest, errors in responses, and scores of summaries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.features.benchmarks.importers.imported import (
    ImportedBenchmark,
    ImportedRecord,
    ImportedRows,
    file_columns,
    file_records,
    label_meaning,
    not_a_file_of,
)

_PROMPTS = ("id", "prompt", "type", "label", "focus", "note")
_COMPLETIONS = ("id", "type", "prompt", "completion", "final_label")


def xstest(path: Path) -> ImportedBenchmark:
    """Of prompts `id, prompt, type, label, focus, note`; `label` is safe or unsafe. Of completions
    `id, type, prompt, completion, final_label`, and GPT-4's raw labels as replies of a unit named `judge`.
    """
    columns = file_columns(path)
    if {"id", "prompt", "type", "label"} <= columns:
        return ImportedBenchmark(lambda: (_prompt(record) for record in file_records(path)))
    if {"id", "prompt", "completion", "final_label", "gpt4_label"} <= columns:
        return ImportedBenchmark(
            lambda: ({name: record[name] for name in _COMPLETIONS if name in record} for record in file_records(path)),
            lambda: (
                {"id": record["id"], "unit": "judge", "reply": record["gpt4_label"]} for record in file_records(path)
            ),
        )
    expected = "prompts have id, prompt, type, label; completions have id, prompt, completion, final_label, gpt4_label"
    raise not_a_file_of("XSTest", path, expected)


def _prompt(record: ImportedRecord) -> ImportedRecord:
    identity = record["id"]
    return {
        "id": int(identity) if str(identity).isdigit() else identity,
        **{name: record.get(name, "") for name in _PROMPTS[1:]},
    }


_ERROR = {"error": "error", "no_error": "no_error"}
_HALLUCINATION = {"yes": "error", "no": "no_error"}
_DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")


def realmistake(path: Path) -> ImportedBenchmark:
    """ReaLMistake (Kamoi et al., 2024): `id, input, response, label` (error or no_error)."""
    if not {"input", "llm_response", "label"} <= file_columns(path):
        raise not_a_file_of("ReaLMistake", path, "its data have input, llm_response, label, and metadata with an id")

    def rows() -> ImportedRows:
        for index, record in enumerate(file_records(path)):
            about = record.get("metadata")
            identity = about.get("id", index) if isinstance(about, Mapping) else record.get("id", index)
            yield {
                "id": str(identity),
                "input": record["input"],
                "response": record["llm_response"],
                "label": label_meaning(record["label"], _ERROR, "label", path),
            }

    return ImportedBenchmark(rows)


def halueval(path: Path) -> ImportedBenchmark:
    """HaluEval's general part (Li et al., 2023): `id, input, response, label` (error or no_error).

    A few of its rows share an ID: the later ones have their index behind it.
    """
    columns = file_columns(path)
    label = next((name for name in ("hallucination", "hallucination_label") if name in columns), None)
    if label is None or not {"ID", "user_query", "chatgpt_response"} <= columns:
        raise not_a_file_of("HaluEval's general part", path, "it has ID, user_query, chatgpt_response, hallucination")

    def rows() -> ImportedRows:
        seen: set[str] = set()
        for index, record in enumerate(file_records(path)):
            own = str(record["ID"])
            identity = f"{own}-{index}" if own in seen else own
            seen.add(own)
            yield {
                "id": identity,
                "input": record["user_query"],
                "response": record["chatgpt_response"],
                "label": label_meaning(record[label], _HALLUCINATION, label, path),
            }

    return ImportedBenchmark(rows)


def import_summeval(path: Path) -> ImportedBenchmark:
    """SummEval (Fabbri et al., 2021): `id, system, source, summary` and the means of the experts' four scores.

    Reads summaries with the articles in `documents.jsonl.gz` beside them, and the authors' annotations once their
    script has paired them with the articles (`text`).
    """
    columns = file_columns(path)
    if {"doc_id", "system", "summary", *_DIMENSIONS} <= columns:
        return ImportedBenchmark(lambda: _converted(path))
    if {"id", "model_id", "decoded", "expert_annotations", "text"} <= columns:
        return ImportedBenchmark(lambda: map(_annotated, file_records(path)))
    raise not_a_file_of(
        "SummEval",
        path,
        "the authors' annotations need their articles: run pair_data.py of github.com/Yale-LILY/SummEval first",
    )


def _converted(path: Path) -> ImportedRows:
    documents = next((expert for expert in path.parent.glob("documents.jsonl*")), None)
    if documents is None:
        raise DataError(
            Problem("file-not-found", "the articles are missing", "put documents.jsonl.gz beside it", file=str(path))
        )
    articles = {record["doc_id"]: record["source"] for record in file_records(documents)}
    for record in file_records(path):
        yield {
            "id": f"{record['doc_id']}-{record['system']}",
            "system": record["system"],
            "source": articles[record["doc_id"]],
            "summary": record["summary"],
            **{name: record[name] for name in _DIMENSIONS},
        }


def _annotated(record: ImportedRecord) -> Mapping[str, Any]:
    experts = record["expert_annotations"]
    return {
        "id": f"{record['id']}-{record['model_id']}",
        "system": record["model_id"],
        "source": record["text"],
        "summary": record["decoded"],
        **{name: fmean(expert[name] for expert in experts) for name in _DIMENSIONS},
    }
