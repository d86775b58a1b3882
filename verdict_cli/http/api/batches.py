"""Batches that are acknowledged at once and judged later: each is a run in a directory of its own, which outlives the server."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.errors import JournalError, UsageError, VerdictError
from verdict_cli.http.api.service import Service
from verdict_cli.http.api.settings import ServeSettings
from verdict_cli.language.load import load
from verdict_cli.messages import Failure, Result, Row
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.report.write_report import write_report
from verdict_cli.run.job import RunOptions, Stop
from verdict_cli.run.load_run import RunResult
from verdict_cli.run.outcome import outcome
from verdict_cli.run.preflight import load_recording
from verdict_cli.run.progress import Progress
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.session import open_run
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import scan
from verdict_cli.storage.journal.segments import lock_file
from verdict_cli.storage.tables.reader import read_table

_logger = logging.getLogger(__name__)
_ID = re.compile(r"[0-9a-f]{32}")
_ROWS, _ACCEPTED = "rows.jsonl", "accepted.json"
PAGE = 1000
"""Results that one answer holds at most."""


class Batches:
    """The batches in one directory, judged one after another. A batch stays until it is removed."""

    def __init__(self, service: Service, concurrency: int) -> None:
        self._service = service
        self._folder = service.settings.state / "batches"
        self._concurrency = max(1, concurrency // 2)
        self._lock: int | None = None
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._left: set[str] = set()
        self._progress: dict[str, Progress] = {}
        self._stopped: dict[str, str] = {}
        self._running: str | None = None
        self._stop = Stop()
        self._worker: asyncio.Task[None] | None = None
        service.metrics.gauge("verdict_batches_left", "Batches that are not finished.", lambda: len(self._left))

    @property
    def left(self) -> int:
        """Batches that are not finished."""
        return len(self._left)

    def open(self) -> None:
        """Goes on with what an earlier server acknowledged. UsageError when another one has the directory."""
        if not self._folder.is_dir():
            return
        self._claim()
        for part in self._folder.glob("*.part"):
            shutil.rmtree(part)
        found = [path for path in self._folder.iterdir() if _ID.fullmatch(path.name)]
        for path in sorted(found, key=lambda path: str(_read(path)["accepted"])):
            facts = RunDirectory(path).facts()
            if facts is None or facts.status != "finished":
                self._enqueue(path.name)

    def again(self) -> None:
        """Tries once more the batches that something stopped, such as a refusal."""
        for each in self._stopped:
            self._queue.put_nowait(each)
        self._stopped.clear()

    async def accept(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The new batch's state, once it is on the disk: from here on it is lost by nothing. DataError for a row that
        the pipeline cannot take."""
        loaded = self._service.now
        taken = [loaded.row(row, place) for place, row in enumerate(rows)]
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._claim()
        name = secrets.token_hex(16)
        await asyncio.to_thread(_keep, self._folder / name, loaded.plan, taken, self._service.settings)
        self._enqueue(name)
        return self.state(name)

    def state(self, name: str) -> dict[str, Any]:
        """`{"id", "status", "rows", "done", "failed", "cost_usd", "error"}`. KeyError for a batch that is not there."""
        path = self._path(name)
        facts = RunDirectory(path).facts()
        made: dict[str, Any] = {"id": name, "status": "accepted", "rows": _read(path)["rows"], "error": None}
        made |= {"done": 0, "failed": 0, "cost_usd": 0.0}
        progress = self._progress.get(name)
        if facts is not None and facts.status == "finished":
            made |= {"status": "finished", "done": facts.done, "failed": facts.failed, "cost_usd": facts.cost_usd}
        elif progress is not None:
            made |= {"done": progress.done, "failed": progress.failed, "cost_usd": progress.cost_usd}
        if name in self._stopped:
            made |= {"status": "stopped", "error": self._stopped[name]}
        elif name == self._running:
            made["status"] = "running"
        return made

    def results(self, name: str, offset: int, limit: int) -> list[dict[str, Any]]:
        """A finished batch's answers, in the order of its rows."""
        path = self._path(name)
        plan = self._plan(path)
        loaded = self._service.now
        made: list[dict[str, Any]] = []
        place = 0
        for columns in read_table(RunDirectory(path).results):
            count = len(columns["row"])
            for at in range(max(0, offset - place), min(count, offset + limit - place)):
                row = {column: values[at] for column, values in columns.items()}
                made.append(self._described(plan, loaded.plan, row))
            place += count
        return made

    def remove(self, name: str) -> bool:
        """Removes a batch that is not being judged; False for one that is. KeyError where there is none."""
        path = self._path(name)
        if name == self._running or (name in self._left and name not in self._stopped):
            return False
        gone = path.with_name(f"{name}.part")
        path.rename(gone)
        shutil.rmtree(gone)
        self._left.discard(name)
        self._stopped.pop(name, None)
        self._progress.pop(name, None)
        return True

    def start(self) -> None:
        """Begins to judge what there is and what comes."""
        self._worker = asyncio.create_task(self._work())

    async def drained(self) -> None:
        """Returns when every batch that can be is finished."""
        await self._queue.join()

    async def close(self) -> None:
        """Stops in order: calls in flight have a few seconds, what they bring is kept."""
        if self._worker is not None:
            if self._running is None:
                self._worker.cancel()
            else:
                self._stop.request()
            await asyncio.gather(self._worker, return_exceptions=True)
        if self._lock is not None:
            os.close(self._lock)

    def _enqueue(self, name: str) -> None:
        self._left.add(name)
        self._queue.put_nowait(name)

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            self._running, self._stop = name, Stop()
            try:
                finished = await self._judged(name)
            except VerdictError as error:
                self._stopped[name] = str(error)
            else:
                if finished:
                    self._left.discard(name)
            finally:
                self._running = None
                self._queue.task_done()
            if self._stop.requested:
                return

    async def _judged(self, name: str) -> bool:
        """Runs the batch to its end, or to that of the server; False for the latter."""
        path = self._path(name)
        service = self._service
        accepted = _read(path)
        plan = self._plan(path)
        seed, replay = int(accepted["seed"]), service.settings.replay
        dataset = Dataset((path / _ROWS,), id=accepted["id"])
        options = RunOptions(
            plan=plan,
            dataset=dataset,
            data=await asyncio.to_thread(scan, dataset, seed=seed),
            config="verdict serve",
            source=_ROWS,
            out=path,
            seed=seed,
            replay=replay,
            recording=None if replay is None else load_recording(replay, plan),
            concurrency=self._concurrency,
        )

        def show(progress: Progress) -> None:
            self._progress[name] = progress

        with open_run(options) as session:
            result = await session.execute_within(service.access, self._stop, show)
        if result.facts.status != "finished":
            return False
        await self._report(result)
        return True

    async def _report(self, result: RunResult) -> None:
        """Write the batch's report. Its results do not depend on that: where it fails, the batch is finished without."""
        try:
            await asyncio.to_thread(write_report, result, warn=_logger.warning)
        except VerdictError as error:
            _logger.warning("the report of %s could not be written: %s", result.directory.path, error)

    def _plan(self, path: Path) -> Plan:
        """The plan that the batch was accepted for: the one that answers now, or that of its directory."""
        now = self._service.now.plan
        if _read(path)["plan"] == now.fingerprint:
            return now
        if not (path / "spec.yaml").exists():
            raise JournalError(
                "the batch was accepted for another pipeline, whose Python code is not kept",
                hint="serve that pipeline again, and it is finished",
            )
        return build_plan(load(path / "spec.yaml")).plan

    def _described(self, plan: Plan, now: Plan, row: Mapping[str, Any]) -> dict[str, Any]:
        service = self._service
        result = _restored(plan, row)
        own = plan is now
        made = service.described(service.now, result).document if own else outcome(plan, result)
        return made | {"calls": row["calls"], "cost_usd": row["cost_usd"]}

    def _path(self, name: str) -> Path:
        path = self._folder / name
        if not _ID.fullmatch(name) or not path.is_dir():
            raise KeyError(name)
        return path

    def _claim(self) -> None:
        """Makes the directory this server's alone."""
        if self._lock is not None:
            return
        descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        if not lock_file(descriptor):
            os.close(descriptor)
            raise UsageError(
                f"{self._folder} belongs to another server that is running", hint="give this one its own --state"
            )
        self._lock = descriptor


def _keep(path: Path, plan: Plan, rows: Sequence[Row], settings: ServeSettings) -> None:
    """Writes the batch as a whole, and returns when it is on the disk."""
    part = path.with_name(f"{path.name}.part")
    part.mkdir(mode=0o700)
    RunDirectory(part).write_spec(plan)
    lines = (orjson.dumps(row.source, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
    (part / _ROWS).write_bytes(b"".join(lines))
    name = (plan.resolved.get("dataset") or {}).get("id")
    accepted = {
        "rows": len(rows),
        "id": name if all(name in row.source for row in rows) else None,
        "plan": plan.fingerprint,
        "seed": settings.seed,
        "accepted": datetime.now(UTC).isoformat(),
    }
    (part / _ACCEPTED).write_bytes(orjson.dumps(accepted))
    for file in [*part.rglob("*"), part]:
        _sync(file)
    part.rename(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((path / _ACCEPTED).read_bytes())
    return found


def _restored(plan: Plan, row: Mapping[str, Any]) -> Result:
    """The outcome that a row of `results.parquet` tells of."""
    outputs = []
    for node in plan.nodes:
        output = {name: row[f"{node.id}.{name}"] for name in node.output.fields}
        outputs.append(None if all(value is None for value in output.values()) else output)
    source = {name.removeprefix("source."): value for name, value in row.items() if name.startswith("source.")}
    failure = None
    if row["status"] == "failed":
        failure = Failure(row["failure.kind"], row["failure.message"], row["failure.node"])
    return Result(Row(row["row"], row["id"], source), tuple(outputs), failure, abstained=row["status"] == "abstained")
