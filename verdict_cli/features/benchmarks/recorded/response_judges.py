"""Recorded judges of responses: ReaLMistake, UniEval and SummEval, debates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from verdict_cli.features.benchmarks.recorded.case import Case, CaseRows, PublishedValue, open_recorded_file, read_jsonl

TASK = "answerability_classification"
PROMPTS = ("prompt_1", "prompt_2", "prompt_3", "prompt_4")
JURY = ("Llama-2-70b-chat-hf", "Mixtral-8x7B-Instruct-v0.1", "Qwen1.5-72B-Chat")
NO_POSITIVE = "no answer says that there is an error, so precision has no value; the paper's code writes 0"


def realmistake_cases(data: Path) -> Iterator[Case]:
    """Accuracy, precision, recall and F1 of every published run."""
    folder = data / "realmistake"
    for responder, judge, prompt, run in _published(folder, "simple"):

        def single(responder: str = responder, judge: str = judge, prompt: str = prompt) -> tuple[CaseRows, CaseRows]:
            rows = [row for row in _simple(folder)[responder] if (row["judge"], row["prompt"]) == (judge, prompt)]
            return _labels(rows), [{"id": row["id"], "unit": "judge", "reply": row["response"]} for row in rows]

        yield Case(f"realmistake/{responder}/{judge}/{prompt}", "realmistake", single, _published_values(run))
    for responder, judge, _, run in _published(folder, "selfcons"):

        def samples(judge: str = judge) -> tuple[CaseRows, CaseRows]:
            rows = [row for row in read_jsonl(folder / f"selfcons__{TASK}.jsonl.gz") if row["judge"] == judge]
            replies = [
                {"id": row["id"], "unit": f"judge[{index}]", "reply": text}
                for row in rows
                for index, text in enumerate(row["responses"])
            ]
            return _labels(rows), replies

        name = f"realmistake/{responder}/{judge}/self-consistency"
        yield Case(name, "realmistake_selfcons", samples, _published_values(run))
    for responder, _, _, run in _published(folder, "majority"):

        def votes(responder: str = responder) -> tuple[CaseRows, CaseRows]:
            rows = [row for row in _simple(folder)[responder] if row["judge"] in JURY]
            replies = [{"id": row["id"], "unit": f"juror[{_seat(row)}]", "reply": row["response"]} for row in rows]
            return _labels([row for row in rows if _seat(row) == 0]), replies

        yield Case(f"realmistake/{responder}/jury", "realmistake_jury", votes, _published_values(run))


def _published(folder: Path, method: str) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Responder, judge, prompt and values of each run; averages over runs are left out."""
    with open_recorded_file(folder / f"published_{method}_performance.json") as file:
        published = json.load(file)
    for responder, judges in published[TASK].items():
        for judge, prompts in judges.items():
            for prompt, run in prompts.items():
                if prompt.startswith("prompt="):
                    bare = prompt.removeprefix("prompt=").removeprefix("baseline_errordetection_")
                    yield _model(responder), _model(judge), bare, run


def _model(key: str) -> str:
    return key.rpartition("=")[2].rpartition("/")[2]


def _published_values(run: dict[str, Any]) -> tuple[PublishedValue, ...]:
    metric_of = {"accuracy": "label", "precision": "error", "recall": "error", "f1": "error"}
    rates = tuple(
        PublishedValue(f"{what} (share of all)", f"{at}.mean", run["metrics"][key], 6)
        for what, at, key in (
            ("errors found", "hits", "true_positive_rate"),
            ("errors missed", "misses", "false_negative_rate"),
            ("false alarms", "alarms", "false_positive_rate"),
            ("rightly passed", "passes", "true_negative_rate"),
        )
    )
    notes = {} if run["prediction_error_num"] else {"precision": NO_POSITIVE}
    return (
        tuple(
            PublishedValue(metric, f"{at}.{metric}", run["metrics"][metric], 6, notes.get(metric, ""))
            for metric, at in metric_of.items()
        )
        + rates
    )


@cache
def _simple(folder: Path) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in read_jsonl(folder / f"simple__{TASK}.jsonl.gz"):
        grouped.setdefault(row["responder"], []).append(row)
    return grouped


def _seat(row: dict[str, Any]) -> int:
    return JURY.index(row["judge"]) * len(PROMPTS) + PROMPTS.index(row["prompt"])


def _labels(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"id": row["id"], "label": row["label"]} for row in rows]


UNIEVAL_PUBLISHED = {
    "naturalness": (0.443666, 0.513986, 0.373973),
    "coherence": (0.595143, 0.612942, 0.465915),
    "engagingness": (0.55651, 0.604739, 0.455941),
    "groundedness": (0.536209, 0.574954, 0.451533),
    "understandability": (0.380038, 0.467807, 0.360741),
    "overall": (0.632796, 0.662583, 0.487272),
}
EXPERTS = {"coherence": 3.4125, "consistency": 4.660417, "fluency": 4.672917, "relevance": 3.777083}


def unieval_cases(data: Path) -> Iterator[Case]:
    """Correlations of UniEval's scores with people's, for each dimension."""

    def inputs() -> tuple[CaseRows, CaseRows]:
        return read_jsonl(data / "unieval" / "topical_chat.jsonl.gz"), []

    values = tuple(
        PublishedValue(f"{dimension}: {metric}", f"{dimension}.{metric}", value, 6)
        for dimension, values in UNIEVAL_PUBLISHED.items()
        for metric, value in zip(("pearson", "spearman", "kendall"), values, strict=True)
    )
    yield Case("unieval/topical-chat", "unieval", inputs, values)


def summeval_cases(data: Path) -> Iterator[Case]:
    """Means of the experts' scores."""

    def inputs() -> tuple[CaseRows, CaseRows]:
        return read_jsonl(data / "summeval" / "summaries.jsonl.gz"), []

    values = tuple(PublishedValue(f"{name}: mean", f"{name}.mean", value, 6) for name, value in EXPERTS.items())
    yield Case("summeval/experts", "summeval", inputs, values, origin="recomputed")


ACCURACY = {
    "human_debate": (46, 55, 84),
    "human_consultancy": (31, 44, 74),
    "ai_debate": (25, 30, 78),
    "ai_consultancy": (21, 25, 80),
}
THIRD = "published over 413 transcripts, of which every third one is recorded here"


def debates_cases(data: Path) -> Iterator[Case]:
    """How often the judges' last probability is on the right answer."""

    def inputs() -> tuple[CaseRows, CaseRows]:
        rows = [
            {**row, "key": str(index)}
            for index, row in enumerate(read_jsonl(data / "debates_quality" / "debates.jsonl.gz"))
        ]
        return rows, [{"id": row["key"], "unit": "judge", "reply": repr(_last(row))} for row in rows]

    here = tuple(
        PublishedValue(f"{name.replace('_', ' ')}: accuracy (%)", f"{name}.mean", 100 * right / count, 4)
        for name, (right, count, _) in ACCURACY.items()
    )
    yield Case("debates/here", "debates", inputs, here, origin="recomputed")
    paper = tuple(
        PublishedValue(f"{name.replace('_', ' ')}: accuracy (%)", f"{name}.mean", value, 0, THIRD)
        for name, (_, _, value) in ACCURACY.items()
    )
    yield Case("debates/paper", "debates", inputs, paper)


def _last(row: dict[str, object]) -> float:
    """The judge's last probability of the first answer."""
    turns = row["turns"]
    assert isinstance(turns, list)
    return float(next(turn["distribution"][0] for turn in reversed(turns) if turn.get("distribution")))
