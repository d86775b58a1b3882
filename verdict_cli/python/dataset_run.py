"""`Pipeline.run_dataset`: the engine of `verdict run`, with the results as a DataFrame."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verdict_cli import __version__
from verdict_cli.errors import DataError, JournalError, Problem, UsageError
from verdict_cli.messages import RunFacts
from verdict_cli.plan.node import Plan
from verdict_cli.python.judged import run_in_thread
from verdict_cli.run.data_preflight.preflight_data import preflight
from verdict_cli.run.job import RunJob, Stop
from verdict_cli.run.local import run_locally
from verdict_cli.run.preflight import check_dataset as open_checked
from verdict_cli.run.preflight import check_models, recording, store
from verdict_cli.run.run_diff import RunDiff
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.run_metadata import nodes, run_fingerprint, starting
from verdict_cli.storage.datasets.files import find_files
from verdict_cli.storage.tables.reader import read_table

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class DatasetRunOptions:
    """Options of a dataset run."""

    out: Path | None
    replay: Path | None
    concurrency: int
    limit: int | None
    seed: int
    update: bool = False
    retry_failed: bool = False
    cache: bool = False

    def __post_init__(self) -> None:
        for name, value in (("concurrency", self.concurrency), ("limit", self.limit)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise UsageError(f"{name} is {value!r}, expected a whole number of at least 1")


def run_dataset(plan: Plan, data: Any, options: DatasetRunOptions) -> pandas.DataFrame:
    """The results of the data's rows. Raises what stops a run, and UsageError, before it begins, where pandas is not
    installed."""
    if find_spec("pandas") is None:
        raise UsageError(
            "run_dataset gives a DataFrame, and pandas is not installed",
            hint="in a checkout of verdict: pip install '.[pandas]'; `verdict run` needs no pandas",
        )
    recorded = None if options.replay is None else recording(options.replay, plan)
    if recorded is None:
        check_models(plan)
    with tempfile.TemporaryDirectory(prefix="verdict-") as scratch:
        source_files = find_files(str(data)) if isinstance(data, str | Path) else (_spool_rows(data, Path(scratch)),)
        dataset = open_checked(plan, source_files)
        facts = preflight(plan, dataset, limit=options.limit, seed=options.seed)[0]
        directory = RunDirectory(options.out or Path(scratch) / "run")
        start = RunFacts(
            name=plan.name,
            status="running",
            config="Python",
            dataset=str(data) if isinstance(data, str | Path) else type(data).__name__,
            spec_fingerprint=run_fingerprint(plan, options.seed, options.replay),
            data_fingerprint=facts.fingerprint,
            version=__version__,
            started="",
            seed=options.seed,
            rows=facts.rows,
            nodes=nodes(plan, options.seed),
            calibrated=plan.calibrated,
        )
        earlier, changed = _earlier_run(plan, directory, start, update=options.update)
        if options.retry_failed and options.out is None:
            raise UsageError("`retry_failed` needs a run that is kept", hint="give its `out`")
        is_finished = earlier is not None and changed is None and earlier.status == "finished"
        if not is_finished or (options.retry_failed and earlier is not None and earlier.failed):
            directory.prepare()
            job = RunJob(
                plan,
                dataset,
                facts,
                directory,
                starting(start, earlier),
                concurrency=options.concurrency,
                recording=recorded,
                update=options.update,
                retry_failed=options.retry_failed,
            )
            run_in_thread(lambda: _run_job(job, cache=options.cache and recorded is None))
        return _read_results(directory.results)


def _run_job(job: RunJob, *, cache: bool) -> None:
    """Runs the job, in the thread in which the cache is opened."""
    cache_store = store(job.plan) if cache else None
    try:
        run_locally(replace(job, store=cache_store), Stop(), lambda progress: None)
    finally:
        if cache_store is not None:
            cache_store.close()


def _spool_rows(data: Any, scratch: Path) -> Path:
    """The rows of a DataFrame or a list as a JSONL file."""
    import orjson

    path = scratch / "rows.jsonl"
    rows: Iterable[Any]
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        rows = data.to_dict(orient="records")
    elif isinstance(data, Iterable) and not isinstance(data, Mapping | bytes):
        rows = data
    else:
        raise UsageError(
            f"{type(data).__name__} is not a dataset",
            hint="give a DataFrame, a list of rows, or the path of a JSONL, JSON, CSV, TSV or Parquet file",
        )
    with path.open("wb") as file:
        for index, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise DataError(Problem("bad-row", f"row {index} is {row!r:.80}, expected a mapping of columns"))
            try:
                file.write(
                    orjson.dumps(
                        dict(row), default=_to_json_value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
                    )
                )
            except (TypeError, ValueError) as error:
                raise DataError(Problem("bad-row", f"row {index} cannot be written as JSON: {error}")) from None
    return path


def _to_json_value(value: Any) -> Any:
    """What orjson does not know: pandas' own missing values and timestamps, mappings and sequences of other classes."""
    import pandas

    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, pandas.Timestamp):
        return value.isoformat()
    if value is pandas.NaT or value is pandas.NA:
        return None
    raise TypeError(f"{type(value).__name__} {value!r:.80}")


def _earlier_run(
    plan: Plan, directory: RunDirectory, start: RunFacts, *, update: bool
) -> tuple[RunFacts | None, RunDiff | None]:
    """As `RunDirectory.belongs_to`; JournalError too when it cannot be told whether it is the same run."""
    if directory.facts() is None:
        return None, None
    for node in plan.nodes:
        for code in node.code:
            if not code.traceable:
                raise JournalError(
                    f"{directory.path} holds a run, and whether it is this one cannot be told: "
                    f"the source of {code.name} in the unit {node.id!r} is not known",
                    hint="define the function in a file or a notebook, or choose another `out`",
                )
    try:
        return directory.belongs_to(plan, start, update=update)
    except JournalError as error:
        hint = "`update=True` keeps that run and calls only what changed; or choose another `out`, or remove that directory"
        raise JournalError(error.message, hint=hint) from None


def _read_results(path: Path) -> pandas.DataFrame:
    import pandas

    frames = [pandas.DataFrame(columns) for columns in read_table(path)]
    return pandas.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
