"""`verdict sweep CONFIG DATA --vary PATH=V1,V2`."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verdict_cli.cli.console import print_error, print_json, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson, Config, Data, IntervalLevel, MetricOption
from verdict_cli.errors import SpecError, UsageError, VerdictError
from verdict_cli.report.study_files import write_study

if TYPE_CHECKING:
    from verdict_cli.features.sweep.variants import SweepVariant
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.plan.node import Plan


class Axis(StrEnum):
    """The axis of the frontier (`--against`)."""

    COST = "cost"
    CALLS = "calls"
    LATENCY = "latency"


def sweep(
    config: Config,
    data: Data,
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            metavar="PATH=V1,V2",
            help="The values of a setting, e.g. 'pipeline[0].repeat=1,3,5' or 'pipeline[0]=on,off'. Given several times: all combinations.",
        ),
    ],
    together: Annotated[
        bool,
        typer.Option("--together", help="Pair the values of all --vary by position, instead of every combination."),
    ] = False,
    metric: MetricOption = None,
    against: Annotated[
        Axis | None,
        typer.Option("--against", help="What the metric is plotted against. [default: cost if known, else calls]"),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The sweep's directory. [default: sweeps/NAME]")] = None,
    *,
    how: RowOptions,
    level: IntervalLevel = None,
    as_json: AsJson = False,
) -> None:
    """Compare variants of a pipeline on the same rows: metric, cost, calls and latency of each, and the Pareto frontier.

    The first variant is the baseline of the comparison. Rerun the same command to resume. Variants always share replies;
    --no-cache keeps them out of the shared cache.

    Example: verdict sweep early_stopping answers_sample --model baseline/random --vary 'pipeline[0].repeat=1,3,5' --set 'pipeline[0].until=null'
    """
    from verdict_cli.cli.multi_run import execute_all_or_exit
    from verdict_cli.cli.open_dataset import check_data, open_dataset
    from verdict_cli.cli.show_report import to_terminal
    from verdict_cli.cli.signals import stopping
    from verdict_cli.cli.variant_runs import VariantRun, choose_metric
    from verdict_cli.features.sweep.results import compare_variants
    from verdict_cli.features.sweep.sweep_document import sweep_document
    from verdict_cli.report.renderers.terminal import render_terminal
    from verdict_cli.report.write_report import write_report
    from verdict_cli.run.job import Stop
    from verdict_cli.run.run_directory import RunDirectory
    from verdict_cli.run.session import open_run

    how = how.with_level(level)
    found = _variants(config, how, vary, together=together)
    plans = _planned(config, how, found)
    names = [variant.name for variant, _ in plans]
    name, figure = choose_metric([(f"variant {variant.name}", plan) for variant, plan in plans], metric)
    recording = _answering([(variant.name, plan) for variant, plan in plans], how)
    stop = Stop()
    folder = out or Path("sweeps") / plans[0][1].name
    warned: dict[str, None] = {}
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to, stopping(stop):
        sessions = []
        source = data
        for (_, plan), slug in zip(plans, _slugs(names), strict=True):
            dataset = open_dataset(plan, source, Path(spool_to))
            if source == "-":
                source = str(dataset.files[0])
            rows = check_data(
                plan, dataset, limit=how.limit, sample=how.sample, seed=how.seed, warn=partial(_warn_once, warned)
            )
            options = how.run_options(
                plan, dataset, rows, (str(config), data), recording, out=folder / "variants" / slug
            )
            sessions.append(open_run(options))
        if not how.quiet:
            _announce([(session.options.plan, session.options.data.rows) for session in sessions])
        results = execute_all_or_exit(sessions, folder, stop, how)
    reports = [write_report(run, warn=print_error) for run in results]
    ran = [VariantRun(name, run.plan, run.directory.path, run.facts) for name, run in zip(names, results, strict=True)]
    result = compare_variants(
        ran,
        name,
        figure,
        axis=None if against is None else against.value,
        recorded=how.replay is not None,
        seed=how.seed,
        level=plans[0][1].interval_level,
    )
    title = plans[0][1].name
    settings = {"sweep": str(folder), "pipeline": title, "config": str(config), "dataset": data, "vary": vary}
    outcome = sweep_document(title, result, settings)
    write_study(RunDirectory(folder), "sweep", outcome)
    if as_json:
        print_json(outcome.as_json())
    else:
        to_terminal(render_terminal(outcome))
        if not how.quiet:
            print_message(f"chart: {folder / 'sweep.html'}")
    if not all(report.passed for report in reports):
        raise typer.Exit(1)
    raise typer.Exit(3 if any(run.facts.failed for run in results) else 0)


def _variants(config: Path, how: RowOptions, vary: list[str], *, together: bool) -> tuple[SweepVariant, ...]:
    from verdict_cli.features.sweep.variants import variants
    from verdict_cli.language.document.document import read_document
    from verdict_cli.language.document.overrides import apply_override
    from verdict_cli.language.package_files import configs, file_or_named

    found = variants(
        apply_override(read_document(file_or_named(config, configs)), how.settings or ()), vary, together=together
    )
    if how.model is not None and any(one.split("=")[0] == "model" for one in vary):
        raise UsageError("--model and --vary model= cannot be combined", hint="remove one of them")
    return found


def _planned(config: Path, how: RowOptions, found: tuple[SweepVariant, ...]) -> list[tuple[SweepVariant, Plan]]:
    """The plan of every variant. SpecError with the problems of all variants."""
    plans, problems = [], []
    warned: set[Any] = set()
    for one in found:
        try:
            built = replace(how, settings=[*(how.settings or ()), *one.settings]).built(config, off=one.off)
        except SpecError as error:
            problems += [
                replace(problem, message=f"variant {one.name}: {problem.message}") for problem in error.problems
            ]
            continue
        except UsageError as error:
            raise UsageError(f"variant {one.name}: {error.message}", hint=error.hint) from None
        for warning in built.warnings:
            if warning not in warned:
                warned.add(warning)
                print_error(f"warning: variant {one.name}: {warning}")
        plans.append((one, built.plan))
    if problems:
        raise SpecError(problems)
    return plans


def _answering(plans: list[tuple[str, Plan]], how: RowOptions) -> Recording | None:
    """The recording of `--replay`, once the models or recordings of all variants are checked."""
    recorded = None
    for name, plan in plans:
        try:
            recorded = how.recording(plan)
        except VerdictError as error:
            error.message = f"variant {name}: {error.message}"
            raise
    return recorded


def _warn_once(warned: dict[str, None], message: str) -> None:
    """Print a warning that no earlier variant has given."""
    if message not in warned:
        warned[message] = None
        print_error(message)


def _announce(runs: list[tuple[Plan, int]]) -> None:
    """Print how many calls are made, at most."""
    from verdict_cli.report.plan_graph import calls_a_row

    calls = sum(rows * calls_a_row(plan) for plan, rows in runs)
    print_message(f"{len(runs)} variants of {runs[0][1]:,} rows: at most {calls:,} model calls, equal ones shared")


def _slugs(names: list[str]) -> list[str]:
    """A folder name for each variant, without duplicates."""
    made: list[str] = []
    for name in names:
        slug = re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.")[:80] or "variant"
        count = 1
        unique = slug
        while unique in made:
            count += 1
            unique = f"{slug}-{count}"
        made.append(unique)
    return made
