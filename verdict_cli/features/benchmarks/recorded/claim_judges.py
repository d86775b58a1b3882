"""Recorded judges of claims, answers, refusals and requirements: FactCC, WiCE, TriviaQA, XSTest, PaperBench."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from verdict_cli.features.benchmarks.recorded.case import Case, CaseRows, PublishedValue, open_recorded_file, read_jsonl

FACTCC_UNCLEAR = "in the other answers the first clear word is a yes"


def factcc_cases(data: Path) -> Iterator[Case]:
    """The share of answers that a pattern reads as "no"."""

    def inputs() -> tuple[CaseRows, CaseRows]:
        records = read_jsonl(data / "factcc_explanations" / "explanations.jsonl.gz")
        rows = [
            {"place": str(index), "doc_id": row["doc_id"], "summary": row["summary"]}
            for index, row in enumerate(records)
        ]
        return rows, [
            {"id": str(index), "unit": "judge", "reply": row["explanation"]} for index, row in enumerate(records)
        ]

    values = (PublishedValue("answers read as no (%)", "read_as_no.mean", 100.0, 2, FACTCC_UNCLEAR),)
    yield Case("factcc/explanations", "factcc", inputs, values)


def wice_cases(data: Path) -> Iterator[Case]:
    """F1 and accuracy over claims."""

    def inputs() -> tuple[CaseRows, CaseRows]:
        rows = [{**row, "key": _key(row)} for row in read_jsonl(data / "wice" / "claims.jsonl")]
        outputs = read_jsonl(data / "wice" / "outputs_claim_gpt-4-0613.jsonl")
        return rows, [{"id": _key(row), "unit": "judge", "reply": row["response"]} for row in outputs]

    values = (
        PublishedValue("F1 × 100", "claim.f1", 61.0, 1, convert=_percent),
        PublishedValue("accuracy (%)", "claim.accuracy", 77.0, 1, convert=_percent),
    )
    yield Case("wice/gpt-4-0613", "wice", inputs, values)


def _key(row: dict[str, object]) -> str:
    return f"{row['id']}-{row['chunk']}"


def _percent(share: float) -> float:
    return 100 * share


TRIVIAQA_RECOMPUTED = {
    "GPT-4": (0.9115, 0.7876),
    "Llama3-70B": (0.9266, 0.8179),
    "JudgeLM": (0.8017, 0.5917),
    "Contains": (0.8478, 0.6832),
    "EM": (0.7088, 0.4578),
    "Gemma-2B": (0.7803, 0.4220),
}


def triviaqa_cases(data: Path) -> Iterator[Case]:
    """Agreement and Cohen's kappa of six judges with people."""

    def inputs() -> tuple[CaseRows, CaseRows]:
        rows = [
            {**row, "key": f"{row['exam_taker']}-{row['index']}"}
            for row in read_jsonl(data / "triviaqa_judges" / "judgements_v1.jsonl.gz")
        ]
        replies = [
            {"id": row["key"], "unit": judge, "reply": "true" if answer else "false"}
            for row in rows
            for judge, answer in row["judges"].items()
            if answer is not None
        ]
        return rows, replies

    values = tuple(
        PublishedValue(f"{judge}: {what}", f"{judge}.{metric}", value, 4)
        for judge, values in TRIVIAQA_RECOMPUTED.items()
        for what, metric, value in zip(("agreement", "Cohen's kappa"), ("accuracy", "cohen_kappa"), values, strict=True)
    )
    yield Case("triviaqa/v1", "triviaqa", inputs, values, origin="recomputed")


RATES = {
    ("human", "safe"): (40.4, 38.0, 21.6),
    ("human", "unsafe"): (0.0, 99.5, 0.5),
    ("gpt4", "safe"): (64.0, 30.4, 5.6),
    ("gpt4", "unsafe"): (15.0, 85.0, 0.0),
    ("match", "safe"): (51.6, 48.4),
    ("match", "unsafe"): (2.0, 98.0),
}
RATERS = {"human": "people", "gpt4": "GPT-4", "match": "string match"}
LABELS = ("compliance", "refusal", "partial")


def xstest_cases(data: Path) -> Iterator[Case]:
    """The published rates, and the agreement of GPT-4 and of string matching with people."""

    def inputs() -> tuple[CaseRows, CaseRows]:
        with open_recorded_file(data / "xstest" / "completions_llama2orig.csv") as file:
            rows = [{**row, "unsafe": row["type"].startswith("contrast_")} for row in csv.DictReader(file)]
        return rows, [{"id": row["id"], "unit": "judge", "reply": row["gpt4_label"]} for row in rows]

    rates = tuple(
        PublishedValue(f"{RATERS[rater]}, {group} prompts: {label} (%)", f"{rater}_{group}_{label}.mean", value, 1)
        for (rater, group), values in RATES.items()
        for label, value in zip(LABELS, values, strict=False)
    )
    yield Case("xstest/rates", "xstest", inputs, rates)
    people = (
        PublishedValue("two people: agreement (%)", "people.accuracy", 96.4, 1, convert=lambda share: 100 * share),
        PublishedValue("two people: Fleiss' kappa, as Krippendorff's alpha", "people.krippendorff_alpha", 0.93, 2),
    )
    yield Case("xstest/people", "xstest", inputs, people)
    agreement = (
        PublishedValue("GPT-4: accuracy", "gpt4.accuracy", 0.7711, 4),
        PublishedValue("GPT-4: Cohen's kappa", "gpt4.cohen_kappa", 0.5795, 4),
        PublishedValue("string match, two classes: accuracy", "match.accuracy", 0.8933, 4),
        PublishedValue("string match, two classes: Cohen's kappa", "match.cohen_kappa", 0.7246, 4),
    )
    yield Case("xstest/agreement", "xstest", inputs, agreement, origin="recomputed")


PAPERBENCH_SCORES = {"rice": 0.185681216931217, "self_consistency": 0.91, "all_in_one": 0.713935185185185}


def paperbench_cases(data: Path) -> Iterator[Case]:
    """The scores of three submissions, from people's grades of the leaves of their rubrics."""

    def inputs() -> tuple[CaseRows, CaseRows]:
        rows = read_jsonl(data / "paperbench" / "rubrics.jsonl.gz")
        return rows, [
            {"id": row["paper"], "unit": "grade", "item": place, "reply": json.dumps({"score": leaf["grade"]})}
            for row in rows
            for place, leaf in enumerate(row["rubric"])
        ]

    values = tuple(
        PublishedValue(f"{paper}: replication score", f"{paper}.mean", score, 9)
        for paper, score in PAPERBENCH_SCORES.items()
    )
    yield Case("paperbench/people", "paperbench", inputs, values)
