"""How a run sends its calls as batches, and what keeps it from doing so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from verdict_cli.errors import UsageError
from verdict_cli.llm.batches import batch_problem
from verdict_cli.llm.batches.file_batches import export_problem
from verdict_cli.llm.model_families import is_local
from verdict_cli.model import Model
from verdict_cli.plan.node import Plan
from verdict_cli.run.preflight import models_in_use, models_of


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """``every_model``: all calls are sent as batches, not only those of models with `batch`. ``fallback``: what a batch did
    not answer is called in the ordinary way. ``detach``: send what is ready, and do not wait. ``export``: write each
    batch to this file in place of sending it."""

    every_model: bool = False
    fallback: bool = False
    detach: bool = False
    export: Path | None = None

    def takes(self, model: Model) -> bool:
        """Whether the model's calls are sent as batches."""
        return (self.every_model or model.batch is not False) and not is_local(model.name)


def sends_batches(plan: Plan, options: BatchOptions) -> bool:
    """Whether a run of the plan sends batches."""
    return options.every_model or any(model.batch is not False for model in models_of(plan))


def check_batches(plan: Plan, options: BatchOptions) -> None:
    """UsageError for a model whose calls cannot be sent as batches although they are to be."""
    for node, model, _ in models_in_use(plan):
        if not (options.every_model or model.batch is not False):
            continue
        problem = batch_problem(model) if options.export is None else export_problem(model)
        if problem is not None:
            hint = "set `batch: true` on the models that have one, in place of --batch" if options.every_model else ""
            raise UsageError(
                f"{node.id}: calls of model {model.name} cannot be sent as batches: {problem}",
                hint=hint or "remove `batch` from this model",
            )
