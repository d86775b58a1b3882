"""The arms of a study: its runs, opened together, and the metric that compares them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from verdict_cli.cli.console import print_error
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.errors import UsageError, VerdictError
from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.language.metric_registry import METRICS, find_metric
from verdict_cli.messages import NamedValues
from verdict_cli.plan.node import Plan
from verdict_cli.plan.resolve import as_yaml

if TYPE_CHECKING:
    from verdict_cli.cli.model_options import RowOptions
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.run.job import RunOptions
    from verdict_cli.run.load_run import RunResult
    from verdict_cli.run.session import Session
    from verdict_cli.stats.paired import AgainstReference, PairedRows
    from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts


def silent(_: str) -> None:
    """A warning that was told before."""


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

    messages: set[str] = set()

    def warn_once(message: str) -> None:
        if message not in messages:
            messages.add(message)
            warn(message)

    recordings = _recordings(arms, how)
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to, ExitStack() as opened:
        copies: dict[str, str] = {}
        checked: dict[tuple[int, str, int | None], tuple[Dataset, DatasetFacts]] = {}
        sessions = []
        for arm in arms:
            key = (id(arm.plan), arm.data, arm.limit)
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
                recordings[id(arm.plan)],
                out=arm.out,
            )
            if arm.change is not None:
                options = arm.change(options)
            sessions.append(opened.enter_context(open_run(options)))
        yield sessions


def _recordings(arms: Sequence[Arm], how: RowOptions) -> dict[int, Recording | None]:
    """The recording of `--replay` for each plan, once the models or recordings of all arms are checked."""
    recordings: dict[int, Recording | None] = {}
    for arm in arms:
        if id(arm.plan) in recordings:
            continue
        try:
            recordings[id(arm.plan)] = how.recording(arm.plan)
        except VerdictError as error:
            if len(arms) > 1:
                error.message = f"variant {arm.name}: {error.message}"
            raise
    return recordings


def requests_arm(
    folder: Path,
    pipeline: NamedValues,
    requests: Sequence[NamedValues],
    how: RowOptions,
) -> tuple[Arm, RowOptions]:
    """The arm that sends requests of the study's own, and its options: a row each, so that a stopped study pays for none
    twice."""
    config, data = folder / "pipeline.yaml", folder / "requests.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    config.write_text(as_yaml(pipeline), encoding="utf-8")
    data.write_text("".join(json.dumps(request) + "\n" for request in requests), encoding="utf-8")
    how = replace(how, settings=None, model=None, limit=None, sample=None)
    plan = how.plan(config, warn=False)
    return Arm(folder.name, plan, str(config), str(data), folder / "run"), how


def compare_arms(
    runs: Sequence[RunResult],
    evaluation: str,
    metric: str,
    *,
    seed: int,
    level: float,
) -> AgainstReference | str:
    """The metric of each arm against the first one's; or why they cannot be paired. Intervals hold for all arms together."""
    from verdict_cli.stats.paired import compare_with_reference
    from verdict_cli.stats.permutation import SWAPS

    pairs = paired_arms(runs, evaluation, metric)
    if isinstance(pairs, str):
        return pairs
    sizes = [1] * len(runs)
    return compare_with_reference((metric,), pairs, sizes, level, [abs(seed)], SWAPS)[metric]


def paired_arms(runs: Sequence[RunResult], evaluation: str, metric: str) -> PairedRows | str:
    """What a metric needs of the arms' rows, paired by their index, since all read the same dataset; or why they cannot be."""
    from verdict_cli.stats.paired import pair, run_rows
    from verdict_cli.storage.tables.reader import table_rows

    rows = []
    for run in runs:
        results = run.directory.results
        ids = [str(row) for (row,) in table_rows(results, ["row"])]
        only = {evaluation: run.plan.evaluations[evaluation].alone(metric)}
        rows.append(run_rows(only, results, ids)[evaluation])
    return pair(*rows)


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
        if not plan.evaluations:
            raise UsageError(
                f"{label}: the pipeline has no `evaluate`, so variants have no metric",
                hint="add `evaluate` with what is measured",
            )
        if evaluation not in plan.evaluations:
            raise UsageError(
                f"{label}: there is no evaluation {evaluation!r} to compare variants by",
                hint=f"its evaluations are {', '.join(plan.evaluations)}",
            )
    return evaluation, name or None


def main_metric(run: RunResult, name: str, seed: int) -> str:
    """The first metric of the evaluation that is defined. UsageError if it has no scalar metric."""
    from verdict_cli.stats.measure import measure

    evaluation = run.plan.evaluations[name].model_copy(update={"by": (), "gold": None})
    measured = measure({name: evaluation}, run.directory.results, seed=seed)[name].values
    scalars = [metric for metric in measured if metric != "confusion"]
    if not scalars:
        raise UsageError(
            f"`evaluate.{name}` has no metric to compare by", hint="name one with --metric"
        )
    return next((metric for metric in scalars if measured[metric].value is not None), scalars[0])
