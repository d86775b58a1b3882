"""`verdict run CONFIG DATA`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verdict_cli.cli.console import print_message
from verdict_cli.cli.extensions import NO_EXTRAS
from verdict_cli.cli.gate import Undecided
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import BatchFallback, BatchFlag, Config, Detach, IntervalLevel, Sign, Yes
from verdict_cli.errors import UsageError, both

if TYPE_CHECKING:
    from verdict_cli.report.report import Report
    from verdict_cli.run.batches.batch_options import BatchOptions
    from verdict_cli.run.observer import RunObserver
    from verdict_cli.run.session import Session
    from verdict_cli.stats.gates import Inconclusive
    from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts


class Engine(StrEnum):
    """Where rows are judged (`--engine`)."""

    LOCAL = "local"
    RAY = "ray"


def run(
    config: Config,
    data: Annotated[
        str,
        typer.Argument(
            help="JSONL, JSON, CSV, TSV or Parquet: a file, a directory, a glob, a URL (s3://…), hf:OWNER/NAME[:SPLIT] "
            "of the Hugging Face hub, the name of a sample shipped with verdict, or - for JSONL on standard input."
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
        bool, typer.Option("--retry-failed", help="Retry only the failed calls of rows that failed.")
    ] = False,
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="With --out: resume its run although the pipeline or the dataset has changed. Units whose calls "
            "change, and units that depend on them, are called again; so are new rows.",
        ),
    ] = False,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Skip and count rows that cannot be read, instead of stopping.")
    ] = False,
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            help="Formats of the results, separated by commas: parquet, csv, csv-inert (formulas escaped), jsonl.",
        ),
    ] = "parquet",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the report.")] = False,
    inconclusive: Annotated[
        Undecided,
        typer.Option("--inconclusive", help="Whether a gate passes or fails that too few rows leave undecided."),
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
    batch: BatchFlag = False,
    batch_fallback: BatchFallback = False,
    detach: Detach = False,
    part_rows: Annotated[
        int | None,
        typer.Option(
            "--part-rows",
            metavar="N",
            min=1_000,
            help="Keep a run of more than N rows in parts of N rows, which a resumed run does not read again. "
            "[default: 10,000 for more than 50,000 rows]",
        ),
    ] = None,
    yes: Yes = False,
    sign: Sign = None,
    level: IntervalLevel = None,
    extras: Mapping[str, Any] = NO_EXTRAS,
) -> None:
    """Judge every row of a dataset and report the metrics.

    The same command on an unfinished directory resumes the run; completed calls are not repeated.
    A different pipeline or dataset is refused, unless --update is given.

    Example: verdict run xstest xstest_sample --model baseline/lexical
    """
    from verdict_cli.run.batches.batch_options import BatchOptions

    report = judged_dataset(
        config,
        data,
        how.with_level(level),
        out=out,
        retry_failed=retry_failed,
        update=update,
        skip_bad_rows=skip_bad_rows,
        observer=extras.get("observer"),
        formats=_formats(formats),
        inconclusive=inconclusive.value,
        engine=engine,
        ray_address=ray_address,
        batches=BatchOptions(batch, batch_fallback, detach),
        part_rows=part_rows,
        yes=yes,
        sign=sign,
    )
    from verdict_cli.cli.show_report import exit_code, show_report

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
    observer: RunObserver | None = None,
    formats: Sequence[str] = (),
    inconclusive: Inconclusive = "fail",
    engine: Engine = Engine.LOCAL,
    ray_address: str | None = None,
    batches: BatchOptions | None = None,
    part_rows: int | None = None,
    yes: bool = False,
    sign: Path | None = None,
) -> Report:
    """Run with the options of `verdict run`, and return the report. Exits where the run is stopped before its end."""
    from verdict_cli.storage.object_store.folder import path_of

    if how.fresh and retry_failed:
        raise UsageError("--fresh leaves nothing that --retry-failed could retry", hint="give one of them")
    if update and (how.fresh or out is None):
        needs_out = "--update needs the directory of the run that it resumes"
        raise UsageError(
            "--fresh and --update cannot be combined" if how.fresh else needs_out,
            hint="give one of them" if how.fresh else "give its --out",
        )
    if ray_address is not None and engine is not Engine.RAY:
        raise UsageError("--ray-address needs --engine ray", hint="give both, or leave --ray-address out")
    from verdict_cli.cli.multi_run import execute_or_exit
    from verdict_cli.cli.open_dataset import check_data, open_dataset
    from verdict_cli.cli.show_report import finish_with_report
    from verdict_cli.cli.signals import stopping
    from verdict_cli.cli.spending import tell_cost
    from verdict_cli.report.write_report import preload_report
    from verdict_cli.run.batches.batch_options import BatchOptions
    from verdict_cli.run.checked_data import checked_earlier
    from verdict_cli.run.job import Stop
    from verdict_cli.run.observer import RunObserver
    from verdict_cli.run.session import open_run
    from verdict_cli.run.signature import signing_key

    key = None if sign is None else signing_key(sign)
    plan = how.plan(config)
    stop = Stop()
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to, stopping(stop):
        directory = None if out is None else path_of(str(out))

        def checked() -> tuple[Dataset, DatasetFacts]:
            dataset = open_dataset(plan, data, Path(spool_to), skip_bad_rows=skip_bad_rows)
            limit, sample, seed = how.limit, how.sample, how.seed
            facts = None
            if not (how.fresh or observer):
                facts = checked_earlier(directory, plan, dataset, limit=limit, sample=sample, seed=seed)
            is_traced = observer is not None
            return dataset, facts or check_data(plan, dataset, limit=limit, sample=sample, seed=seed, traced=is_traced)

        recording, (dataset, facts) = both(partial(how.recording, plan), checked)
        options = how.run_options(
            plan,
            dataset,
            facts,
            (str(config), data),
            recording,
            out=out,
            retry_failed=retry_failed,
            update=update,
            engine=engine.value,
            ray_address=ray_address,
            batches=batches or BatchOptions(),
            part_rows=part_rows,
            observer=observer or RunObserver(),
            preload=partial(preload_report, plan),
        )
        with open_run(options) as session:
            if session.earlier is not None and not how.quiet:
                print_message(f"{session.directory.display_name}: {_resume_message(session)}")
            tell_cost(session, yes=yes, quiet=how.quiet)
            result = execute_or_exit(session, stop, how)
            return finish_with_report(result, formats, inconclusive=inconclusive, key=key)


def _resume_message(session: Session) -> str:
    """What the command does in a directory that holds its run."""
    earlier = session.earlier
    assert earlier is not None
    if session.difference is not None:
        return f"the update {session.difference.work()}"
    if earlier.status != "finished":
        return "resuming where it stopped"
    if not session.options.retry_failed:
        return "nothing left to do, the report is rewritten"
    if not earlier.failed:
        return "no row failed, nothing left to do, the report is rewritten"
    return f"retrying failed calls in {earlier.failed:,} row{'s' if earlier.failed > 1 else ''}"


def _formats(text: str) -> list[str]:
    from verdict_cli.report.write_report import FORMATS

    formats = [part.strip() for part in text.split(",") if part.strip()]
    unknown = next((name for name in formats if name not in FORMATS), None)
    if unknown is not None:
        hint = f"--format takes {', '.join(FORMATS)}, separated by commas"
        raise UsageError(f"unknown format {unknown!r}", hint=hint)
    return formats
