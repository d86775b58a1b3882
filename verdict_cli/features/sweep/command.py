"""`verdict sweep CONFIG DATA --vary PATH=V1,V2`: the variants, and their runs."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct, structs

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import execute_all_or_exit, stopping, tell_cost
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.cli.options import AsJson, Config, Data, IntervalLevel, MetricOption, Yes
from verdict_cli.cli.show_report import show_study
from verdict_cli.errors import SpecError, UsageError, VerdictError
from verdict_cli.language.document.document import parse_document, read_document
from verdict_cli.language.document.overrides import apply_override, find_target, parts_of
from verdict_cli.language.document.source_positions import Document
from verdict_cli.language.package_files import configs, file_or_named
from verdict_cli.plural import plural
from verdict_cli.report.plan_graph import calls_a_row
from verdict_cli.report.write_report import write_report
from verdict_cli.run.job import Stop
from verdict_cli.run.session import open_run

if TYPE_CHECKING:
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.plan.node import Plan


SWITCH = ("on", "off")
MOST_VALUE_LENGTH = 60


class SweepVariant(Struct, frozen=True):
    """One pipeline of a sweep: `settings` are as `--set` takes them, `off` the paths that are left out."""

    name: str
    settings: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


def variants(
    document: Document, vary: Sequence[str], *, together: bool = False
) -> tuple[SweepVariant, ...]:
    """Every combination of the values, the last path changing fastest; `together` takes the first values of all
    paths, then the second ones, and so on.

    Values are items of a YAML list. For a path to a mapping or a list, `on` keeps it and `off` leaves it out; elsewhere
    they are texts. UsageError if a path or its values cannot be read.
    """
    axes = [_axis(document, text) for text in vary]
    paths = [axis[0] for axis in axes]
    if len(set(paths)) < len(paths):
        duplicate = next(path for path in paths if paths.count(path) > 1)
        raise UsageError(f"--vary has {duplicate} twice", hint="give all values of a path at once")
    short = _short_names(paths)
    choices = [
        [_variant(path, f"{name}={_text(value)}", value, switched=switched) for value in values]
        for (path, values, switched), name in zip(axes, short, strict=True)
    ]
    if together:
        if len({len(settings) for settings in choices}) > 1:
            counts = ", ".join(
                f"{path} has {len(settings)}" for path, settings in zip(paths, choices, strict=True)
            )
            raise UsageError(f"--together needs as many values of each path: {counts}")
        combined: list[tuple[SweepVariant, ...]] = list(zip(*choices, strict=True))
    else:
        combined = list(product(*choices))
    combinations = [
        SweepVariant(
            " ".join(choice.name for choice in choices_of_variant),
            tuple(setting for choice in choices_of_variant for setting in choice.settings),
            tuple(path for choice in choices_of_variant for path in choice.off),
        )
        for choices_of_variant in combined
    ]
    names = [variant.name for variant in combinations]
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"--vary has the variant {duplicate} twice", hint="values must differ")
    return tuple(combinations)


def _axis(document: Document, vary: str) -> tuple[str, list[Any], bool]:
    """The path, its values, and whether they are `on` and `off` of a container."""
    path, given, text = vary.partition("=")
    if not given or not path:
        raise UsageError(
            f"--vary {vary!r} is not of the form PATH=V1,V2",
            hint="--vary 'pipeline[0].repeat=1,3,5'",
        )
    parts_of(path)
    values = _values(text, vary)
    target = find_target(document.data, path)
    words = {value for value in values if isinstance(value, str)}
    switched = (
        len(words) == len(values)
        and words <= set(SWITCH)
        and target is not None
        and isinstance(target.value, dict | list)
    )
    return path, values, switched


def _values(text: str, vary: str) -> list[Any]:
    try:
        parsed = parse_document(f"value: [{text}]".encode(), "--vary").data
    except (SpecError, UnicodeEncodeError):
        parsed = {}
    values = parsed.get("value") if parsed.keys() == {"value"} else None
    if not isinstance(values, list) or not values:
        raise UsageError(
            f"--vary {vary!r}: the values are not YAML, separated by commas",
            hint="put texts with commas or special characters in quotes; a list is written [a, b]",
        )
    return values


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= MOST_VALUE_LENGTH else f"{text[: MOST_VALUE_LENGTH - 1]}…"


def _variant(path: str, name: str, value: Any, *, switched: bool) -> SweepVariant:
    """The variant of one value of one path."""
    if switched:
        return SweepVariant(name, off=(path,) if value == "off" else ())
    return SweepVariant(name, (f"{path}={json.dumps(value)}",))


def _short_names(paths: Sequence[str]) -> list[str]:
    """The last key of each path where it is unique; else, and for a path that ends in an index, the whole path."""
    last = [
        path.rpartition(".")[2] if "." in path and not path.endswith("]") else path
        for path in paths
    ]
    return [
        short if last.count(short) == 1 else path for short, path in zip(last, paths, strict=True)
    ]


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
        typer.Option(
            "--together",
            help="Pair the values of all --vary by position, instead of every combination.",
        ),
    ] = False,
    metric: MetricOption = None,
    against: Annotated[
        Axis | None,
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

    The first variant is the baseline of the comparison. Rerun the same command to resume. Variants always share replies;
    --no-cache keeps them out of the shared cache.

    Example: verdict sweep early_stopping answers_sample --model baseline/random --vary 'pipeline[0].repeat=1,3,5' --set 'pipeline[0].until=null'
    """
    from verdict_cli.cli.variant_runs import VariantRun, choose_metric
    from verdict_cli.features.sweep.compare_variants import compare_variants, sweep_document

    how = how.with_level(level)
    chosen = _variants(config, how, vary, together=together)
    plans = _planned(config, how, chosen)
    names = [variant.name for variant, _ in plans]
    name, figure = choose_metric(
        [(f"variant {variant.name}", plan) for variant, plan in plans], metric
    )
    recording = _answering([(variant.name, plan) for variant, plan in plans], how)
    stop = Stop()
    folder = out or Path("sweeps") / plans[0][1].name
    warned: dict[str, None] = {}
    with (
        tempfile.TemporaryDirectory(prefix="verdict-") as spool_to,
        stopping(stop),
        ExitStack() as opened,
    ):
        sessions = []
        source = data
        for (_, plan), slug in zip(plans, _slugs(names), strict=True):
            dataset = open_dataset(plan, source, Path(spool_to))
            if source == "-":
                source = str(dataset.files[0])
            rows = check_data(
                plan,
                dataset,
                limit=how.limit,
                sample=how.sample,
                seed=how.seed,
                quiet=how.quiet,
                warn=partial(_warn_once, warned),
            )
            options = how.run_options(
                plan, dataset, rows, (str(config), data), recording, out=folder / "variants" / slug
            )
            sessions.append(opened.enter_context(open_run(options)))
        if not tell_cost(sessions, yes=yes, quiet=how.quiet) and not how.quiet:
            _announce([(session.options.plan, session.options.data.rows) for session in sessions])
        results = execute_all_or_exit(sessions, folder, stop, how)
    reports = [write_report(run, warn=print_error) for run in results]
    ran = [
        VariantRun(name, run.plan, run.directory.path, run.facts)
        for name, run in zip(names, results, strict=True)
    ]
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
    settings = {
        "sweep": str(folder),
        "pipeline": title,
        "config": str(config),
        "dataset": data,
        "vary": vary,
    }
    chart = "" if how.quiet else f"chart: {folder / 'sweep.html'}"
    show_study(
        sweep_document(title, result, settings), folder, "sweep", as_json=as_json, message=chart
    )
    if not all(report.passed for report in reports):
        raise typer.Exit(1)
    raise typer.Exit(3 if any(run.facts.failed for run in results) else 0)


def _variants(
    config: Path, how: RowOptions, vary: list[str], *, together: bool
) -> tuple[SweepVariant, ...]:
    chosen = variants(
        apply_override(read_document(file_or_named(config, configs)), how.settings or ()),
        vary,
        together=together,
    )
    if how.model is not None and any(axis.split("=")[0] == "model" for axis in vary):
        raise UsageError("--model and --vary model= cannot be combined", hint="remove one of them")
    return chosen


def _planned(
    config: Path, how: RowOptions, chosen: tuple[SweepVariant, ...]
) -> list[tuple[SweepVariant, Plan]]:
    """The plan of every variant. SpecError with the problems of all variants."""
    plans, problems = [], []
    warned: set[Any] = set()
    for variant in chosen:
        try:
            built = replace(how, settings=[*(how.settings or ()), *variant.settings]).built(
                config, off=variant.off
            )
        except SpecError as error:
            problems += [
                structs.replace(problem, message=f"variant {variant.name}: {problem.message}")
                for problem in error.problems
            ]
            continue
        except UsageError as error:
            raise UsageError(f"variant {variant.name}: {error.message}", hint=error.hint) from None
        for warning in built.warnings:
            if warning not in warned:
                warned.add(warning)
                print_error(f"warning: variant {variant.name}: {warning}")
        plans.append((variant, built.plan))
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
    calls = sum(rows * calls_a_row(plan) for plan, rows in runs)
    print_message(
        f"{plural(len(runs), 'variant')} of {plural(runs[0][1], 'row')}: at most {calls:,} model calls, equal ones shared"
    )


def _slugs(names: list[str]) -> list[str]:
    """A folder name for each variant, without duplicates."""
    slugs: list[str] = []
    for name in names:
        slug = re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.")[:80] or "variant"
        count = 1
        unique = slug
        while unique in slugs:
            count += 1
            unique = f"{slug}-{count}"
        slugs.append(unique)
    return slugs
