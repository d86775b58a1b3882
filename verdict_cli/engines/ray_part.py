"""What a Ray worker does: one part of the rows, by a plan that it builds from the pipeline's own files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from verdict_cli.calls import Gates
from verdict_cli.data import Dataset, Facts
from verdict_cli.data.dataset import Selection
from verdict_cli.engines.away import Away
from verdict_cli.engines.desk import Heard, Permitted, Wanted
from verdict_cli.engines.directory import RunDirectory
from verdict_cli.engines.job import Job, Stop
from verdict_cli.engines.local import run_part
from verdict_cli.engines.part import Part, PartDone
from verdict_cli.engines.ready import store
from verdict_cli.engines.shared import SharedAccess
from verdict_cli.engines.tally import Progress
from verdict_cli.errors import VerdictError
from verdict_cli.places import Place, is_url
from verdict_cli.plan import Plan
from verdict_cli.providers import Providers, Recording
from verdict_cli.values import Output, Row, RunFacts

Files = tuple[tuple[str, bytes], ...]
"""Names and contents of a pipeline's files, the first the pipeline itself."""


@dataclass(frozen=True)
class Setting:
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

    done: PartDone | None = None
    trouble: VerdictError | None = None
    tables: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class _RayDesk:
    """The desk, which is an actor."""

    actor: Any
    name: str

    async def post(
        self,
        wanted: Sequence[Wanted],
        ended: Sequence[tuple[int, Heard | None]],
        progress: Progress | None,
    ) -> None:
        await self.actor.post.remote(self.name, wanted, ended, progress)

    async def permits(self) -> Permitted:
        said: Permitted = await self.actor.permits.remote(self.name)
        return said


def judge_part(
    setting: Setting,
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
        place = RunDirectory.at(folder) if is_url(folder) else RunDirectory(Path(folder))
        came = _judged(setting, _RayDesk(actor, name), rows, place, pinned)
        if place.away is None:
            return came
        return replace(came, tables=(folder.rpartition("/")[2], _sent(place, place.away, name)))
    except VerdictError as error:
        return Came(trouble=error)
    finally:
        ray.get(actor.end.remote(name))


def _sent(folder: RunDirectory, away: Away, worker: str) -> str:
    """The worker's name, once the part's tables are in the store under it and the copy is removed."""
    for table in (folder.results, folder.calls):
        away.place.send(table, f"{worker}/{table.name}")
    away.clear()
    return worker


def fetch_tables(came: Came, run: Place, parts: Path) -> None:
    """Makes the tables of the part that came those of its folder in ``parts``."""
    part, worker = came.tables
    folder = RunDirectory(parts / part)
    folder.prepare()
    for table in (folder.results, folder.calls):
        run.fetch(f"{parts.name}/{part}/{worker}/{table.name}", table)


def _judged(
    setting: Setting,
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
    access = SharedAccess(
        Providers(setting.recording),
        Gates(setting.concurrency),
        store=kept,
        recorded=recorded,
        desk=desk,
        stop=stop,
    )
    job = Job(
        plan,
        Dataset(()),
        Facts(len(rows), len(rows), 0, setting.columns, "", Selection()),
        folder,
        setting.start,
        setting.concurrency,
        setting.recording,
        retry_failed=setting.retry_failed,
    )
    try:
        done = run_part(job, Part(rows, len(rows), folder, pinned), stop, access.report, access)
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
    from verdict_cli.plan import build
    from verdict_cli.spec import load

    with tempfile.TemporaryDirectory(prefix="verdict-") as name:
        for file, content in files:
            RunDirectory(Path(name)).write(file, content)
        return build(load(Path(name) / "spec.yaml")).plan
