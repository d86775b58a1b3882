"""What a Ray worker does: one part of the rows, by a plan that it builds from the pipeline's own files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from verdict_cli.errors import VerdictError
from verdict_cli.llm.middleware.rate_limit import RateLimiters
from verdict_cli.llm.providers import Providers
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.messages import Output, Row, RunFacts
from verdict_cli.plan.node import Plan
from verdict_cli.run.job import Partition, PartitionResult, RunJob, Stop
from verdict_cli.run.local import run_part
from verdict_cli.run.preflight import store
from verdict_cli.run.progress import Progress
from verdict_cli.run.ray.coordinator import CallOutcome, PermitGrant, PermitRequest
from verdict_cli.run.ray.worker_client import SharedModelClient
from verdict_cli.run.remote_directory import RemoteRunDirectory
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts, Selection
from verdict_cli.storage.object_store.folder import RemoteFolder, is_remote_url

Files = tuple[tuple[str, bytes], ...]
"""Names and contents of a pipeline's files, the first the pipeline itself."""


@dataclass(frozen=True)
class WorkerSetting:
    """What is the same for every part of a run."""

    files: Files
    start: RunFacts
    columns: tuple[str, ...]
    concurrency: int
    recording: Recording | None
    cached: bool
    retry_failed: bool


@dataclass(frozen=True)
class Came:
    """What came of a part: None where the run was to stop before it began; what stopped it.

    ``tables`` is the name of its folder, and that of the worker under which its tables stand in a store: a worker that
    was taken for lost may write there too.
    """

    done: PartitionResult | None = None
    trouble: VerdictError | None = None
    tables: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class _RayDesk:
    """The desk, which is an actor."""

    actor: Any
    name: str

    async def post(
        self,
        wanted: Sequence[PermitRequest],
        ended: Sequence[tuple[int, CallOutcome | None]],
        progress: Progress | None,
    ) -> None:
        await self.actor.post.remote(self.name, wanted, ended, progress)

    async def permits(self) -> PermitGrant:
        said: PermitGrant = await self.actor.permits.remote(self.name)
        return said


def judge_partition(
    setting: WorkerSetting,
    actor: Any,
    number: int,
    rows: Sequence[Row],
    folder: str,
    pinned: Mapping[int, Output | None] | None,
) -> Came:
    """Runs the part; its journal and tables are then in the folder, a path or a URL. Goes on by the journal there."""
    import ray

    name = f"{number}-{os.getpid()}-{os.urandom(4).hex()}"
    if not ray.get(actor.begin.remote(name, number)):
        return Came()
    try:
        place = RunDirectory.at(folder) if is_remote_url(folder) else RunDirectory(Path(folder))
        came = _judged(setting, _RayDesk(actor, name), rows, place, pinned)
        if place.away is None:
            return came
        return replace(came, tables=(folder.rpartition("/")[2], _sent(place, place.away, name)))
    except VerdictError as error:
        return Came(trouble=error)
    finally:
        ray.get(actor.end.remote(name))


def _sent(folder: RunDirectory, away: RemoteRunDirectory, worker: str) -> str:
    """The worker's name, once the part's tables are in the store under it and the copy is removed."""
    for table in (folder.results, folder.calls):
        away.place.send(table, f"{worker}/{table.name}")
    away.clear()
    return worker


def fetch_tables(came: Came, run: RemoteFolder, parts: Path) -> None:
    """Makes the tables of the part that came those of its folder in ``parts``."""
    part, worker = came.tables
    folder = RunDirectory(parts / part)
    folder.prepare()
    for table in (folder.results, folder.calls):
        run.fetch(f"{parts.name}/{part}/{worker}/{table.name}", table)


def _judged(
    setting: WorkerSetting,
    desk: _RayDesk,
    rows: Sequence[Row],
    folder: RunDirectory,
    pinned: Mapping[int, Output | None] | None,
) -> Came:
    folder.prepare()
    plan = plan_of(setting.files)
    kept = store(plan) if setting.cached else None
    stop = Stop()
    recorded = setting.recording is not None
    access = SharedModelClient(
        Providers(setting.recording),
        RateLimiters(setting.concurrency),
        store=kept,
        recorded=recorded,
        desk=desk,
        stop=stop,
    )
    job = RunJob(
        plan,
        Dataset(()),
        DatasetFacts(len(rows), len(rows), 0, setting.columns, "", Selection()),
        folder,
        setting.start,
        setting.concurrency,
        setting.recording,
        retry_failed=setting.retry_failed,
    )
    try:
        done = run_part(job, Partition(rows, len(rows), folder, pinned), stop, access.report, access)
        return Came(done, done.trouble)
    finally:
        if kept is not None:
            kept.close()


def files_of(plan: Plan) -> Files:
    """The files from which `plan_of` builds an equal plan."""
    with tempfile.TemporaryDirectory(prefix="verdict-") as name:
        RunDirectory(Path(name)).write_spec(plan)
        found = [path for path in Path(name).rglob("*") if path.is_file()]
        return tuple((str(path.relative_to(name)), path.read_bytes()) for path in found)


@lru_cache(1)
def plan_of(files: Files) -> Plan:
    """The plan of the files, built once in a process."""
    from verdict_cli.language.load import load
    from verdict_cli.plan.build import build_plan

    with tempfile.TemporaryDirectory(prefix="verdict-") as name:
        for file, content in files:
            RunDirectory(Path(name)).write(file, content)
        return build_plan(load(Path(name) / "spec.yaml")).plan
