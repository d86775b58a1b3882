"""Checks between a plan and its first call: models that can answer, a recording that fits, the dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from verdict_cli.errors import Refused, UsageError
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.model_checks import check_model, sees_images
from verdict_cli.llm.providers.prices import cost_usd
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.llm.providers.replay import PREFIX
from verdict_cli.messages import Usage
from verdict_cli.model import Model
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.plan.row_types import caster
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.path_policy import ALLOW_OUTSIDE, OutsideError, PathPolicy


def check_models(plan: Plan, *, priced: bool = False) -> None:
    """Check what is known of the plan's models before a call. Refused where one cannot answer.

    ``priced``: a model without a price is a UsageError, because no budget can be kept with it.
    """
    for node in plan.nodes:
        if isinstance(node.work, LLMNode):
            first_models = [model for models in node.stages for model in models]
            for model in (*first_models, *node.work.follow_up):
                top_logprobs = node.work.reading.top_logprobs if model in first_models else 0
                _check_recording(node, model, plan.fence)
                _check_model(node, node.work, model, top_logprobs, priced=priced)


def _check_recording(node: Node, model: Model, policy: PathPolicy) -> None:
    """Refused for a recording outside the pipeline file's folder: later prompts may send its replies to any host."""
    if model.name.startswith(PREFIX) and model.name not in policy.given:
        try:
            policy.path(Path(), model.name.removeprefix(PREFIX))
        except OutsideError as error:
            raise Refused(f"{node.id}: the recording {error}", hint=ALLOW_OUTSIDE) from None


def _check_model(node: Node, work: LLMNode, model: Model, top_logprobs: int, *, priced: bool) -> None:
    error = check_model(model, top_logprobs=top_logprobs)
    if error:
        raise Refused(
            f"{node.id}: {error}",
            hint=""
            if is_local(model.name)
            else "--model baseline/lexical tries the pipeline without a key or a network",
        )
    if work.prompt.shows_images and sees_images(model) is False:
        raise Refused(
            f"{node.id}: the prompt shows an image, but model {model.name} reads text only",
            hint="choose a model that takes images",
        )
    if priced and not is_local(model.name) and cost_usd(model, Usage()) is None:
        raise UsageError(
            f"{node.id}: the price of model {model.name} is not known, so no budget can be kept",
            hint="give it `cost: {input_per_million: …, output_per_million: …}`, or leave --budget out",
        )


def open_recording(replay: Path | None, plan: Plan, *, priced: bool = False) -> Recording | None:
    """The recording that answers the plan's calls; None where its models do, once each of them is checked.

    Raises what `load_recording` and `check_models` raise.
    """
    if replay is not None:
        return load_recording(replay, plan)
    check_models(plan, priced=priced)
    return None


def load_recording(path: Path, plan: Plan) -> Recording:
    """The recording at the path. UsageError where it has calls of no unit of the plan."""
    recording = Recording.load(path)
    units = [node.id for node in plan.nodes if isinstance(node.work, LLMNode)]
    recorded = recording.units()
    if units and not {_without_copy(unit) for unit in units} & {_without_copy(unit) for unit in recorded}:
        raise UsageError(
            f"{path} has no call of any unit of this pipeline: it has {', '.join(recorded[:6]) or 'none'}",
            hint=f"the pipeline's units are {', '.join(units[:6])}",
        )
    return recording


def _without_copy(unit: str) -> str:
    """`judge` and `judge[0]` are the same: a pipeline has one copy of a unit, or several."""
    return unit.removesuffix("[0]")


def may_cache(plan: Plan) -> bool:
    """Whether a model of the plan may use the reply cache."""
    llm_nodes = [node.work for node in plan.nodes if isinstance(node.work, LLMNode)]
    models = [model for work in llm_nodes for model in (*work.models, *work.follow_up)]
    return any(model.cache and not is_local(model.name) for model in models)


def open_cache(plan: Plan) -> CacheStore | None:
    """The reply cache, None where no model of the plan may use it. OutputError when it cannot be opened."""
    return CacheStore.open() if may_cache(plan) else None


def dataset_for(plan: Plan, files: Sequence[Path], *, skip_bad_rows: bool = False) -> Dataset:
    """The files as the dataset of the plan: its columns, types, filter and required columns."""
    keys = plan.resolved.get("dataset") or {}
    return Dataset(
        files=tuple(files),
        columns=keys.get("columns") or {},
        id=keys.get("id"),
        required=tuple(used.column for used in plan.columns),
        cast=caster(plan.row_types, files[0].parent, plan.fence) if plan.row_types is not None else None,
        keep=_row_filter(plan.where),
        rules=f"{keys.get('where', '')}|{keys.get('schema', '')}",
        skip_bad_rows=skip_bad_rows,
    )


def _row_filter(where: Expression | None) -> Callable[[Mapping[str, Any]], bool] | None:
    return None if where is None else lambda row: bool(where({"source": row}))
