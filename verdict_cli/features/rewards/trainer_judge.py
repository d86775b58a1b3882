"""A judge that rewards the batches of trainers, from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from verdict_cli.errors import UsageError
from verdict_cli.features.rewards.trainer_rewards import REWARD, TrainerRewards, trl_rows, verl_row, verl_score
from verdict_cli.language.authoring.arguments import ModelLike
from verdict_cli.messages import Result
from verdict_cli.python.judge import Judge
from verdict_cli.python.pipeline import Pipeline
from verdict_cli.run.judge_session import JudgeSession


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


class TrainerJudge(Judge):
    """A `Judge` for rows of trainers. Rows that fail have no reward; what stops a run, such as a refused key, is raised."""

    def __init__(
        self,
        source: str | Path | Pipeline,
        *,
        reward: str | None = None,
        criteria: Mapping[str, str] | None = None,
        model: ModelLike | None = None,
        replay: str | Path | None = None,
        seed: int = 0,
        concurrency: int = 64,
        budget: float | None = None,
        cache: bool = False,
    ) -> None:
        pipeline = source if isinstance(source, Pipeline) else Pipeline.from_yaml(source)
        super().__init__(
            pipeline, model=model, replay=replay, seed=seed, concurrency=concurrency, budget=budget, cache=cache
        )
        self.name = self._plan.name
        self._rewards = TrainerRewards.of(self._plan, reward, criteria or {}, seed)

    @property
    def compares(self) -> bool:
        """Whether rollouts of one prompt are compared with each other."""
        return self._rewards.group is not None

    def rewards_of(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float | None]]:
        """`reward` and each criterion of every row, None for a row without one."""

        async def work(session: JudgeSession) -> dict[str, list[float | None]]:
            async def judge(given: Sequence[Mapping[str, Any]]) -> list[Result]:
                return await session.judge_all(given, lambda result: result, self._concurrency)

            return await self._rewards.of_rows(rows, judge)

        return self._open_background().wait(work)


class TrlReward:
    """TRL's reward function over a judge: `(prompts, completions, **columns) -> list of numbers`, None for no reward."""

    def __init__(self, batches: SharedBatches, name: str, which: str) -> None:
        self.__name__ = name  # what TRL's logs call the reward
        self._batches = batches
        self._which = which

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """The reward of each completion, in order."""
        return self._batches.rewards(self._which, trl_rows(prompts, completions, columns))

    def close(self) -> None:
        """End the judge's event loop."""
        self._batches.judge.close()


class SharedBatches:
    """Judges a batch once for all reward functions of a judge, which a trainer calls one after another."""

    def __init__(self, judge: TrainerJudge) -> None:
        self.judge = judge
        self._lock = Lock()
        self._rows: list[dict[str, Any]] = []
        self._found: dict[str, list[float | None]] = {}

    def rewards(self, which: str, rows: list[dict[str, Any]]) -> list[float | None]:
        """One reward of every row. The same function called with equal rows again judges them again."""
        with self._lock:
            if which not in self._found or rows != self._rows:
                self._rows, self._found = rows, dict(self.judge.rewards_of(rows))
            return self._found.pop(which)
