"""Reward functions for TRL and verl; `verdict_cli.rl` has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from verdict_cli.errors import UsageError
from verdict_cli.features.rewards.trainer_judge import SharedBatches, TrainerJudge, TrlReward
from verdict_cli.features.rewards.trainer_rewards import REWARD, verl_score
from verdict_cli.features.rewards.trainer_rows import verl_row
from verdict_cli.python.pipeline import Pipeline


def trl_reward(
    source: str | Path | Pipeline, *, reward: str | None = None, name: str | None = None, **options: Any
) -> TrlReward:
    """TRL's reward function of a pipeline file, or of a `Pipeline`: `(prompts, completions, **columns) -> list[float]`.

    ``reward`` is the expression whose value is the reward (by default the score of the last step); ``name`` is what TRL's
    logs call it. Options are those of `Judge`: ``model``, ``seed``, ``concurrency``, ``budget``, ``cache``, ``replay``.
    """
    judge = TrainerJudge(source, reward=reward, **options)
    return TrlReward(SharedBatches(judge), name or judge.name, REWARD)


def trl_rewards(source: str | Path | Pipeline, criteria: Mapping[str, str], **options: Any) -> list[TrlReward]:
    """A reward function for each criterion, a name and its expression, for `reward_funcs=` with `reward_weights=`.

    All share one judgement of each batch: `trl_rewards("judge.yaml", {"right": "nodes.right.score"})`.
    """
    if not criteria:
        raise UsageError("trl_rewards needs criteria", hint='such as {"right": "nodes.right.score"}')
    first = next(iter(criteria.values()))
    batches = SharedBatches(TrainerJudge(source, reward=first, criteria=criteria, **options))
    return [TrlReward(batches, name, name) for name in criteria]


def verl_reward(
    source: str | Path | Pipeline,
    *,
    reward: str | None = None,
    criteria: Mapping[str, str] | None = None,
    **options: Any,
) -> Callable[..., dict[str, float]]:
    """verl's `compute_score(data_source, solution_str, ground_truth, extra_info)`, for `custom_reward_function`.

    It returns `score`, `failed` (1 where there is no reward: `score` is NaN then) and each criterion.
    """
    judge = TrainerJudge(source, reward=reward, criteria=criteria, **options)
    if judge.compares:
        judge.close()
        raise UsageError("verl scores one solution at a time, and this judge compares", hint="use a judge that scores")

    def compute_score(
        data_source: Any, solution_str: str, ground_truth: Any, extra_info: Mapping[str, Any] | None = None, **_: Any
    ) -> dict[str, float]:
        found = judge.rewards_of([verl_row(data_source, solution_str, ground_truth, extra_info)])
        return verl_score({name: values[0] for name, values in found.items()})

    return compute_score
