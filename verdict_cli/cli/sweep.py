"""`verdict sweep CONFIG DATA --vary PATH=V1,V2`."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verdict_cli.cli.console import document, print_error, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson, Config
from verdict_cli.errors import SpecError, UsageError, VerdictError

if TYPE_CHECKING:
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.plan.node import Plan
    from verdict_cli.studies.sweep.variants import SweepVariant


class Axis(StrEnum):
    """What `--against` takes."""

    COST = "cost"
    CALLS = "calls"
    LATENCY = "latency"


def sweep(
    config: Config,
    data: Annotated[str, typer.Argument(help="JSONL, JSON, CSV, TSV or Parquet: a file, a directory, a glob, or -.")],
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            metavar="PATH=V1,V2",
            help="Values of a place in the file, e.g. 'pipeline[0].repeat=1,3,5' or 'pipeline[0]=on,off'. Several: all combinations.",
        ),
    ],
    together: Annotated[
        bool, typer.Option("--together", help="Take the values of all --vary side by side, not every combination.")
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="NAME", help="EVALUATION.FIGURE, or one of both. [default: the first]"),
    ] = None,
    against: Annotated[
        Axis | None,
        typer.Option("--against", help="What the frontier is drawn against. [default: cost if known, else calls]"),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The sweep's directory. [default: sweeps/NAME]")] = None,
    *,
    how: RowOptions,
    as_json: AsJson = False,
) -> None:
    """Run variants of a pipeline over the same rows: figure, cost, calls and latency of each, and the frontier.

    The first variant is what the others are held against. The same command goes on where it stopped.
    Variants share replies, with --no-cache with nobody else.

    Example: verdict sweep early_stopping answers_sample --model baseline/random --vary 'pipeline[0].repeat=1,3,5' --set 'pipeline[0].until=null'
    """
    from verdict_cli.cli.multi_run import opened_cache, run_all
    from verdict_cli.cli.open_dataset import checked, open_dataset
    from verdict_cli.cli.signals import stopping
    from verdict_cli.cli.write_report import to_terminal, write_report
    from verdict_cli.report.renderers.terminal import render_terminal
    from verdict_cli.run.batch import prepared
    from verdict_cli.run.job import RunJob, Stop
    from verdict_cli.run.run_directory import RunDirectory
    from verdict_cli.run.run_metadata import new_facts
    from verdict_cli.studies.study_files import write_study
    from verdict_cli.studies.sweep.results import VariantRun, choose_metric, compare_variants
    from verdict_cli.studies.sweep.sweep_document import sweep_document

    found = _variants(config, how, vary, together=together)
    plans = _planned(config, how, found)
    name, figure = choose_metric([(f"variant {one.name}", plan) for one, plan in plans], metric)
    recorded = _answering([(one.name, plan) for one, plan in plans], how)
    stop = Stop()
    folder = out or Path("sweeps") / plans[0][1].name
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to, stopping(stop):
        runs: list[Any] = []
        source = data
        for (one, plan), slug in zip(plans, _slugs([one.name for one, _ in plans]), strict=True):
            dataset = open_dataset(plan, source, Path(spool_to))
            if source == "-":
                source = str(dataset.files[0])
            rows = checked(
                plan, dataset, limit=how.limit, sample=how.sample, seed=how.seed, quiet=how.quiet or bool(runs)
            )
            facts = new_facts(plan, rows, (str(config), data), how.seed, how.replay)
            place = RunDirectory(folder / "variants" / slug)
            job = RunJob(plan, dataset, rows, place, facts, how.concurrency, recorded, how.budget, fresh=how.fresh)
            runs.append(prepared(one.name, job))
        if not how.quiet:
            _announce([(one.name, one.job.plan, one.job.data.rows) for one in runs])
        store = opened_cache(runs, folder, shared=not how.no_cache)
        made = run_all(runs, stop, store, quiet=how.quiet)
    reports = [write_report(one.job.plan, one.job.directory, one.facts, in_summary=False) for one in made]
    ran = [VariantRun(one.name, one.job.plan, one.job.directory.path, one.facts) for one in made]
    result = compare_variants(
        ran,
        name,
        figure,
        axis=None if against is None else against.value,
        recorded=how.replay is not None,
        seed=how.seed,
    )
    title = plans[0][1].name
    settings = {"sweep": str(folder), "pipeline": title, "config": str(config), "dataset": data, "vary": vary}
    outcome = sweep_document(title, result, settings)
    write_study(RunDirectory(folder), "sweep", outcome)
    if as_json:
        document(outcome.data())
    else:
        to_terminal(render_terminal(outcome))
        if not how.quiet:
            print_message(f"the page: {folder / 'sweep.html'}")
    if not all(report.passed for report in reports):
        raise typer.Exit(1)
    raise typer.Exit(3 if any(one.facts.failed for one in made) else 0)


def _variants(config: Path, how: RowOptions, vary: list[str], *, together: bool) -> tuple[SweepVariant, ...]:
    from verdict_cli.language.document.document import read_document
    from verdict_cli.language.document.overrides import apply_override
    from verdict_cli.language.package_files import configs, file_or_named
    from verdict_cli.studies.sweep.variants import variants

    found = variants(
        apply_override(read_document(file_or_named(config, configs)), how.settings or ()), vary, together=together
    )
    if how.model is not None and any(one.split("=")[0] == "model" for one in vary):
        raise UsageError("--model sets what --vary model= varies", hint="leave one of them out")
    return found


def _planned(config: Path, how: RowOptions, found: tuple[SweepVariant, ...]) -> list[tuple[SweepVariant, Plan]]:
    """The plan of every variant. SpecError with the problems of all, each of which names its variant."""
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
    """The recording that answers, after each variant's models, or the recording for them, were looked at."""
    recorded = None
    for name, plan in plans:
        try:
            recorded = how.recording(plan)
        except VerdictError as error:
            error.message = f"variant {name}: {error.message}"
            raise
    return recorded


def _announce(runs: list[tuple[str, Plan, int]]) -> None:
    """How much is to be asked, at most."""
    from verdict_cli.report.plan_graph import calls_a_row

    calls = sum(rows * calls_a_row(plan) for _, plan, rows in runs)
    print_message(f"{len(runs)} variants of {runs[0][2]:,} rows: at most {calls:,} model calls, equal ones shared")


def _slugs(names: list[str]) -> list[str]:
    """A folder's name for each variant."""
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
