"""The batches of trainers as rows of a pipeline.

Each trainer's own names are columns, and under every protocol a row also has `prompt` (where the trainer sends it), `response`
and `label`, so that one pipeline serves all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from verdict_cli.errors import UsageError

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
