"""The rewards of a trainer's batch: of each row alone, or of the rollouts of one prompt against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from verdict_cli.errors import RowError, UsageError
from verdict_cli.features.rank.candidates import choosing_unit
from verdict_cli.messages import Result
from verdict_cli.plan.node import Plan
from verdict_cli.run.outcome import Reward, reward_of

if TYPE_CHECKING:
    from verdict_cli.features.rewards.group_rewards import GroupJudge, JudgeRows

TrainerProtocol = Literal["openrlhf", "verl", "trl"]

TRL_OBJECTS = ("completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
"""What TRL hands to every reward function beside the columns of the dataset."""


def trl_rows(prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """TRL's `reward_func(prompts, completions, **columns)`: texts, or conversations as lists of messages."""
    rows: list[dict[str, Any]] = []
    for index, (prompt, completion) in enumerate(_zipped(prompts=prompts, completions=completions)):
        row = {name: values[index] for name, values in columns.items() if _is_column(name, values, len(prompts))}
        row |= {"prompt": prompt, "completion": completion, "response": text_of(completion)}
        if isinstance(prompt, list) and isinstance(completion, list):
            row["messages"] = [*prompt, *completion]
        rows.append(row)
    return rows


def _is_column(name: str, values: Any, count: int) -> bool:
    return name not in TRL_OBJECTS and isinstance(values, list | tuple) and len(values) == count


def openrlhf_rows(
    query: Sequence[str], prompts: Sequence[str] | None, labels: Sequence[Any] | None
) -> list[dict[str, Any]]:
    """OpenRLHF's remote reward model: `query` is prompt and response in one text; older versions send nothing else."""
    rows: list[dict[str, Any]] = []
    nothing: list[Any] = [None] * len(query)
    for text, prompt, label in _zipped(query=query, prompts=prompts or nothing, labels=labels or nothing):
        row: dict[str, Any] = {"query": text, "response": text}
        if prompt is not None:
            row |= {"prompt": prompt, "response": text.removeprefix(prompt)}
        rows.append(row if label is None else {**row, "label": label})
    return rows


def verl_row(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Mapping[str, Any] | None
) -> dict[str, Any]:
    """verl's `compute_score(data_source, solution_str, ground_truth, extra_info)`; keys of `extra_info` are columns too."""
    row: dict[str, Any] = {str(name): value for name, value in (extra_info or {}).items()}
    row |= {"data_source": data_source, "solution_str": solution_str, "ground_truth": ground_truth}
    return row | {"extra_info": dict(extra_info or {}), "response": solution_str, "label": ground_truth}


def text_of(completion: Any) -> str:
    """The text of a completion: itself, or the content of its messages."""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, list):
        contents = [message.get("content") for message in completion if isinstance(message, Mapping)]
        return "\n".join(content for content in contents if isinstance(content, str))
    raise UsageError(f"a completion is {completion!r:.80}", hint="TRL sends a text or a list of messages")


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
