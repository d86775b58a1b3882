"""The result of a run: as it ended, or read again from its directory."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from verdict_cli.errors import JournalError, UsageError
from verdict_cli.language.load import load, validate_document
from verdict_cli.messages import JsonObject
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.run.digests import check_digests, file_digest, with_changed_spec
from verdict_cli.run.run_directory import LOCK, RunDirectory, difference
from verdict_cli.run.tables import TABLES, TableColumns, write_tables
from verdict_cli.run.validate_run import check_rows, check_tables, facts_of
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.schema import DamagedError, unreadable
from verdict_cli.storage.file_lock import is_locked
from verdict_cli.storage.paths import was_url
from verdict_cli.storage.tables.reader import read_table

if TYPE_CHECKING:
    import pandas


class RunResult(NamedTuple):
    """A run's directory, which has its tables, with its facts and its plan."""

    directory: RunDirectory
    facts: RunFacts
    plan: Plan

    def to_pandas(self) -> pandas.DataFrame:
        """The columns of `results.parquet`, one row a row of the data."""
        import pandas

        frames = [pandas.DataFrame(columns) for columns in read_table(self.directory.results)]
        return pandas.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]

    def _repr_html_(self) -> str:
        facts = self.facts
        rows = {
            "status": facts.status,
            "rows": f"{facts.done} of {facts.rows}, {facts.failed} failed",
            "calls": f"{facts.calls}",
            "cost": "unknown" if facts.cost_usd is None else f"${facts.cost_usd:.4f}",
            "directory": self.directory.display_name,
        }
        return html_table(f"Run of {self.plan.name}", rows)


def html_table(title: str, rows: Mapping[str, str]) -> str:
    """A small table for a notebook, all text escaped."""
    body = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows.items()
    )
    return f"<table><caption>{escape(title)}</caption>{body}</table>"


def pipeline_key(run: RunResult) -> tuple[str, str]:
    """What two runs of one pipeline have in common: the pipeline without its seeds, and the recording that answers."""
    spec = load(run.directory.path / "spec.yaml")
    plain = replace(spec.document, data=_without_seeds(spec.document.data))
    seeded = plain.data != spec.document.data
    fingerprint = (
        build_plan(validate_document(plain, spec.folder)).plan.fingerprint
        if seeded
        else run.plan.fingerprint
    )
    return fingerprint, run.facts.replay


def _without_seeds(value: Any) -> Any:
    """A pipeline file's content without the `seed` of its models."""
    if isinstance(value, dict):
        seeded = "name" in value and isinstance(value.get("seed"), int)
        return {
            key: _without_seeds(item)
            for key, item in value.items()
            if not (seeded and key == "seed")
        }
    return [_without_seeds(item) for item in value] if isinstance(value, list) else value


def load_run(path: str | Path, *, unchanged: bool = False) -> RunResult:
    """The run in a directory. UsageError where there is none, or it has no results yet.

    DataError where its tables hold what no run writes, since the directory may come from a stranger, and where rows are
    missing; with `unchanged` where the tables are not, byte by byte, as the run wrote them.
    """
    path = Path(path)
    directory = RunDirectory(path)
    facts = restore_run(directory, directory.facts())
    if facts is None or not (path / "spec.yaml").exists():
        raise UsageError(
            f"{path} is not the directory of a run",
            hint="copy the run from its store, and give that path"
            if was_url(path)
            else "give the --out of a `verdict run`; it holds run.json",
        )
    if not directory.results.exists():
        raise UsageError(
            f"the run in {path} has no results yet", hint="the command that started it resumes it"
        )
    plan = build_plan(load(path / "spec.yaml")).plan
    if facts.shard:
        plan = structs.replace(plan, gates=())  # part of the rows decides no gate
    check_rows(directory.results, facts)
    if unchanged:
        check_digests(directory, facts)
    check_tables(directory.results, directory.calls, plan)
    return RunResult(directory, with_changed_spec(directory, facts), plan)


def restore_run(directory: RunDirectory, facts: RunFacts | None) -> RunFacts | None:
    """The facts of a run, whose files that are missing are written again from its database.

    The tables are, too, unless `run.json` vouches for them: a run that a signal stopped has written none.
    """
    if not directory.database.is_file():
        return facts
    present = all(
        (directory.path / name).exists() and name in (facts.digests if facts else ())
        for name in TABLES
    )
    if present:
        return facts
    with Database.open_foreign(directory.database) as database:
        stored = stored_run(database, directory)
    if stored is None:
        return facts
    if facts is not None:
        check_same_run(directory, stored, facts)
    if facts is None or not (directory.path / "spec.yaml").exists():
        for name, content in stored.files.items():
            directory.write(name, content)
    begun = facts or stored.facts
    counts = write_tables(
        directory.path,
        directory.database,
        TableColumns.from_json(stored.columns),
        begun.rows,
    )
    status = "waiting" if begun.status == "waiting" else "interrupted"
    if counts.done >= begun.rows:
        status = "finished"
    if begun.status == "running" and is_locked(directory.path / LOCK):
        status = "running"
    digests = {name: file_digest(directory.path / name) for name in TABLES}
    counted = begun.with_counts(counts, status, begun.wall_s)
    restored = structs.replace(counted, digests=digests)
    if status != "running":
        directory.write_facts(restored)
    return restored


class StoredRun(Struct, frozen=True):
    """What a run's database has beside its calls and rows."""

    facts: RunFacts
    files: dict[str, str]
    columns: JsonObject


def stored_run(database: Database, directory: RunDirectory) -> StoredRun | None:
    """What is needed to write the run's files; None where the run has not begun. DataError where it cannot be read."""
    try:
        stored = database.get("run")
        if stored is None:
            return None
        return msgspec.convert({**stored, "facts": facts_of(stored["facts"])}, StoredRun)
    except (DamagedError, KeyError, TypeError, ValueError, sqlite3.Error) as error:
        raise unreadable(directory.database, error) from None


def check_same_run(directory: RunDirectory, stored: StoredRun, facts: RunFacts) -> None:
    """JournalError where the database is not that of the run with these facts."""
    other = difference(stored.facts, facts)
    if other:
        raise JournalError(
            f"{directory.database} belongs to a run of {other}",
            hint="put back the run.db and the run.json of one run; `verdict run … --fresh` starts over",
        )
