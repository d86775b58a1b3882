"""LLMBar: three evaluators, all their strategies, each pair in both orders (Zeng et al., 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from verdict_cli.benchmarks.recorded.case import Case, Figure, Rows, lines

SENTENCE = r"(?s)\A.*?Output \((a)\) is better|Output \((b)\) is better"
"""The verdict of strategies that reason first; the others answer with a line of its own."""


def cases(data: Path) -> Iterator[Case]:
    """Accuracy in each order, in both and on average, and agreement of the two, for every published run."""
    folder = data / "llmbar"
    for run in lines(folder / "published_statistics.jsonl"):
        evaluator, subset, strategy = run["evaluator"], run["subset"], run["strategy"]
        pipeline, settings = _pipeline(evaluator, strategy)
        name = f"llmbar/{evaluator}/{subset}/{strategy}"
        figures = (
            Figure("accuracy (%)", "accuracy.mean", _percent(run["correct_average"]), 4),
            Figure("agreement (%)", "agreement.mean", _percent(run["equal"]), 4),
            Figure("right as given (%)", "given.mean", _percent(run["correct_False"]), 4),
            Figure("right when swapped (%)", "swapped.mean", _percent(run["correct_True"]), 4),
            Figure("right in both orders (%)", "both.mean", _percent(run["correct_both"]), 4),
        )

        def inputs(
            subset: str = subset, evaluator: str = evaluator, strategy: str = strategy
        ) -> tuple[Rows, Rows]:
            outputs = _outputs(folder, evaluator)[subset, strategy]
            return lines(folder / f"dataset_{subset}.jsonl.gz"), [
                reply for output in outputs for reply in _replies(output)
            ]

        yield Case(name, pipeline, inputs, figures, settings)


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
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for output in lines(folder / f"outputs_{evaluator}.jsonl.gz"):
        found.setdefault((output["subset"], output["strategy"]), []).append(output)
    return found


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
