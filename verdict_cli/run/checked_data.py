"""What the check of a dataset found, kept with its run: reading a million rows to check them takes seconds, which a
resumed run of the same pipeline and dataset saves."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from verdict_cli import __version__
from verdict_cli.errors import DataError
from verdict_cli.plan.node import Plan
from verdict_cli.run.job import RunJob
from verdict_cli.storage.database.database import RUN_DB, Database
from verdict_cli.storage.database.schema import DamagedError
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts, Selection
from verdict_cli.storage.datasets.fingerprint import dataset_fingerprint, file_stamps
from verdict_cli.storage.paths import is_remote_url

_NAME = "checked"
"""Its name in the database."""


class _Checked(Struct, frozen=True):
    """The facts of a dataset, and a digest of the pipeline that it was checked against."""

    pipeline: str
    facts: DatasetFacts


def keep_checked(job: RunJob, database: Database) -> None:
    """Keep what the check found of the job's dataset."""
    selection = job.data.selection
    whole = structs.replace(
        job.data,
        rows=selection.taken,
        selection=structs.replace(selection, shard=0, shards=1),
        drawn=(),
        notes=(),
    )
    database.put(_NAME, _Checked(_digest(job.plan), whole))


def checked_earlier(
    out: str | None,
    plan: Plan,
    dataset: Dataset,
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> DatasetFacts | None:
    """What an earlier check of this pipeline and dataset found, by a run in the directory ``out``, a path or a URL, or in `runs/`;
    else None."""
    if any(node.code for node in plan.nodes):
        return None
    pipeline = _digest(plan)
    candidates = [checked.facts for checked in _found(out, plan) if checked.pipeline == pipeline]
    if not candidates:
        return None
    stamps = file_stamps(dataset)
    try:
        fingerprint = dataset_fingerprint(dataset, Selection(limit, sample, seed))
    except DataError:  # the check reports it
        return None
    for facts in candidates:
        if facts.fingerprint == fingerprint:
            return structs.replace(facts, stamps=stamps)
    return None


def _found(out: str | None, plan: Plan) -> Iterator[_Checked]:
    if out is not None and is_remote_url(out):
        return
    for path in (
        Path("runs").glob(f"{plan.name}-*/{RUN_DB}") if out is None else (Path(out) / RUN_DB,)
    ):
        faults = (DataError, DamagedError, sqlite3.Error, msgspec.ValidationError)
        with suppress(*faults), Database.open_foreign(path) as database:
            yield msgspec.convert(database.get(_NAME), _Checked)


def _digest(plan: Plan) -> str:
    """32 hex digits over the whole pipeline, its evaluations among it, and this version's checks."""
    return blake2b(f"{__version__}|{plan.yaml}".encode(), digest_size=16).hexdigest()
