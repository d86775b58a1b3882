"""The rewards of a trainer's batch: of each row alone, or of the rollouts of one prompt against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from verdict_cli.errors import RowError, UsageError
from verdict_cli.features.rank.candidates import choosing_unit
from verdict_cli.language.authoring.arguments import ModelLike
from verdict_cli.messages import JsonObject, NamedValues, Result
from verdict_cli.plan.node import Plan
from verdict_cli.python.judge import Judge
from verdict_cli.python.pipeline import Pipeline
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.outcome import Reward, reward_of

if TYPE_CHECKING:
    from verdict_cli.features.rewards.group_rewards import GroupJudge, JudgeRows, Rewards

    NamedRewards = dict[str, Rewards]


TRL_OBJECTS = ("completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
"""What TRL hands to every reward function beside the columns of the dataset."""


def trl_rows(
    prompts: Sequence[Any], completions: Sequence[Any], columns: NamedValues
) -> list[JsonObject]:
    """TRL's `reward_func(prompts, completions, **columns)`: texts, or conversations as lists of messages."""

    def is_column(name: str, values: Any) -> bool:
        return (
            name not in TRL_OBJECTS
            and isinstance(values, list | tuple)
            and len(values) == len(prompts)
        )

    rows = []
    for index, (prompt, completion) in enumerate(_zipped(prompts=prompts, completions=completions)):
        row = {name: values[index] for name, values in columns.items() if is_column(name, values)}
        row |= {"prompt": prompt, "completion": completion, "response": text_of(completion)}
        if isinstance(prompt, list) and isinstance(completion, list):
            row["messages"] = [*prompt, *completion]
        rows.append(row)
    return rows


def verl_row(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: NamedValues | None
) -> JsonObject:
    """verl's `compute_score(data_source, solution_str, ground_truth, extra_info)`; keys of `extra_info` are columns too."""
    row = {str(name): value for name, value in (extra_info or {}).items()}
    row |= {"data_source": data_source, "solution_str": solution_str, "ground_truth": ground_truth}
    return row | {
        "extra_info": dict(extra_info or {}),
        "response": solution_str,
        "label": ground_truth,
    }


def text_of(completion: Any) -> str:
    """The text of a completion: itself, or the content of its messages."""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, list):
        contents = [
            message.get("content") for message in completion if isinstance(message, Mapping)
        ]
        return "\n".join(content for content in contents if isinstance(content, str))
    raise UsageError(
        f"a completion is {completion!r:.80}", hint="TRL sends a text or a list of messages"
    )


def prompt_groups(prompts: Sequence[Any]) -> list[list[int]]:
    """The places of the rollouts of each prompt, in the order of the prompts."""
    groups: dict[str, list[int]] = {}
    for index, prompt in enumerate(prompts):
        groups.setdefault(repr(prompt), []).append(index)
    return list(groups.values())


def _zipped(**columns: Sequence[Any]) -> zip[tuple[Any, ...]]:
    """The columns side by side. UsageError where they have different lengths."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{count} {name}" for name, count in lengths.items())
        raise UsageError(f"the batch has {counts}", hint="send as many of each")
    return zip(*columns.values(), strict=True)


REWARD = "reward"
_OF_ROLLOUT = ("response", "completion", "messages", "id")
"""Columns that differ between the rollouts of a prompt."""


class TrainerRewards(Struct, frozen=True):
    """How a pipeline rewards: ``numbers`` by name (`reward` and each criterion), or ``group`` if its judge compares."""

    numbers: Mapping[str, Reward]
    group: GroupJudge | None

    @staticmethod
    def of(
        plan: Plan, reward: str | None, criteria: Mapping[str, str], seed: int
    ) -> TrainerRewards:
        """UsageError where the pipeline gives no number, or where criteria are asked of a judge that compares."""
        if reward is None and choosing_unit(plan) is not None:
            if criteria:
                raise UsageError(
                    "a judge that compares rollouts gives one reward, without criteria",
                    hint="leave the criteria out",
                )
            from verdict_cli.features.rewards.group_rewards import GroupJudge  # it needs scipy

            return TrainerRewards({}, GroupJudge.of(plan, None, seed))
        if REWARD in criteria:
            raise UsageError("a criterion cannot be called `reward`", hint="give it another name")
        return TrainerRewards(
            {name: reward_of(plan, text) for name, text in {REWARD: reward, **criteria}.items()},
            None,
        )

    async def of_rows(self, rows: Sequence[NamedValues], judge: JudgeRows) -> NamedRewards:
        """`reward` and each criterion of every row; None for a row that failed, abstained, or has no number."""
        if self.group is None:
            results = await judge(rows)
            return {
                name: [_number(result, number) for result in results]
                for name, number in self.numbers.items()
            }
        for row in rows:
            if "prompt" not in row:
                raise UsageError(
                    "rollouts are compared by their prompt, and the trainer sends none",
                    hint="use a judge that scores",
                )
        indices = prompt_groups([row["prompt"] for row in rows])
        groups = [
            (
                _shared([rows[index] for index in group]),
                [rows[index]["response"] for index in group],
            )
            for group in indices
        ]
        rewards: dict[int, float | None] = {}
        for group, of_group in zip(indices, await self.group.rewards(groups, judge), strict=True):
            rewards |= zip(group, of_group, strict=True)
        return {REWARD: [rewards[index] for index in range(len(rows))]}


def _shared(rows: Sequence[NamedValues]) -> JsonObject:
    """The columns that the rollouts of a prompt share."""
    first, *other_rows = rows
    return {
        name: value
        for name, value in first.items()
        if name not in _OF_ROLLOUT and all(name in row and row[name] == value for row in other_rows)
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


def trl_reward(
    source: str | Path | Pipeline,
    *,
    reward: str | None = None,
    name: str | None = None,
    **options: Any,
) -> TrlReward:
    """TRL's reward function of a pipeline file, or of a `Pipeline`: `(prompts, completions, **columns) -> list[float]`.

    ``reward`` is the expression whose value is the reward (by default the score of the last step); ``name`` is what TRL's
    logs call it. Options are those of `Judge`: ``model``, ``seed``, ``concurrency``, ``budget``, ``cache``, ``replay``.
    """
    judge = TrainerJudge(source, reward=reward, **options)
    return TrlReward(SharedBatches(judge), name or judge.name, REWARD)


def trl_rewards(
    source: str | Path | Pipeline, criteria: Mapping[str, str], **options: Any
) -> list[TrlReward]:
    """A reward function for each criterion, a name and its expression, for `reward_funcs=` with `reward_weights=`.

    All share one judgement of each batch: `trl_rewards("judge.yaml", {"right": "nodes.right.score"})`.
    """
    if not criteria:
        raise UsageError(
            "trl_rewards needs criteria", hint='such as {"right": "nodes.right.score"}'
        )
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
        raise UsageError(
            "verl scores one solution at a time, and this judge compares",
            hint="use a judge that scores",
        )

    def compute_score(
        data_source: Any,
        solution_str: str,
        ground_truth: Any,
        extra_info: NamedValues | None = None,
        **_: Any,
    ) -> dict[str, float]:
        rewards = judge.rewards_of([verl_row(data_source, solution_str, ground_truth, extra_info)])
        return verl_score({name: values[0] for name, values in rewards.items()})

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
            pipeline,
            model=model,
            replay=replay,
            seed=seed,
            concurrency=concurrency,
            budget=budget,
            cache=cache,
        )
        self.name = self._plan.name
        self._rewards = TrainerRewards.of(self._plan, reward, criteria or {}, seed)

    @property
    def compares(self) -> bool:
        """Whether rollouts of one prompt are compared with each other."""
        return self._rewards.group is not None

    def rewards_of(self, rows: Sequence[NamedValues]) -> NamedRewards:
        """`reward` and each criterion of every row, None for a row without one."""

        async def work(session: JudgeSession) -> NamedRewards:
            async def judge(batch: Sequence[NamedValues]) -> list[Result]:
                return await session.judge_all(batch, lambda result: result, self._concurrency)

            return await self._rewards.of_rows(rows, judge)

        return self._open_background().wait(work)


class TrlReward:
    """TRL's reward function over a judge: `(prompts, completions, **columns) -> list of numbers`, None for no reward."""

    def __init__(self, batches: SharedBatches, name: str, which: str) -> None:
        self.__name__ = name  # what TRL's logs call the reward
        self._batches = batches
        self._which = which

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> Rewards:
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
        self._rows: list[JsonObject] = []
        self._found: NamedRewards = {}

    def rewards(self, which: str, rows: list[JsonObject]) -> Rewards:
        """One reward of every row. The same function called with equal rows again judges them again."""
        with self._lock:
            if which not in self._found or rows != self._rows:
                self._rows, self._found = rows, dict(self.judge.rewards_of(rows))
            return self._found.pop(which)
