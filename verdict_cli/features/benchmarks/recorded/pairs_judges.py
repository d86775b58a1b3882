"""Recorded judges of pairs: AlpacaEval, JudgeBench, LLMBar, PandaLM."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from verdict_cli.features.benchmarks.recorded.case import Case, CaseRows, PublishedValue, open_recorded_file, read_jsonl


def alpacaeval_cases(data: Path) -> Iterator[Case]:
    """The win rate of each model against the baseline."""
    folder = data / "alpacaeval_logprobs"
    with open_recorded_file(folder / "published_leaderboard.csv") as file:
        published = {row["model"]: row for row in csv.DictReader(file)}
    for model, row in published.items():

        def inputs(model: str = model) -> tuple[CaseRows, CaseRows]:
            rows = read_jsonl(folder / f"{model}.jsonl.gz")
            replies = [
                {
                    "id": row["index"],
                    "unit": "judge",
                    "reply": row["text"],
                    "logprobs": [[{"token": token, "logprob": value} for token, value in row["top_logprobs"]]],
                }
                for row in rows
                if not row["identical_outputs"]
            ]
            names = ("index", "switched", "identical_outputs")
            return [{key: row[key] for key in names} for row in rows], replies

        yield Case(f"alpacaeval/{model}", "alpacaeval", inputs, _published_values(row))


def _published_values(row: Mapping[str, str]) -> tuple[PublishedValue, ...]:
    count = int(row["n_total"])
    error = PublishedValue(
        "standard error of the win rate (%)",
        "win_rate.variance",
        float(row["standard_error"]),
        6,
        convert=lambda variance: math.sqrt(variance / count),
    )
    outcomes = tuple(
        PublishedValue(what, f"{at}.mean", float(row[column]), 0, convert=lambda share: share * count)
        for what, at, column in (
            ("wins", "wins", "n_wins"),
            ("wins of the baseline", "losses", "n_wins_base"),
            ("draws", "draws", "n_draws"),
        )
    )
    return (
        PublishedValue("win rate (%)", "win_rate.mean", float(row["win_rate"]), 6),
        error,
        *outcomes,
        PublishedValue("discrete win rate (%)", "discrete.mean", float(row["discrete_win_rate"]), 6),
    )


JUDGEBENCH_PUBLISHED = {"overall": 65.71, "knowledge": 58.44, "reasoning": 62.24, "math": 82.14, "coding": 78.57}
JUDGEBENCH_RECOMPUTED = {
    "first game alone right": ("first_game", 248),
    "second game alone right": ("second_game", 261),
    "games agree": ("agreement", 240),
    "pairs wrong": ("wrong", 39),
    "pairs tied": ("tied", 81),
}


def judgebench_cases(data: Path) -> Iterator[Case]:
    """Accuracy overall and by category, and how the two orders differ."""
    folder = data / "judgebench"

    def inputs() -> tuple[CaseRows, CaseRows]:
        outputs = read_jsonl(folder / "outputs_gpt-4o__arena_hard__o1-mini-2024-09-12.jsonl")
        replies = [
            {"id": output["pair_id"], "unit": f"game[{index}]", "reply": game["response"]}
            for output in outputs
            for index, game in enumerate(output["games"])
        ]
        return read_jsonl(folder / "pairs_gpt-4o.jsonl"), replies

    published = tuple(
        PublishedValue(f"o1-mini, {name}: accuracy (%)", f"{name}.mean", value, 2)
        for name, value in JUDGEBENCH_PUBLISHED.items()
    )
    yield Case("judgebench/o1-mini", "judgebench", inputs, published)
    recomputed = tuple(
        PublishedValue(f"o1-mini, {what} (% of 350)", f"{at}.mean", 100 * count / 350, 2)
        for what, (at, count) in JUDGEBENCH_RECOMPUTED.items()
    )
    yield Case("judgebench/o1-mini/orders", "judgebench", inputs, recomputed, origin="recomputed")


SENTENCE = r"(?s)\A.*?Output \((a)\) is better|Output \((b)\) is better"
"""The verdict of strategies that reason first; the others answer with a line of its own."""


def llmbar_cases(data: Path) -> Iterator[Case]:
    """Accuracy in each order, in both and on average, and agreement of the two, for every published run."""
    folder = data / "llmbar"
    for run in read_jsonl(folder / "published_statistics.jsonl"):
        evaluator, subset, strategy = run["evaluator"], run["subset"], run["strategy"]
        pipeline, settings = _pipeline(evaluator, strategy)
        name = f"llmbar/{evaluator}/{subset}/{strategy}"
        values = (
            PublishedValue("accuracy (%)", "accuracy.mean", _percent(run["correct_average"]), 4),
            PublishedValue("agreement (%)", "agreement.mean", _percent(run["equal"]), 4),
            PublishedValue("right as given (%)", "given.mean", _percent(run["correct_False"]), 4),
            PublishedValue("right when swapped (%)", "swapped.mean", _percent(run["correct_True"]), 4),
            PublishedValue("right in both orders (%)", "both.mean", _percent(run["correct_both"]), 4),
        )

        def inputs(
            subset: str = subset, evaluator: str = evaluator, strategy: str = strategy
        ) -> tuple[CaseRows, CaseRows]:
            outputs = _outputs(folder, evaluator)[subset, strategy]
            return read_jsonl(folder / f"dataset_{subset}.jsonl.gz"), [
                reply for output in outputs for reply in _replies(output)
            ]

        yield Case(name, pipeline, inputs, values, settings)


def _percent(text: str) -> float:
    """`70.0` of `70 / 100 = 70.0%`."""
    return float(text.rpartition("= ")[2].rstrip("%"))


def _pipeline(evaluator: str, strategy: str) -> tuple[str, tuple[str, ...]]:
    quoted = "'" + SENTENCE + "'"
    if strategy.startswith("Rating"):
        return "llmbar_rating", ()
    if strategy.startswith("Swap"):
        again = (f"units.Second.extract.fields.best={quoted}",) if strategy == "Swap_CoT" else ()
        return "llmbar_swap", again
    if strategy == "CoT" and evaluator != "PaLM2":
        return "llmbar", (f"units.Comparison.extract.fields.best={quoted}",)
    return "llmbar", ()


@cache
def _outputs(folder: Path, evaluator: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for output in read_jsonl(folder / f"outputs_{evaluator}.jsonl.gz"):
        grouped.setdefault((output["subset"], output["strategy"]), []).append(output)
    return grouped


def _replies(output: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The verdicts' texts; metrics and reference answers that were written before them are left out."""
    stages = [stage for stage in output["stages"] if "auxiliary" not in stage]
    for stage, again in zip(stages, ("", "_again"), strict=False):
        for unit in ("score_1", "score_2"):
            if unit in stage:
                yield {"id": output["index"], "unit": unit, "reply": stage[unit]}
        for unit in ("orig", "swap"):
            if "completion" in stage[unit]:
                yield {"id": output["index"], "unit": f"{unit}{again}", "reply": stage[unit]["completion"]}


def pandalm_cases(data: Path) -> Iterator[Case]:
    """The people's agreement, the gold labels' distribution, and GPT-3.5 against them."""
    folder = data / "pandalm"

    def inputs() -> tuple[CaseRows, CaseRows]:
        with open_recorded_file(folder / "testset-v1.json") as file:
            rows = json.load(file)
        with open_recorded_file(folder / "gpt-3.5-turbo-testset-v1.json") as file:
            outputs = json.load(file)
        replies = [{"id": str(row["idx"]), "unit": "judge", "reply": str(row["gpt_result"])} for row in outputs]
        return [{key: str(value) for key, value in row.items()} for row in rows], replies

    people = (
        PublishedValue("annotators 1 and 2: Cohen's kappa", "people_12.cohen_kappa", 0.85, 2),
        PublishedValue("annotators 1 and 3: Cohen's kappa", "people_13.cohen_kappa", 0.88, 2),
        PublishedValue("annotators 2 and 3: Cohen's kappa", "people_23.cohen_kappa", 0.86, 2),
        PublishedValue("gold ties (rows)", "gold_0.mean", 105, 0),
        PublishedValue("gold response 1 (rows)", "gold_1.mean", 422, 0),
        PublishedValue("gold response 2 (rows)", "gold_2.mean", 472, 0),
    )
    yield Case("pandalm/people", "pandalm", inputs, people)
    judge = (
        PublishedValue("GPT-3.5: accuracy", "judge.accuracy", 0.6977, 4),
        PublishedValue("GPT-3.5: Cohen's kappa", "judge.cohen_kappa", 0.4755, 4),
    )
    yield Case("pandalm/gpt-3.5", "pandalm", inputs, judge, origin="recomputed")
    table = (
        PublishedValue(
            "GPT-3.5, the paper's table: accuracy",
            "judge.accuracy",
            0.6296,
            4,
            "the table has another run of GPT-3.5 than the recorded one",
        ),
    )
    yield Case("pandalm/gpt-3.5/table", "pandalm", inputs, table)
