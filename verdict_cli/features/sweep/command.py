"""`verdict sweep CONFIG DATA --vary PATH=V1,V2`, or `verdict sweep STUDY DATA`: the variants, and their runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from msgspec import structs

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import execute_all_or_exit, stopping, tell_cost
from verdict_cli.cli.options import AsJson, Config, Data, IntervalLevel, MetricOption, Yes
from verdict_cli.cli.show_report import show_study
from verdict_cli.cli.study import Arm, choose_metric, open_arms
from verdict_cli.errors import SpecError, UsageError
from verdict_cli.features.sweep.study_file import (
    Study,
    StudyVariant,
    combinations,
    named_variants,
    pipeline_of,
    read_study,
    varied,
)
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.overrides import apply_override
from verdict_cli.language.package_files import configs, file_or_named
from verdict_cli.messages import JsonObject
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.report.plan_graph import calls_a_row
from verdict_cli.report.write_report import write_report
from verdict_cli.run.job import Stop
from verdict_cli.run.session import Session


def sweep(
    config: Config,
    data: Data,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="PATH=V1,V2",
            help="The values of a setting, e.g. 'pipeline[0].repeat=1,3,5' or 'pipeline[0]=on,off'. Given several times: all combinations.",
        ),
    ] = None,
    together: Annotated[
        bool,
        typer.Option(
            "--together",
            help="Pair the values of all --vary by position, instead of every combination.",
        ),
    ] = False,
    metric: MetricOption = None,
    against: Annotated[
        Literal["cost", "calls", "latency"] | None,
        typer.Option(
            "--against",
            help="What the metric is plotted against. [default: cost if known, else calls]",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The sweep's directory. [default: sweeps/NAME]")
    ] = None,
    *,
    how: RowOptions,
    level: IntervalLevel = None,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """Compare variants of a pipeline on the same rows: metric, cost, calls and latency of each, and the Pareto frontier.

    CONFIG is a study, a file that says what varies, or a pipeline with --vary. The first variant is the baseline of the
    comparison. Rerun the same command to resume. Variants always share replies; --no-cache keeps them out of the shared cache.

    Example: verdict sweep early_stopping answers_sample --model baseline/random --vary 'pipeline[0].repeat=1,3,5' --set 'pipeline[0].until=null'
    """
    study = read_study(config)
    if study is None and not vary:
        raise UsageError(
            f"nothing varies in {config}",
            hint="add --vary 'pipeline[0].repeat=1,3,5', or give a study: a file with `study: 1`",
        )
    if study is not None and vary:
        raise UsageError(f"{config} says what varies", hint="remove --vary")
    if study is None:
        study = Study(pipeline=str(config), vary=varied(vary or []), together=together)
    if study.pipeline is None:
        raise UsageError(
            f"{config} names no pipeline",
            hint="verdict reproduce frontier PIPELINE, or add `pipeline`",
        )
    if against is not None:
        study = study.model_copy(update={"against": against})
    if metric is not None:
        study = study.model_copy(update={"metrics": (metric,)})
    run_study(
        StudyCommand(study, config, data, out, {"sweep": "", "config": str(config), "vary": vary}),
        how.with_level(level),
        as_json=as_json,
        yes=yes,
    )


@dataclass(frozen=True)
class StudyCommand:
    """A study with its file, its data and its directory; `facts` begin its JSON, `notes` are caveats of its page."""

    study: Study
    path: Path
    data: str
    out: Path | None
    facts: JsonObject
    notes: Sequence[str] = ()
    kicker: str = "Verdict sweep"
    file: str = "sweep"


def run_study(command: StudyCommand, how: RowOptions, *, as_json: bool, yes: bool) -> None:
    """Run the variants, compare them, and write and print the page. Exits with 1 where a gate failed, 3 where rows did."""
    from verdict_cli.features.sweep.compare_variants import compare_variants, sweep_document

    study = command.study
    assert study.pipeline is not None
    config = pipeline_of(command.path, study.pipeline)
    variants = _variants(study, config, how)
    plans = _planned(command.path, config, how, variants)
    chosen = [
        choose_metric(
            [
                (f"variant {variant.name}", plan)
                for variant, plan in zip(variants, plans, strict=True)
            ],
            metric,
        )
        for metric in study.metrics or (None,)
    ]
    title = study.name or plans[0].name
    folder = command.out or Path("sweeps") / title
    arms = [
        Arm(variant.name, plan, str(config), command.data, folder / "variants" / slug)
        for variant, plan, slug in zip(variants, plans, _slugs(variants), strict=True)
    ]
    with stopping(stop := Stop()), open_arms(arms, how) as sessions:
        if not tell_cost(sessions, yes=yes, quiet=how.quiet) and not how.quiet:
            _announce(sessions)
        results = execute_all_or_exit(sessions, folder, stop, how)
    reports = [write_report(run, warn=print_error) for run in results]
    result = compare_variants(
        dict(zip((variant.name for variant in variants), results, strict=True)),
        chosen,
        axis=study.against,
        recorded=how.replay is not None,
        seed=how.seed,
        level=plans[0].interval_level,
        published=reports[0].comparisons.get(chosen[0][0]),
    )
    facts = {
        **command.facts,
        next(iter(command.facts)): str(folder),
        "pipeline": plans[0].name,
        "dataset": command.data,
    }
    document = sweep_document(title, result, facts, command.notes)
    document = structs.replace(document, kicker=command.kicker, elsewhere=f"in {command.file}.html")
    message = "" if how.quiet else f"chart: {folder / f'{command.file}.html'}"
    show_study(document, folder, command.file, as_json=as_json, message=message)
    if not all(report.passed for report in reports):
        raise typer.Exit(1)
    raise typer.Exit(3 if any(run.facts.failed for run in results) else 0)


def _variants(study: Study, config: Path, how: RowOptions) -> tuple[StudyVariant, ...]:
    if study.variants:
        return named_variants(study, how.model)
    if how.model is not None and "model" in study.vary:
        raise UsageError("--model and --vary model= cannot be combined", hint="remove one of them")
    document = apply_override(read_document(file_or_named(config, configs)), how.settings or ())
    return combinations(document, study.vary, together=study.together)


def _planned(
    path: Path, config: Path, how: RowOptions, variants: Sequence[StudyVariant]
) -> list[Plan]:
    """The plan of every variant. SpecError with the problems of all variants."""
    plans, problems = [], []
    warned = set()
    for variant in variants:
        options = replace(
            how,
            settings=[*(how.settings or ()), *variant.settings],
            model=variant.model or how.model,
        )
        file = pipeline_of(path, variant.pipeline) if variant.pipeline else config
        try:
            built = options.built(file, off=variant.off)
        except SpecError as error:
            problems += [
                structs.replace(
                    problem,
                    file=problem.file if problem.file != "--set" else str(path),
                    message=f"variant {variant.name}: {problem.message}",
                )
                for problem in error.problems
            ]
            continue
        except UsageError as error:
            raise UsageError(f"variant {variant.name}: {error.message}", hint=error.hint) from None
        for warning in built.warnings:
            if warning not in warned:
                warned.add(warning)
                print_error(f"warning: variant {variant.name}: {warning}")
        plans.append(built.plan)
    if problems:
        raise SpecError(problems)
    return plans


def _announce(sessions: Sequence[Session]) -> None:
    """Print how many calls are made, at most."""
    runs = [session.options for session in sessions]
    calls = sum(run.data.rows * calls_a_row(run.plan) for run in runs)
    print_message(
        f"{plural(len(runs), 'variant')} of {plural(runs[0].data.rows, 'row')}: at most {calls:,} model calls, equal ones shared"
    )


def _slugs(variants: Sequence[StudyVariant]) -> list[str]:
    """A folder name for each variant, without duplicates."""
    slugs = []
    for variant in variants:
        slug = re.sub(r"[^A-Za-z0-9._=-]+", "-", variant.name).strip("-.")[:80] or "variant"
        count = 1
        unique = slug
        while unique in slugs:
            count += 1
            unique = f"{slug}-{count}"
        slugs.append(unique)
    return slugs
