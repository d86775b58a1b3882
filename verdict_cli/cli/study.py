"""The arms of a study: its runs, opened together, and the metric that compares them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from verdict_cli.cli.console import print_error
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.errors import UsageError, VerdictError
from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.language.metric_registry import METRICS, find_metric
from verdict_cli.plan.node import Plan
from verdict_cli.run_facts import RunFacts

if TYPE_CHECKING:
    from verdict_cli.cli.model_options import RowOptions
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.run.job import RunOptions
    from verdict_cli.run.session import Session
    from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts


class Arm(Struct, frozen=True):
    """One run of a study: its plan, the pipeline and the data as the user named them, and its directory.

    ``limit`` is the number of rows, where it is not the command's. ``change`` adapts the options of the run.
    """

    name: str
    plan: Plan
    config: str
    data: str
    out: Path
    limit: int | None = None
    change: Callable[[RunOptions], RunOptions] | None = None


@contextmanager
def open_arms(
    arms: Sequence[Arm], how: RowOptions, warn: Callable[[str], None] = print_error
) -> Iterator[list[Session]]:
    """The sessions of the arms, once every plan is checked against its models or recording, and against its data.

    Arms with the same plan and data share the check; a note or warning is told once.
    """
    from verdict_cli.run.session import open_run

    told: set[str] = set()

    def warn_once(message: str) -> None:
        if message not in told:
            told.add(message)
            warn(message)

    recordings = _recordings(arms, how)
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to, ExitStack() as opened:
        copies: dict[str, str] = {}
        checked: dict[tuple[str, str, int | None], tuple[Dataset, DatasetFacts]] = {}
        sessions = []
        for arm in arms:
            key = (arm.plan.fingerprint, arm.data, arm.limit)
            if key not in checked:
                dataset = open_dataset(arm.plan, copies.get(arm.data, arm.data), Path(spool_to))
                if arm.data == "-":
                    copies[arm.data] = str(dataset.files[0])
                limit = how.limit if arm.limit is None else arm.limit
                facts = check_data(
                    arm.plan,
                    dataset,
                    limit=limit,
                    sample=how.sample,
                    seed=how.seed,
                    quiet=how.quiet,
                    warn=warn_once,
                )
                checked[key] = dataset, facts
            dataset, facts = checked[key]
            options = how.run_options(
                arm.plan,
                dataset,
                facts,
                (arm.config, arm.data),
                recordings[arm.plan.fingerprint],
                out=arm.out,
            )
            if arm.change is not None:
                options = arm.change(options)
            sessions.append(opened.enter_context(open_run(options)))
        yield sessions


def _recordings(arms: Sequence[Arm], how: RowOptions) -> dict[str, Recording | None]:
    """The recording of `--replay` by plan, once the models or recordings of all arms are checked."""
    recordings: dict[str, Recording | None] = {}
    for arm in arms:
        if arm.plan.fingerprint in recordings:
            continue
        try:
            recordings[arm.plan.fingerprint] = how.recording(arm.plan)
        except VerdictError as error:
            if len(arms) > 1:
                error.message = f"variant {arm.name}: {error.message}"
            raise
    return recordings


class ArmRun(Struct, frozen=True):
    """A finished arm: its name, plan, directory and facts."""

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


def main_metric(run: ArmRun, name: str, seed: int) -> str:
    """The first metric of the evaluation that is defined. UsageError if it has no scalar metric."""
    from verdict_cli.stats.measure import measure

    evaluation = run.plan.evaluations[name].model_copy(update={"by": (), "gold": None})
    measured = measure({name: evaluation}, run.folder / "results.parquet", seed=seed)[name].values
    scalars = [metric for metric in measured if metric != "confusion"]
    if not scalars:
        raise UsageError(
            f"`evaluate.{name}` has no metric to compare by", hint="name one with --metric"
        )
    return next((metric for metric in scalars if measured[metric].value is not None), scalars[0])
