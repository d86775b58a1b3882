"""Batches: rows that are stored, acknowledged, and judged in the background. Each is a run in its own directory."""

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
from verdict_cli.features.server.service import ServeSettings, Service
from verdict_cli.language.load import load
from verdict_cli.messages import Failure, Result, Row
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.levels import from_lists
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
from verdict_cli.storage.journal.journal import lock_file
from verdict_cli.storage.tables.reader import read_table

_logger = logging.getLogger(__name__)
_ID = re.compile(r"[0-9a-f]{32}")
_ROWS, _ACCEPTED = "rows.jsonl", "accepted.json"
PAGE = 1000
"""The most results per response."""


class Batches:
    """The batches in a directory, judged one after another. A batch is kept until it is removed."""

    def __init__(self, service: Service, concurrency: int) -> None:
        self._service = service
        self._folder = service.settings.state / "batches"
        self._concurrency = max(1, concurrency // 2)
        self._lock: int | None = None
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._unfinished: set[str] = set()
        self._progress: dict[str, Progress] = {}
        self._stopped: dict[str, str] = {}
        self._running: str | None = None
        self._stop = Stop()
        self._worker: asyncio.Task[None] | None = None
        service.metrics.gauge("verdict_batches_left", "Unfinished batches.", lambda: len(self._unfinished))

    @property
    def unfinished(self) -> int:
        """The number of unfinished batches."""
        return len(self._unfinished)

    def open(self) -> None:
        """Queue the unfinished batches of an earlier server. UsageError if a running server uses the directory."""
        if not self._folder.is_dir():
            return
        self._lock_folder()
        for part in self._folder.glob("*.part"):
            shutil.rmtree(part)
        paths = [path for path in self._folder.iterdir() if _ID.fullmatch(path.name)]
        for path in sorted(paths, key=lambda path: str(_read(path)["accepted"])):
            facts = RunDirectory(path).facts()
            if facts is None or facts.status != "finished":
                self._enqueue(path.name)

    def retry_stopped(self) -> None:
        """Queue the batches again that an error stopped, such as a refused call."""
        for name in self._stopped:
            self._queue.put_nowait(name)
        self._stopped.clear()

    async def accept(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Store a batch durably and return its state. DataError if a row does not fit the pipeline."""
        pipeline = self._service.active
        checked = [pipeline.row(row, index) for index, row in enumerate(rows)]
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock_folder()
        name = secrets.token_hex(16)
        await asyncio.to_thread(_store_batch, self._folder / name, pipeline.plan, checked, self._service.settings)
        self._enqueue(name)
        return self.state(name)

    def state(self, name: str) -> dict[str, Any]:
        """`{"id", "status", "rows", "done", "failed", "cost_usd", "left_s", "error"}`; `left_s` are the seconds that a running
        batch will still take. KeyError if there is no such batch."""
        path = self._path(name)
        facts = RunDirectory(path).facts()
        state: dict[str, Any] = {"id": name, "status": "accepted", "rows": _read(path)["rows"], "error": None}
        state |= {"done": 0, "failed": 0, "cost_usd": 0.0, "left_s": None}
        progress = self._progress.get(name)
        if facts is not None and facts.status == "finished":
            state |= {"status": "finished", "done": facts.done, "failed": facts.failed, "cost_usd": facts.cost_usd}
        elif progress is not None:
            state |= {"done": progress.done, "failed": progress.failed, "cost_usd": progress.cost_usd}
        if name in self._stopped:
            state |= {"status": "stopped", "error": self._stopped[name]}
        elif name == self._running:
            state |= {"status": "running", "left_s": None if progress is None else progress.left_s}
        return state

    def results(self, name: str, offset: int, limit: int) -> list[dict[str, Any]]:
        """A page of the results of a finished batch, in the order of its rows. KeyError if there is no such batch."""
        path = self._path(name)
        plan = self._plan(path)
        page: list[dict[str, Any]] = []
        start = 0
        for columns in read_table(RunDirectory(path).results):
            count = len(columns["row"])
            for index in range(max(0, offset - start), min(count, offset + limit - start)):
                row = {column: values[index] for column, values in columns.items()}
                page.append(self._result_document(plan, row))
            start += count
        return page

    def remove(self, name: str) -> bool:
        """Remove a batch. Returns False if it is queued or being judged. KeyError if there is no such batch."""
        path = self._path(name)
        if name == self._running or (name in self._unfinished and name not in self._stopped):
            return False
        removed = path.with_name(f"{name}.part")  # `open` deletes what a killed server leaves of it
        path.rename(removed)
        shutil.rmtree(removed)
        self._unfinished.discard(name)
        self._stopped.pop(name, None)
        self._progress.pop(name, None)
        return True

    def start(self) -> None:
        """Start judging queued batches."""
        self._worker = asyncio.create_task(self._work())

    async def drain(self) -> None:
        """Wait until every queued batch is finished or stopped."""
        await self._queue.join()

    async def close(self) -> None:
        """Stop gracefully: calls in flight get a few seconds, and their replies are kept."""
        if self._worker is not None:
            if self._running is None:
                self._worker.cancel()
            else:
                self._stop.request()
            await asyncio.gather(self._worker, return_exceptions=True)
        if self._lock is not None:
            os.close(self._lock)

    def _enqueue(self, name: str) -> None:
        self._unfinished.add(name)
        self._queue.put_nowait(name)

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            self._running, self._stop = name, Stop()
            try:
                finished = await self._run_batch(name)
            except VerdictError as error:
                self._stopped[name] = str(error)
            else:
                if finished:
                    self._unfinished.discard(name)
            finally:
                self._running = None
                self._queue.task_done()
            if self._stop.requested:
                return

    async def _run_batch(self, name: str) -> bool:
        """Run the batch. Returns False if the server stops before it is finished."""
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
            result = await session.execute_within(service.client, self._stop, show)
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
        """The plan for which the batch was accepted: the active one, or the one in its directory."""
        active = self._service.active.plan
        if _read(path)["plan"] == active.fingerprint:
            return active
        if not (path / "spec.yaml").exists():
            raise JournalError(
                "the batch was accepted for another pipeline with Python code, which is not stored",
                hint="serve that pipeline again to finish the batch",
            )
        return build_plan(load(path / "spec.yaml")).plan

    def _result_document(self, plan: Plan, row: Mapping[str, Any]) -> dict[str, Any]:
        result, active = _result_of_row(plan, row), self._service.active
        document = self._service.answer(active, result).document if plan is active.plan else outcome(plan, result)
        return document | {"calls": row["calls"], "cost_usd": row["cost_usd"]}

    def _path(self, name: str) -> Path:
        path = self._folder / name
        if not _ID.fullmatch(name) or not path.is_dir():
            raise KeyError(name)
        return path

    def _lock_folder(self) -> None:
        """Lock the directory for this server. UsageError if another one holds the lock."""
        if self._lock is not None:
            return
        descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        if not lock_file(descriptor):
            os.close(descriptor)
            raise UsageError(f"{self._folder} is in use by another server", hint="give this server its own --state")
        self._lock = descriptor


def _store_batch(path: Path, plan: Plan, rows: Sequence[Row], settings: ServeSettings) -> None:
    """Write a batch atomically, and return once it is on the disk."""
    part = path.with_name(f"{path.name}.part")
    part.mkdir(mode=0o700)
    RunDirectory(part).write_spec(plan)
    lines = (orjson.dumps(row.source, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
    (part / _ROWS).write_bytes(b"".join(lines))
    id_column = (plan.resolved.get("dataset") or {}).get("id")
    accepted = {
        "rows": len(rows),
        "id": id_column if all(id_column in row.source for row in rows) else None,
        "plan": plan.fingerprint,
        "seed": settings.seed,
        "accepted": datetime.now(UTC).isoformat(),
    }
    (part / _ACCEPTED).write_bytes(orjson.dumps(accepted))
    for file in [*part.rglob("*"), part]:
        _fsync(file)
    part.rename(path)
    _fsync(path.parent)


def _fsync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> Any:
    return orjson.loads((path / _ACCEPTED).read_bytes())


def _result_of_row(plan: Plan, row: Mapping[str, Any]) -> Result:
    """Restore the result of a row of `results.parquet`."""
    outputs = []
    for node in plan.nodes:
        columns = {name: row[f"{node.id}.{name}"] for name in node.output.fields}
        outputs.append(from_lists(columns, len(node.groups)))
    source = {name.removeprefix("source."): value for name, value in row.items() if name.startswith("source.")}
    failure = None
    if row["status"] == "failed":
        failure = Failure(row["failure.kind"], row["failure.message"], row["failure.node"])
    return Result(Row(row["row"], row["id"], source), tuple(outputs), failure, abstained=row["status"] == "abstained")
