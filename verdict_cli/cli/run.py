"""`verdict run CONFIG DATA`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from verdict_cli.cli import completion
from verdict_cli.cli.console import print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import Config, IntervalLevel, Undecided, Yes
from verdict_cli.errors import UsageError, both
from verdict_cli.messages import NamedValues
from verdict_cli.plural import plural
from verdict_cli.run.hooks import RunHooks

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan
    from verdict_cli.report.report import Report
    from verdict_cli.run.job import RunOptions, Stop
    from verdict_cli.run.load_run import RunResult
    from verdict_cli.run.observer import RunObserver
    from verdict_cli.run.session import Session
    from verdict_cli.run_facts import RunFacts
    from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts

    Engine = Callable[[Session, Stop, RowOptions, "RunCommand"], RunResult]
    """Executes a run elsewhere, in place of `execute_or_exit`."""


@dataclass(frozen=True, kw_only=True)
class RunCommand:
    """The options of `verdict run` beside those of all commands that judge a dataset."""

    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run failed rows again, with their failed calls.")
    ] = False
    skip_bad_rows: Annotated[
        bool,
        typer.Option(
            "--skip-bad-rows", help="Skip and count rows that cannot be read, instead of stopping."
        ),
    ] = False
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            help="Formats of the results, separated by commas: parquet, csv, csv-inert (formulas escaped), jsonl.",
        ),
    ] = "parquet"
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of the report.")
    ] = False
    inconclusive: Annotated[
        Undecided,
        typer.Option(
            "--inconclusive",
            help="Whether a gate passes or fails that too few rows leave undecided.",
        ),
    ] = Undecided.FAIL
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard",
            metavar="I/N",
            help="Judge only every N-th row, from the I-th on (from 0), on an N-th of the budget and rate limits; no "
            "gate is decided. `verdict merge` joins the N runs.",
        ),
    ] = None
    reuse: Annotated[
        Path | None,
        typer.Option(
            "--reuse",
            metavar="RUN",
            help="The directory of another run, whose replies answer equal requests: of an earlier version of the "
            "pipeline or the data.",
        ),
    ] = None
    yes: Yes = False
    level: IntervalLevel = None


def run(
    config: Config,
    data: Annotated[
        str,
        typer.Argument(
            help="JSONL, JSON, CSV, TSV or Parquet: a file, a directory, a glob, a URL (s3://…), hf:OWNER/NAME[:SPLIT] "
            "of the Hugging Face hub, the name of a sample shipped with verdict, or - for JSONL on standard input.",
            autocompletion=completion.datasets,
        ),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="PATH|URL",
            help="The run's directory: a path, or the URL of a folder in an object store (s3://…). [default: runs/NAME-FINGERPRINT]",
        ),
    ] = None,
    *,
    how: RowOptions,
    command: RunCommand,
    extras: NamedValues,
) -> None:
    """Judge every row of a dataset and report the metrics.

    The same command on an unfinished directory resumes the run; completed calls are not repeated.
    A different pipeline or dataset is refused: --out NEW --reuse OLD pays only for what differs.

    Example: verdict run xstest xstest_sample --model baseline/lexical
    """
    hooks = {name: added for name, added in extras.items() if isinstance(added, RunHooks)}
    report = judged_dataset(
        config,
        data,
        how.with_level(command.level),
        command,
        hooks,
        out=out,
        observer=extras.get("observer"),
        engine=extras.get("engine"),
    )
    from verdict_cli.cli.show_report import exit_code, show_report

    show_report(report, as_json=command.as_json)
    raise typer.Exit(exit_code(report))


def judged_dataset(
    config: Path,
    data: str,
    how: RowOptions,
    command: RunCommand | None = None,
    hooks: Mapping[str, RunHooks] | None = None,
    *,
    out: Path | str | None = None,
    observer: RunObserver | None = None,
    engine: Engine | None = None,
) -> Report:
    """Run with the options of `verdict run`, and return the report. Exits where the run is stopped before its end."""
    command = command or RunCommand()
    _check_combination(how, command)
    from verdict_cli.cli.multi_run import execute_or_exit, stopping, tell_cost
    from verdict_cli.cli.show_report import finish_with_report
    from verdict_cli.run.job import Stop
    from verdict_cli.run.session import open_run

    formats = _formats(command.formats)
    stop = Stop()
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to, stopping(stop):
        options = checked_options(
            config, data, how, command, hooks or {}, Path(spool_to), out=out, observer=observer
        )
        with open_run(options) as session:
            if session.earlier is not None and not how.quiet:
                print_message(f"{session.directory.display_name}: {_resume_message(session)}")
            _check_baselines(options.plan, session)
            tell_cost([session], yes=command.yes, quiet=how.quiet)
            if engine is None:
                result = execute_or_exit(session, stop, how, as_json=command.as_json)
            else:
                result = engine(session, stop, how, command)
            report = finish_with_report(
                result, formats, inconclusive=command.inconclusive.value, quiet=how.quiet
            )
            if how.sample is not None and not how.quiet:
                print_message(_projection(report.facts, options.data.selection.kept))
            return report


def checked_options(
    config: Path,
    data: str,
    how: RowOptions,
    command: RunCommand,
    hooks: Mapping[str, RunHooks],
    spool_to: Path,
    *,
    out: Path | str | None = None,
    observer: RunObserver | None = None,
) -> RunOptions:
    """The options of a run, whose pipeline and data are checked. ``spool_to`` takes data that is in no file."""
    from verdict_cli.cli.open_dataset import check_data, open_dataset
    from verdict_cli.report.write_report import preload_report
    from verdict_cli.run.checked_data import checked_earlier
    from verdict_cli.run.observer import RunObserver
    from verdict_cli.storage.paths import path_of

    plan = how.plan(config)
    directory = None if out is None else path_of(str(out))
    limit, sample, seed = how.limit, how.sample, how.seed
    is_traced = observer is not None

    def checked() -> tuple[Dataset, DatasetFacts]:
        dataset = open_dataset(plan, data, spool_to, skip_bad_rows=command.skip_bad_rows)
        facts = None
        if not (how.fresh or is_traced):
            facts = checked_earlier(directory, plan, dataset, limit=limit, sample=sample, seed=seed)
        if facts is None:
            facts = check_data(
                plan,
                dataset,
                limit=limit,
                sample=sample,
                seed=seed,
                traced=is_traced,
                quiet=how.quiet,
            )
        return dataset, facts

    recording, (dataset, facts) = both(partial(how.recording, plan), checked)
    if command.shard is not None:
        plan, how, facts = _shard(command.shard, plan, how, facts)
    return how.run_options(
        plan,
        dataset,
        facts,
        (str(config), data),
        recording,
        out=out,
        retry_failed=command.retry_failed,
        reuse=() if command.reuse is None else (command.reuse,),
        chosen_hooks=hooks,
        observer=observer or RunObserver(),
        preload=partial(preload_report, plan),
    )


def _projection(sample: RunFacts, rows: int) -> str:
    """What all rows would take, if they are like those of the sample."""
    from verdict_cli.report.formatting import money

    times = rows / max(sample.done, 1)
    cost = None if sample.cost_usd is None else sample.cost_usd * times
    text = f"all {plural(rows, 'row')} would take about {plural(round(sample.calls * times), 'call')} and {money(cost)}"
    from_cache = sample.cached - sample.shared
    if from_cache:
        text += (
            f" ({plural(from_cache, 'call')} of the sample cost nothing, answered from the cache)"
        )
    return text


def _shard(
    text: str, plan: Plan, how: RowOptions, facts: DatasetFacts
) -> tuple[Plan, RowOptions, DatasetFacts]:
    """The plan, the options and the rows of a shard, which has its part of the budget and decides no gate."""
    from verdict_cli.run.shards import check_shardable, parse_shard, shard_of

    shard, shards = parse_shard(text)
    check_shardable(plan)
    budget = None if how.budget is None else how.budget / shards
    return (
        structs.replace(plan, gates=()),
        replace(how, budget=budget),
        shard_of(facts, shard, shards),
    )


def _check_baselines(plan: Plan, session: Session) -> None:
    """DataError before the first call for a baseline that could not be compared after the last one."""
    if any(gate.baseline is not None for gate in plan.gates):
        from verdict_cli.stats.gates import check_baselines

        check_baselines(plan.gates, session.directory.results)


def _check_combination(how: RowOptions, command: RunCommand) -> None:
    """UsageError for options that exclude one another."""
    if how.fresh and command.retry_failed:
        raise UsageError(
            "--fresh leaves nothing that --retry-failed could retry", hint="give one of them"
        )


def _resume_message(session: Session) -> str:
    """What the command does in a directory that holds its run."""
    earlier = session.earlier
    assert earlier is not None
    if earlier.status != "finished":
        return "resuming where it stopped"
    if not session.options.retry_failed:
        return "nothing left to do"
    if not earlier.failed:
        return "no row failed, nothing left to do"
    return f"retrying failed calls in {plural(earlier.failed, 'row')}"


def _formats(text: str) -> list[str]:
    from verdict_cli.report.write_report import FORMATS

    formats = [part.strip() for part in text.split(",") if part.strip()]
    unknown = next((name for name in formats if name not in FORMATS), None)
    if unknown is not None:
        hint = f"--format takes {', '.join(FORMATS)}, separated by commas"
        raise UsageError(f"unknown format {unknown!r}", hint=hint)
    return formats
