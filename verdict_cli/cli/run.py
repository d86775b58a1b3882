"""`verdict run CONFIG DATA`."""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli import __version__
from verdict_cli.cli.streams import complain, say
from verdict_cli.errors import UsageError, VerdictError

if TYPE_CHECKING:
    from verdict_cli.engines import RunDirectory, Stop
    from verdict_cli.plan import Plan
    from verdict_cli.providers import Recording


def run(
    config: Annotated[Path, typer.Argument(help="The pipeline file.")],
    data: Annotated[str, typer.Argument(help="JSONL, JSON, CSV, TSV or Parquet: a file, a directory, a glob, or - for JSONL on standard input.")],
    out: Annotated[Path | None, typer.Option("--out", help="The run's directory. [default: runs/NAME-FINGERPRINT]")] = None,
    model: Annotated[str | None, typer.Option("--model", help="The model of every unit that sets none.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a value of the file, e.g. 'pipeline[1].repeat=5'.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N rows.")] = None,
    sample: Annotated[int | None, typer.Option("--sample", min=1, help="N rows drawn with --seed, in their own order.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seeds the sample, seeded draws and intervals.")] = 0,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, max=4096, help="Model calls in flight at once.")] = 64,
    replay: Annotated[Path | None, typer.Option("--replay", help="Answer all calls from a recording: a run, a calls.parquet, or a JSONL.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard what the directory holds.")] = False,
    budget: Annotated[float | None, typer.Option("--budget", min=0, metavar="USD", help="Start no call once this much is spent.")] = None,
    skip_bad_rows: Annotated[bool, typer.Option("--skip-bad-rows", help="Count rows that cannot be read instead of stopping.")] = False,
    formats: Annotated[str, typer.Option("--format", help="Formats of the results: parquet, csv, jsonl.")] = "parquet",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the report.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no messages.")] = False,
) -> None:
    """Judge every row of a dataset and report the figures.

    The same command on an unfinished directory goes on where it stopped; calls that were answered are not made again.

    Example: verdict run configs/xstest.yaml datasets/xstest_sample.jsonl --model baseline/lexical
    """
    wanted = _formats(formats)
    from verdict_cli.cli.dataset import opened
    from verdict_cli.cli.finish import exit_code, reported, show
    from verdict_cli.cli.pipeline import check_models, planned
    from verdict_cli.cli.progress import showing
    from verdict_cli.data import scan
    from verdict_cli.engines import Job, RunDirectory, Stop
    from verdict_cli.engines import run as run_job
    from verdict_cli.values import RunFacts

    plan = planned(config, settings or [], model, warn=not quiet).plan
    recording = None if replay is None else _recording(replay, plan)
    if recording is None:
        check_models(plan)
    stop = Stop()
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to, _signals(stop):
        dataset = opened(plan, data, Path(spool_to), skip_bad_rows=skip_bad_rows)
        facts = scan(dataset, limit=limit, sample=sample, seed=seed)
        fingerprint = _fingerprint(plan, seed, replay)
        directory = RunDirectory(out or Path("runs") / f"{plan.name}-{_short(fingerprint, facts.fingerprint)}")
        earlier = None if fresh else directory.belongs_to(fingerprint, facts.fingerprint)
        start = RunFacts(
            name=plan.name,
            status="running",
            config=str(config),
            dataset=data,
            spec_fingerprint=fingerprint,
            data_fingerprint=facts.fingerprint,
            version=__version__,
            started=earlier.started if earlier else datetime.now(UTC).isoformat(timespec="seconds"),
            seed=seed,
            rows=facts.rows,
            skipped_bad_rows=facts.skipped,
            wall_s=earlier.wall_s if earlier else 0.0,
        )
        if earlier is not None and earlier.status == "finished":
            _tell(f"{directory.path}: nothing left to do, the report is rewritten", quiet=quiet)
            done = earlier
        else:
            if earlier is not None:
                _tell(f"{directory.path}: going on where it stopped", quiet=quiet)
            directory.prepare()
            _write_spec(directory, plan)
            job = Job(plan, dataset, facts, directory, start, concurrency, recording, budget, fresh)
            try:
                with showing(quiet=quiet) as watch:
                    done = run_job(job, stop, watch)
            except VerdictError as error:
                complain(str(error))
                complain(_resume())
                raise typer.Exit(error.exit_code) from None
        if done.status == "interrupted":
            complain(f"stopped: {done.done:,} of {done.rows:,} rows are done, their results are in {directory.path}")
            complain(_resume())
            raise typer.Exit(130)
        _write_spec(directory, plan)
        report = reported(plan, directory, done, wanted)
    show(report, as_json=as_json)
    raise typer.Exit(exit_code(report))


def _formats(text: str) -> list[str]:
    from verdict_cli.cli.finish import FORMATS

    wanted = [part.strip() for part in text.split(",") if part.strip()]
    for each in wanted:
        if each not in FORMATS:
            raise UsageError(f"unknown format {each!r}", hint=f"--format takes {', '.join(FORMATS)}, separated by commas")
    return wanted


def _recording(path: Path, plan: Plan) -> Recording:
    """The recording, which must have calls of at least one unit of the plan."""
    from verdict_cli.plan import Asked
    from verdict_cli.providers import Recording

    recording = Recording.load(path)
    asking = [node.id for node in plan.nodes if isinstance(node.work, Asked)]
    recorded = recording.units()
    if asking and not set(asking) & set(recorded):
        raise UsageError(
            f"{path} has no call of any unit of this pipeline: it has {', '.join(recorded[:6]) or 'none'}",
            hint=f"the pipeline's units are {', '.join(asking[:6])}",
        )
    return recording


def _fingerprint(plan: Plan, seed: int, replay: Path | None) -> str:
    """32 hex digits over the pipeline, the seed, and whether the answers are recorded ones."""
    source = "" if replay is None else str(replay.resolve())
    return hashlib.blake2b(f"{plan.fingerprint}|{seed}|{source}".encode(), digest_size=16).hexdigest()


def _short(*fingerprints: str) -> str:
    return hashlib.blake2b("".join(fingerprints).encode(), digest_size=4).hexdigest()


def _write_spec(directory: RunDirectory, plan: Plan) -> None:
    """Writes `spec.yaml` and the published tables that it names, so that the directory needs no other file."""
    from verdict_cli.plan.written import as_yaml

    data = dict(plan.resolved)
    if plan.published:
        data["evaluate"] = {name: dict(keys) for name, keys in data["evaluate"].items()}
        for name, table in plan.published.items():
            data["evaluate"][name]["published"] = f"published/{name}.yaml"
            directory.write(f"published/{name}.yaml", as_yaml(table.model_dump(mode="json", exclude_none=True)))
    directory.write("spec.yaml", as_yaml(data))


def _tell(message: str, *, quiet: bool) -> None:
    if not quiet:
        say(message)


def _resume() -> str:
    words = [word for word in sys.argv[1:] if word != "--fresh"]
    return f"the same command goes on: {shlex.join(['verdict', *words])}"


@contextmanager
def _signals(stop: Stop) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM stops the run in order, the second one at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.loop is None:
            raise KeyboardInterrupt
        if stop.asked:
            os._exit(130)
        stop.ask()
        say("stopping: calls in flight have 5 s; once more stops at once")

    kept = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, before in kept.items():
            signal.signal(number, before)
