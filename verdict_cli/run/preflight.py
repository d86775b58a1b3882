"""What stands between a plan and its first call: models that can answer, a recording that fits, the dataset."""

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
from verdict_cli.plan.row_types import row_converter
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.path_policy import ALLOW_OUTSIDE, OutsideError, PathPolicy


def check_models(plan: Plan, *, priced: bool = False) -> None:
    """Refused when something known beforehand keeps a model of the plan from answering.

    `priced`: a model without a price is a UsageError, because no budget can be kept with it.
    """
    for node in plan.nodes:
        if isinstance(node.work, LLMNode):
            asked = [model for models in node.stages for model in models]
            for model in (*asked, *node.work.follow_up):
                wanted = node.work.reading.top_logprobs if model in asked else 0
                _check_recording(node, model, plan.fence)
                _check_model(node, node.work, model, wanted, priced=priced)


def _check_recording(node: Node, model: Model, fence: PathPolicy) -> None:
    """Refused for a recording outside the pipeline file's folder: its replies could be sent on to anybody."""
    if model.name.startswith(PREFIX) and model.name not in fence.given:
        try:
            fence.path(Path(), model.name.removeprefix(PREFIX))
        except OutsideError as error:
            raise Refused(f"{node.id}: the recording {error}", hint=ALLOW_OUTSIDE) from None


def _check_model(node: Node, work: LLMNode, model: Model, top_logprobs: int, *, priced: bool) -> None:
    trouble = check_model(model, top_logprobs=top_logprobs)
    if trouble:
        raise Refused(
            f"{node.id}: {trouble}",
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


def recording(path: Path, plan: Plan) -> Recording:
    """The recording at the path, which must have calls of at least one unit of the plan."""
    loaded = Recording.load(path)
    asking = [node.id for node in plan.nodes if isinstance(node.work, LLMNode)]
    recorded = loaded.units()
    if asking and not {_bare(unit) for unit in asking} & {_bare(unit) for unit in recorded}:
        raise UsageError(
            f"{path} has no call of any unit of this pipeline: it has {', '.join(recorded[:6]) or 'none'}",
            hint=f"the pipeline's units are {', '.join(asking[:6])}",
        )
    return loaded


def _bare(unit: str) -> str:
    """`judge` and `judge[0]` are the same, as a pipeline has one copy of a unit or several."""
    return unit.removesuffix("[0]")


def keeps(plan: Plan) -> bool:
    """Whether a model of the plan may use replies that runs share."""
    asked = [node.work for node in plan.nodes if isinstance(node.work, LLMNode)]
    models = [model for work in asked for model in (*work.models, *work.follow_up)]
    return any(model.cache and not is_local(model.name) for model in models)


def store(plan: Plan) -> CacheStore | None:
    """The replies that runs share, None where no model of the plan may use them. OutputError when they cannot be opened."""
    return CacheStore.open() if keeps(plan) else None


def check_dataset(plan: Plan, files: Sequence[Path], *, skip_bad_rows: bool = False) -> Dataset:
    """The files as the plan wants their rows."""
    keys = plan.resolved.get("dataset") or {}
    return Dataset(
        files=tuple(files),
        columns=keys.get("columns") or {},
        id=keys.get("id"),
        required=tuple(used.column for used in plan.columns),
        cast=row_converter(plan.row_types, files[0].parent, plan.fence) if plan.row_types is not None else None,
        keep=_keeper(plan.where),
        rules=f"{keys.get('where', '')}|{keys.get('schema', '')}",
        skip_bad_rows=skip_bad_rows,
    )


def _keeper(where: Expression | None) -> Callable[[Mapping[str, Any]], bool] | None:
    return None if where is None else lambda row: bool(where({"source": row}))
