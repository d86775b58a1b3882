"""Runs of one pipeline's variants, and the metric that compares them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from verdict_cli.errors import UsageError
from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.language.metric_registry import METRICS, find_metric
from verdict_cli.plan.node import Plan
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.measure import measure


class VariantRun(Struct, frozen=True):
    """A finished run of a variant: its name, plan, directory and facts."""

    name: str
    plan: Plan
    folder: Path
    facts: RunFacts


def choose_metric(plans: Sequence[tuple[str, Plan]], metric: str | None) -> tuple[str, str | None]:
    """The evaluation and the metric that compare the variants; None stands for the evaluation's first metric.

    UsageError if a variant has no such evaluation.
    """
    first = plans[0][1]
    evaluation, _, name = (metric or "").rpartition(".")
    if metric and not evaluation and metric in first.evaluations:
        evaluation, name = metric, ""
    if not evaluation:
        candidates = (
            key
            for key, evaluation in first.evaluations.items()
            if not name or evaluation.metrics is None or name in evaluation.metrics
        )
        evaluation = next(candidates, next(iter(first.evaluations), ""))
    if name and find_metric(name) is None:
        raise UsageError(
            f"--metric: unknown metric {name!r}", hint=nearest_spelling(name, METRICS.names())
        )
    for label, plan in plans:
        if evaluation not in plan.evaluations:
            known = ", ".join(plan.evaluations) or "none"
            raise UsageError(
                f"{label}: there is no evaluation {evaluation!r} to compare variants by"
                if evaluation
                else f"{label}: the pipeline has no `evaluate`, so variants have no metric",
                hint=f"its evaluations are {known}"
                if plan.evaluations
                else "add `evaluate` with what is measured",
            )
    return evaluation, name or None


def main_metric(run: VariantRun, name: str, seed: int) -> str:
    """The first metric of the evaluation that is defined. UsageError if it has no scalar metric."""
    evaluation = run.plan.evaluations[name].model_copy(update={"by": (), "gold": None})
    measured = measure({name: evaluation}, run.folder / "results.parquet", seed=seed)[name].values
    scalars = [metric for metric in measured if metric != "confusion"]
    if not scalars:
        raise UsageError(
            f"`evaluate.{name}` has no metric to compare by", hint="name one with --metric"
        )
    return next((metric for metric in scalars if measured[metric].value is not None), scalars[0])
