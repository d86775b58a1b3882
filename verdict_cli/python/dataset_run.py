"""Run a dataset from Python, as `verdict run` does, with the results as a DataFrame."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verdict_cli.errors import DataError, JournalError, Problem, UsageError
from verdict_cli.messages import NamedValues
from verdict_cli.plan.node import Plan
from verdict_cli.python.judged import run_in_thread
from verdict_cli.python.plain_values import plain_value
from verdict_cli.report.write_report import preload_report, write_report
from verdict_cli.run.job import RunOptions
from verdict_cli.run.load_run import RunResult
from verdict_cli.run.preflight import dataset_for, open_cache, open_recording, preflight
from verdict_cli.run.session import Session, open_run
from verdict_cli.storage.datasets.files import find_files

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
    reuse: Path | None = None
    retry_failed: bool = False
    cache: bool = False

    def __post_init__(self) -> None:
        for name, value in (("concurrency", self.concurrency), ("limit", self.limit)):
            if value is not None and (
                not isinstance(value, int) or isinstance(value, bool) or value < 1
            ):
                raise UsageError(f"{name} is {value!r}, expected a whole number of at least 1")


def run_dataset(plan: Plan, data: Any, options: DatasetRunOptions) -> pandas.DataFrame:
    """The results of the data's rows. With `out`, the directory holds what `verdict run` leaves there.

    Raises what stops a run.
    """
    if options.retry_failed and options.out is None:
        raise UsageError(
            "`retry_failed` retries calls of a run that is kept", hint="give its `out`"
        )
    recording = open_recording(options.replay, plan)
    with tempfile.TemporaryDirectory(prefix="verdict-") as scratch:
        is_path = isinstance(data, str | Path)
        dataset = dataset_for(
            plan, find_files(str(data)) if is_path else (_spool_rows(data, Path(scratch)),)
        )
        run_options = RunOptions(
            plan=plan,
            dataset=dataset,
            data=preflight(plan, dataset, limit=options.limit, seed=options.seed),
            config="Python",
            source=str(data) if is_path else type(data).__name__,
            out=options.out or Path(scratch) / "run",
            seed=options.seed,
            replay=options.replay,
            recording=recording,
            concurrency=options.concurrency,
            retry_failed=options.retry_failed,
            reuse=() if options.reuse is None else (options.reuse,),
            preload=partial(preload_report, plan) if options.out else _nothing,
        )
        try:
            session = open_run(run_options)
        except JournalError as error:
            raise JournalError(error.message, hint=_in_python(error.hint)) from None
        with session:
            result = run_in_thread(
                lambda: _execute(session, cache=options.cache and recording is None)
            )
            if options.out:
                write_report(result, warn=_warn)
        return result.to_pandas()


def _nothing() -> None:
    """Without `out` there is no report to preload."""


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=2)


def _execute(session: Session, *, cache: bool) -> RunResult:
    """The result, in the thread in which the cache is opened: SQLite allows no other."""
    store = open_cache(session.options.plan) if cache and not session.is_finished else None
    try:
        return session.execute(store=store)
    finally:
        if store is not None:
            store.close()


def _spool_rows(data: Any, scratch: Path) -> Path:
    """The rows of a DataFrame or a list as a JSONL file."""
    path = scratch / "rows.jsonl"
    rows: Iterable[Any]
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        repeated = data.columns[data.columns.duplicated()]
        if len(repeated):  # a row would have the last of them alone
            raise UsageError(
                f"the DataFrame has two columns {repeated[0]!r}", hint="rename one of them"
            )
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
                raise DataError(
                    Problem("bad-row", f"row {index} is {row!r:.80}, expected a mapping of columns")
                )
            file.write(_line(index, row))
    return path


def _line(index: int, row: NamedValues) -> bytes:
    """The row as a line of JSONL. DataError names the column of a value that JSON cannot hold."""
    import orjson

    try:
        return orjson.dumps(
            dict(row), option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
        )
    except (TypeError, ValueError):  # not only plain values, or integers beyond 64 bits
        plain = {}
        for column, value in row.items():
            try:
                plain[column] = plain_value(value)
            except (TypeError, ValueError, OverflowError) as error:
                where = f"row {index}, column {column!r}"
                raise DataError(
                    Problem("bad-row", f"{where}: the value cannot be written as JSON: {error}")
                ) from None
        return f"{json.dumps(plain)}\n".encode()


def _in_python(hint: str) -> str:
    """The hint for a directory that belongs to another run, with the arguments in place of the options."""
    if "--reuse" not in hint:
        return hint
    return "choose another `out`, with that directory as `reuse`: models are called only for what differs"
