"""ReaLMistake: twelve judges with four prompts, self-consistency and a jury (Kamoi et al., 2024)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from verdict_cli.benchmarks.recorded.case import Case, Figure, Rows, lines

TASK = "answerability_classification"
PROMPTS = ("prompt_1", "prompt_2", "prompt_3", "prompt_4")
JURY = ("Llama-2-70b-chat-hf", "Mixtral-8x7B-Instruct-v0.1", "Qwen1.5-72B-Chat")
NO_POSITIVE = "no answer says that there is an error, so precision has no value; the paper's code writes 0"


def cases(data: Path) -> Iterator[Case]:
    """Accuracy, precision, recall and F1 of every published run."""
    folder = data / "realmistake"
    for responder, judge, prompt, run in _published(folder, "simple"):

        def single(responder: str = responder, judge: str = judge, prompt: str = prompt) -> tuple[Rows, Rows]:
            rows = [
                row for row in _simple(folder)[responder] if (row["judge"], row["prompt"]) == (judge, prompt)
            ]
            return _labels(rows), [
                {"id": row["id"], "unit": "judge", "reply": row["response"]} for row in rows
            ]

        yield Case(f"realmistake/{responder}/{judge}/{prompt}", "realmistake", single, _figures(run))
    for responder, judge, _, run in _published(folder, "selfcons"):

        def samples(judge: str = judge) -> tuple[Rows, Rows]:
            rows = [row for row in lines(folder / f"selfcons__{TASK}.jsonl.gz") if row["judge"] == judge]
            replies = [
                {"id": row["id"], "unit": f"judge[{place}]", "reply": text}
                for row in rows
                for place, text in enumerate(row["responses"])
            ]
            return _labels(rows), replies

        name = f"realmistake/{responder}/{judge}/self-consistency"
        yield Case(name, "realmistake_selfcons", samples, _figures(run))
    for responder, _, _, run in _published(folder, "majority"):

        def votes(responder: str = responder) -> tuple[Rows, Rows]:
            rows = [row for row in _simple(folder)[responder] if row["judge"] in JURY]
            replies = [
                {"id": row["id"], "unit": f"juror[{_seat(row)}]", "reply": row["response"]} for row in rows
            ]
            return _labels([row for row in rows if _seat(row) == 0]), replies

        yield Case(f"realmistake/{responder}/jury", "realmistake_jury", votes, _figures(run))


def _published(folder: Path, method: str) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Responder, judge, prompt and figures of each run; averages over runs are left out."""
    text = (folder / f"published_{method}_performance.json").read_text(encoding="utf-8")
    for responder, judges in json.loads(text)[TASK].items():
        for judge, prompts in judges.items():
            for prompt, run in prompts.items():
                if prompt.startswith("prompt="):
                    bare = prompt.removeprefix("prompt=").removeprefix("baseline_errordetection_")
                    yield _model(responder), _model(judge), bare, run


def _model(key: str) -> str:
    return key.rpartition("=")[2].rpartition("/")[2]


def _figures(run: dict[str, Any]) -> tuple[Figure, ...]:
    places = {"accuracy": "label", "precision": "error", "recall": "error", "f1": "error"}
    rates = tuple(
        Figure(f"{what} (share of all)", f"{at}.mean", run["metrics"][key], 6)
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
            Figure(metric, f"{at}.{metric}", run["metrics"][metric], 6, notes.get(metric, ""))
            for metric, at in places.items()
        )
        + rates
    )


@cache
def _simple(folder: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in lines(folder / f"simple__{TASK}.jsonl.gz"):
        found.setdefault(row["responder"], []).append(row)
    return found


def _seat(row: dict[str, Any]) -> int:
    return JURY.index(row["judge"]) * len(PROMPTS) + PROMPTS.index(row["prompt"])


def _labels(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"id": row["id"], "label": row["label"]} for row in rows]
