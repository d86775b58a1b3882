"""The rewards of a trainer's batch: of each row alone, or of the rollouts of one prompt against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verdict_cli.errors import RowError, UsageError
from verdict_cli.features.rank.candidate_columns import choosing_unit
from verdict_cli.features.rewards.trainer_rows import prompt_groups
from verdict_cli.messages import Result
from verdict_cli.plan.node import Plan
from verdict_cli.run.outcome import Reward, reward_of

if TYPE_CHECKING:
    from verdict_cli.features.rewards.group_rewards import GroupJudge, JudgeRows

REWARD = "reward"
_OF_ROLLOUT = ("response", "completion", "messages", "query", "id")
"""Columns that differ between the rollouts of a prompt."""


@dataclass(frozen=True)
class TrainerRewards:
    """How a pipeline rewards: ``numbers`` by name (`reward` and each criterion), or ``group`` if its judge compares."""

    numbers: Mapping[str, Reward]
    group: GroupJudge | None

    @staticmethod
    def of(plan: Plan, reward: str | None, criteria: Mapping[str, str], seed: int) -> TrainerRewards:
        """UsageError where the pipeline gives no number, or where criteria are asked of a judge that compares."""
        if reward is None and choosing_unit(plan) is not None:
            if criteria:
                raise UsageError(
                    "a judge that compares rollouts gives one reward, without criteria", hint="leave the criteria out"
                )
            from verdict_cli.features.rewards.group_rewards import GroupJudge  # it needs scipy

            return TrainerRewards({}, GroupJudge.of(plan, None, seed))
        if REWARD in criteria:
            raise UsageError("a criterion cannot be called `reward`", hint="give it another name")
        return TrainerRewards(
            {name: reward_of(plan, text) for name, text in {REWARD: reward, **criteria}.items()}, None
        )

    async def of_rows(self, rows: Sequence[Mapping[str, Any]], judge: JudgeRows) -> dict[str, list[float | None]]:
        """`reward` and each criterion of every row; None for a row that failed, abstained, or has no number."""
        if self.group is None:
            results = await judge(rows)
            return {name: [_number(result, number) for result in results] for name, number in self.numbers.items()}
        for row in rows:
            if "prompt" not in row:
                raise UsageError(
                    "rollouts are compared by their prompt, and the trainer sends none", hint="use a judge that scores"
                )
        places = prompt_groups([row["prompt"] for row in rows])
        groups = [
            (_shared([rows[place] for place in group]), [rows[place]["response"] for place in group])
            for group in places
        ]
        rewards: list[float | None] = [None] * len(rows)
        for group, found in zip(places, await self.group.rewards(groups, judge), strict=True):
            for place, reward in zip(group, found, strict=True):
                rewards[place] = reward
        return {REWARD: rewards}


def _shared(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns that the rollouts of a prompt share."""
    first, *others = rows
    return {
        name: value
        for name, value in first.items()
        if name not in _OF_ROLLOUT and all(name in row and row[name] == value for row in others)
    }


def _number(result: Result, number: Callable[[Result], float]) -> float | None:
    if result.status != "ok":
        return None
    try:
        return number(result)
    except RowError:
        return None


def verl_score(rewards: Mapping[str, float | None]) -> dict[str, float]:
    """A solution's rewards as verl takes them."""
    numbers = {name: float("nan") if value is None else value for name, value in rewards.items()}
    return {"score": numbers.pop(REWARD), "failed": float(rewards[REWARD] is None), **numbers}
