"""`verdict run CONFIG DATA`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.gate import Undecided
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import Config, TraceContent, TraceOption
from verdict_cli.errors import UsageError

if TYPE_CHECKING:
    from verdict_cli.messages import RunFacts
    from verdict_cli.report.report import Report
    from verdict_cli.run.job import RunJob, Stop
    from verdict_cli.run.progress import Progress
    from verdict_cli.run.run_diff import RunDiff
    from verdict_cli.stats.gates import Inconclusive

    Runner = Callable[[RunJob, Stop, Callable[[Progress], None]], RunFacts]


class Engine(StrEnum):
    """Where rows are judged (`--engine`)."""

    LOCAL = "local"
    RAY = "ray"


def run(
    config: Config,
    data: Annotated[
        str,
        typer.Argument(
            help="JSONL, JSON, CSV, TSV or Parquet: a file, a directory, a glob, a URL (s3://…), the name of a "
            "sample shipped with verdict, or - for JSONL on standard input."
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
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Retry only the failed calls of failed rows.")
    ] = False,
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="With --out: continue its run with a changed pipeline or dataset. Only changed units, the units that depend on "
            "them, and new rows are called.",
        ),
    ] = False,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Skip and count rows that cannot be read, instead of stopping.")
    ] = False,
    trace: TraceOption = False,
    trace_content: TraceContent = False,
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            help="Formats of the results, separated by commas: parquet, csv, csv-inert (formulas escaped), jsonl.",
        ),
    ] = "parquet",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the report.")] = False,
    inconclusive: Annotated[
        Undecided, typer.Option("--inconclusive", help="The result of a gate that too few rows leave undecided.")
    ] = Undecided.FAIL,
    engine: Annotated[
        Engine, typer.Option("--engine", help="Judge in this process, or on Ray workers.")
    ] = Engine.LOCAL,
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address",
            metavar="ADDRESS",
            help="With --engine ray: the cluster, e.g. auto or ray-head:6379. [default: a local Ray]",
        ),
    ] = None,
) -> None:
    """Judge every row of a dataset and report the metrics.

    Rerun the same command to resume an interrupted run; answered calls are not repeated. A directory that holds the run
    of another pipeline or dataset is refused, unless --update is given.

    Example: verdict run xstest xstest_sample --model baseline/lexical
    """
    report = judged_dataset(
        config,
        data,
        how,
        out=out,
        retry_failed=retry_failed,
        update=update,
        skip_bad_rows=skip_bad_rows,
        trace=trace,
        trace_content=trace_content,
        formats=_formats(formats),
        inconclusive=inconclusive.value,
        engine=engine,
        ray_address=ray_address,
    )
    from verdict_cli.cli.write_report import exit_code, show_report

    show_report(report, as_json=as_json)
    raise typer.Exit(exit_code(report))


def judged_dataset(
    config: Path,
    data: str,
    how: RowOptions,
    *,
    out: Path | str | None = None,
    retry_failed: bool = False,
    update: bool = False,
    skip_bad_rows: bool = False,
    trace: bool = False,
    trace_content: bool = False,
    formats: Sequence[str] = (),
    inconclusive: Inconclusive = "fail",
    engine: Engine = Engine.LOCAL,
    ray_address: str | None = None,
) -> Report:
    """Judge a dataset with the options of `verdict run`, and return the report. Exits if the run is interrupted."""
    if how.fresh and retry_failed:
        raise UsageError("--fresh and --retry-failed cannot be combined", hint="give one of them")
    if update and (how.fresh or out is None):
        raise UsageError(
            "--fresh and --update cannot be combined"
            if how.fresh
            else "--update needs the directory of the run to update",
            hint="give one of them" if how.fresh else "give its --out",
        )
    if ray_address is not None and engine is not Engine.RAY:
        raise UsageError("--ray-address needs --engine ray", hint="give both")
    if trace and engine is Engine.RAY:
        raise UsageError("--trace does not work on Ray workers", hint="use --engine local")
    from verdict_cli.cli.open_dataset import checked, open_dataset
    from verdict_cli.cli.signals import stopping
    from verdict_cli.cli.trace_option import trace_to_otel
    from verdict_cli.cli.write_report import prepare, write_report
    from verdict_cli.run.job import RunJob, Stop
    from verdict_cli.run.run_metadata import default_directory, new_facts, recorded_file, starting

    plan = how.plan(config)
    recorded = how.recording(plan)
    stop = Stop()
    with (
        trace_to_otel(wanted=trace, content=trace_content) as spans,
        tempfile.TemporaryDirectory(prefix="verdict-") as spool_to,
        stopping(stop),
    ):
        dataset = open_dataset(plan, data, Path(spool_to), skip_bad_rows=skip_bad_rows)
        found = checked(plan, dataset, limit=how.limit, sample=how.sample, seed=how.seed, quiet=how.quiet)
        facts = new_facts(plan, found, (str(config), data), how.seed, how.replay)
        place = default_directory(out, facts)
        if how.replay is not None and recorded_file(how.replay).resolve() == place.calls.resolve():
            raise UsageError(f"{place.shown} is the directory of the recording", hint="choose another --out")
        with place.held():
            earlier, changed = (None, None) if how.fresh else place.belongs_to(plan, facts, update=update)
            if earlier is not None:
                _tell(f"{place.shown}: {_going_on(earlier, changed, retry_failed=retry_failed)}", quiet=how.quiet)
            if (
                earlier is not None
                and earlier.status == "finished"
                and changed is None
                and not (retry_failed and earlier.failed)
            ):
                place.write_spec(plan)
                done = earlier
            else:
                place.prepare()
                start = starting(facts, earlier)
                job = RunJob(
                    plan,
                    dataset,
                    found,
                    place,
                    start,
                    how.concurrency,
                    recorded,
                    how.budget,
                    how.store(plan),
                    fresh=how.fresh,
                    retry_failed=retry_failed,
                    update=update,
                    spans=spans,
                    meanwhile=partial(prepare, plan),
                )
                done = _carried_out(job, stop, _runner(job, engine, ray_address), quiet=how.quiet)
            return write_report(plan, place, done, formats, inconclusive=inconclusive)


def _runner(job: RunJob, engine: Engine, ray_address: str | None) -> Runner:
    """The function that runs the job. UsageError if Ray cannot run it."""
    if engine is Engine.LOCAL:
        from verdict_cli.run.local import run_locally

        return run_locally
    from verdict_cli.run.ray import ray_engine

    ray_engine.check_ray(job)
    return partial(ray_engine.run_on_ray, address=ray_address)


def _carried_out(job: RunJob, stop: Stop, run_job: Runner, *, quiet: bool) -> RunFacts:
    """Run the job and return its facts. If it is interrupted, print how to resume it and exit."""
    from verdict_cli.cli.multi_run import resumable, resume
    from verdict_cli.cli.progress import show_progress

    with resumable(job.store), show_progress(quiet=quiet) as watch:
        facts = run_job(job, stop, watch)
    if facts.status == "interrupted":
        print_error(
            f"stopped: {facts.done:,} of {facts.rows:,} rows are done; results so far are in {job.directory.shown}"
        )
        print_error(resume())
        raise typer.Exit(130)
    return facts


def _going_on(earlier: RunFacts, changed: RunDiff | None, *, retry_failed: bool) -> str:
    """What the command does with a directory that already has its run."""
    if changed is not None:
        return f"the update {changed.work()}"
    if earlier.status != "finished":
        return "resuming where it stopped"
    if not retry_failed:
        return "already finished, rewriting the report"
    if not earlier.failed:
        return "no failed rows, rewriting the report"
    return f"retrying the failed calls of {earlier.failed:,} row{'s' if earlier.failed > 1 else ''}"


def _formats(text: str) -> list[str]:
    from verdict_cli.cli.write_report import FORMATS

    wanted = [part.strip() for part in text.split(",") if part.strip()]
    for each in wanted:
        if each not in FORMATS:
            raise UsageError(
                f"unknown format {each!r}", hint=f"--format takes {', '.join(FORMATS)}, separated by commas"
            )
    return wanted


def _tell(message: str, *, quiet: bool) -> None:
    if not quiet:
        print_message(message)
