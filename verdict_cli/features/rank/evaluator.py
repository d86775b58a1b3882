"""Leaderboards as evaluations of a kind of their own: what is checked before a run, and their metrics."""

from __future__ import annotations

from pathlib import Path

from verdict_cli.config_model import ConfigModel, Issue
from verdict_cli.features.rank.arena_keys import (
    BATTLE_KEYS,
    SCORE_KEYS,
    ArenaKeys,
    arena_keys,
    arena_problems,
    control_texts,
)
from verdict_cli.features.rank.contest_rows import ContestCheck
from verdict_cli.language.evaluations import Evaluation, Evaluations
from verdict_cli.language.metric_registry import UNIT, Metric
from verdict_cli.messages import NamedValues


class ArenaEvaluator:
    """Leaderboards as evaluations of a kind of their own; see `Evaluator`."""

    noun = "leaderboard"
    metrics = ("mean_score", "win_rate", "bradley_terry")
    gate_hint = "`evaluations.NAME.systems` in report.json has the values of each system"

    def takes(self, evaluation: Evaluation) -> bool:
        """As `Evaluator.takes`."""
        return arena_keys(evaluation) is not None

    def problems(self, evaluation: Evaluation) -> list[Issue]:
        """As `Evaluator.problems`."""
        keys, base = _keys_below(evaluation)
        issues = []
        if base:
            issues = [
                Issue(key, f"`{key}` is both in and next to `arena`", "keep it in `arena`")
                for key in ArenaKeys.model_fields
                if getattr(evaluation, key)
            ]
        for key, message, hint in arena_problems(keys, evaluation.metrics or ()):
            issues.append(
                Issue(
                    key if key == "metrics" else ".".join(filter(None, (*base, key))), message, hint
                )
            )
        return issues

    def expressions(self, evaluation: Evaluation) -> list[tuple[tuple[str | int, ...], str | None]]:
        """As `Evaluator.expressions`."""
        keys, base = _keys_below(evaluation)
        expressions: list[tuple[tuple[str | int, ...], str | None]] = [
            ((*base, key), getattr(keys, key)) for key in (*SCORE_KEYS, *BATTLE_KEYS, "item")
        ]
        for index, texts in enumerate(control_texts(keys)):
            expressions += [((*base, "control", index), text) for text in texts]
        return expressions

    def row_check(self, name: str, evaluation: Evaluation) -> ContestCheck:
        """As `Evaluator.row_check`."""
        keys, _ = _keys_below(evaluation)
        return ContestCheck(name, keys, evaluation.where)

    def measure(self, evaluations: Evaluations, results: Path, seed: int) -> NamedValues:
        """As `Evaluator.measure`."""
        from verdict_cli.features.rank.leaderboard import (
            leaderboards,  # here, because it imports numpy and scipy
        )

        return leaderboards(evaluations, results, seed=seed)


def _keys_below(evaluation: ConfigModel) -> tuple[ArenaKeys, tuple[str, ...]]:
    """The keys of a leaderboard, and the path in the evaluation below which they are."""
    keys = arena_keys(evaluation)
    assert keys is not None
    return keys, () if keys is evaluation else ("arena",)


MEAN_SCORE = Metric(
    "mean_score",
    "The mean score of each system of an `arena`.",
    ("evaluator",),
    interval="none",
    keys=("arena",),
)
WIN_RATE = Metric(
    "win_rate",
    "The share of its battles that each system of an `arena` wins, ties as one half.",
    ("evaluator",),
    bounds=UNIT,
    interval="none",
    keys=("arena",),
)
BRADLEY_TERRY = Metric(
    "bradley_terry",
    "The strength of each system of an `arena` in log-odds against their average (Bradley and Terry, 1952), ties as one half.",
    ("evaluator",),
    interval="none",
    keys=("arena",),
)
