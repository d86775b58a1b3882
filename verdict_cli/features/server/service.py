"""The judge of the endpoints: the active pipeline, its reload, rows judged within a deadline, the counters of `/metrics`; and
batches: rows that are stored, acknowledged, and judged in the background, each as a run in its own directory.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import orjson
from msgspec import Struct, field, structs
from msgspec.structs import replace
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from verdict_cli.errors import (
    BudgetError,
    DataError,
    JournalError,
    Problem,
    Refused,
    RowError,
    UsageError,
    VerdictError,
)
from verdict_cli.features.guard.middleware import AccessPolicy
from verdict_cli.language.fields.types import (
    FieldType,
    ImageType,
    ListType,
    RecordType,
    is_image_url,
    without_null,
)
from verdict_cli.language.load import load
from verdict_cli.messages import Call, Failure, Result, Row
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.levels import from_lists
from verdict_cli.plan.node import Plan
from verdict_cli.plan.row_types import cell_value
from verdict_cli.plural import plural
from verdict_cli.report.write_report import write_report
from verdict_cli.run.job import RunOptions, Stop
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.load_run import RunResult
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.observer import RunObserver
from verdict_cli.run.outcome import Reward, compile_reward, outcome, reward_of
from verdict_cli.run.preflight import load_recording
from verdict_cli.run.progress import Progress
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.session import open_run
from verdict_cli.storage.datasets.dataset import Dataset, rename_columns
from verdict_cli.storage.datasets.read import scan
from verdict_cli.storage.file_lock import lock_file
from verdict_cli.storage.tables.reader import read_table

if TYPE_CHECKING:
    from verdict_cli.features.rewards.trainer_rewards import TrainerProtocol, TrainerRewards


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of the server. They do not include those of the process."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        registry = self._registry
        self._requests = Counter(
            "verdict_requests", "Requests.", ["endpoint", "status"], registry=registry
        )
        self._seconds = Histogram(
            "verdict_request_seconds",
            "Time from a request to its response.",
            ["endpoint"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._rows = Counter("verdict_rows", "Rows judged.", ["status"], registry=registry)
        self._failures = Counter(
            "verdict_failures", "Rows that failed, by kind.", ["kind"], registry=registry
        )
        self._shed = Counter("verdict_shed", "Rejected requests.", ["status"], registry=registry)
        self._calls = Counter(
            "verdict_model_calls", "Model calls.", ["model", "outcome"], registry=registry
        )
        self._tokens = Counter(
            "verdict_tokens", "Tokens of model calls.", ["model", "kind"], registry=registry
        )
        self._cost = Counter(
            "verdict_cost_usd",
            "Cost of model calls in US dollars, where the price is known.",
            ["model"],
            registry=registry,
        )
        self._reloads = Counter(
            "verdict_reloads", "Reloads of the pipeline.", ["outcome"], registry=registry
        )
        self._pipeline = Gauge(
            "verdict_pipeline_info",
            "The active pipeline.",
            ["name", "fingerprint"],
            registry=registry,
        )

    def gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a gauge whose value is read on each scrape."""
        Gauge(name, description, registry=self._registry).set_function(value)

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        self._requests.labels(endpoint, status).inc()
        self._seconds.labels(endpoint).observe(seconds)
        if status in (413, 429, 503):
            self._shed.labels(status).inc()

    def count_row(self, failure: Failure | None, calls: tuple[Call, ...]) -> None:
        """Count a judged row and its calls."""
        self._rows.labels("ok" if failure is None else "failed").inc()
        if failure is not None:
            self._failures.labels(failure.kind).inc()
        for call in calls:
            model, reply = call.request.model.name, call.reply
            self._calls.labels(
                model, call.failure or ("cached" if reply and reply.cached else "ok")
            ).inc()
            if reply is not None and not reply.cached:
                self._tokens.labels(model, "prompt").inc(reply.usage.prompt_tokens)
                self._tokens.labels(model, "completion").inc(reply.usage.completion_tokens)
                self._cost.labels(model).inc(reply.cost_usd or 0.0)

    def set_pipeline(self, name: str, fingerprint: str) -> None:
        """Set the active pipeline."""
        self._pipeline.clear()
        self._pipeline.labels(name, fingerprint).set(1)

    def count_reload(self, outcome: str) -> None:
        """Count a reload; the outcome is `ok` or `refused`."""
        self._reloads.labels(outcome).inc()

    def text(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self._registry)


_MOST_RETRY_AFTER_S = 60
_NEWEST_WEIGHT = 0.1
"""The weight of the latest row in the moving average of the time per row."""


class Overloaded(Exception):
    """Work is rejected. ``status``: 429 for a full queue, 413 for more rows than ever fit, 503 for a server that stops."""

    def __init__(self, status: int, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s


class Admission:
    """Counts ``admitted`` rows, and those being judged (``judging``)."""

    def __init__(self, in_flight: int, queue: int) -> None:
        self.admitted = 0
        self.judging = 0
        self.closed = False
        self._capacity = in_flight + queue
        self._in_flight = in_flight
        self._slots = asyncio.Semaphore(in_flight)
        self._mean_s = 0.0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """Admitted rows that wait for a slot."""
        return self.admitted - self.judging

    @contextmanager
    def admit(self, rows: int) -> Iterator[None]:
        """Admit the rows for the duration of the context. Raises Overloaded."""
        if self.closed:
            raise Overloaded(503, "the server is stopping", 1)
        if rows > self._capacity:
            raise Overloaded(
                413,
                f"{plural(rows, 'row exceeds|rows exceed')} the {self._capacity} that the server admits",
            )
        if self.admitted + rows > self._capacity:
            raise Overloaded(
                429,
                f"{self.admitted} of at most {plural(self._capacity, 'row is|rows are')} in progress",
                self._retry_after_s(),
            )
        self.admitted += rows
        self._idle.clear()
        try:
            yield
        finally:
            self.admitted -= rows
            if not self.admitted:
                self._idle.set()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot, in order of arrival, and hold it while a row is judged."""
        async with self._slots:
            self.judging += 1
            started = perf_counter()
            try:
                yield
            finally:
                self.judging -= 1
                self._mean_s += _NEWEST_WEIGHT * (perf_counter() - started - self._mean_s)

    async def drain(self) -> None:
        """Admit nothing more, and return when all admitted rows are done."""
        self.closed = True
        await self._idle.wait()

    def _retry_after_s(self) -> int:
        """Estimated seconds until the rows that wait now are judged."""
        return max(
            1, min(_MOST_RETRY_AFTER_S, math.ceil(self._mean_s * self.waiting / self._in_flight))
        )


Policy = Literal["closed", "open"]
PlanLoader = Callable[[], Plan]
"""Reads and checks the pipeline file. Raises VerdictError."""


class Limits(Struct, frozen=True):
    """How much work is accepted. A request counts as its rows. More than ``in_flight`` + ``queue`` rows are rejected.

    ``deadline_s`` limits every request, also if it sets a longer deadline; ``drain_s`` limits the wait of a shutdown.
    """

    in_flight: int = 64
    queue: int = 256
    deadline_s: float = 30.0
    body_bytes: int = 8 * 2**20
    batches: int = 100
    drain_s: float = 30.0


class ServeSettings(Struct, frozen=True):
    """The options of `verdict serve`.

    ``policy`` sets the response to a failed judgement: an error (``closed``), or status 200 with the failure (``open``).
    ``accept`` and ``reward`` are expressions over the outcome; ``state`` is the directory of batches. ``protocol`` adds the
    endpoint of a trainer, with the ``criteria`` by name.
    """

    limits: Limits = Limits()
    access_policy: AccessPolicy = field(default_factory=AccessPolicy)
    policy: Policy = "closed"
    accept: str | None = None
    reward: str | None = None
    seed: int = 0
    state: Path = Path("runs/serve")
    replay: Path | None = None
    protocol: TrainerProtocol | None = None
    criteria: Mapping[str, str] = field(default_factory=dict)


class ActivePipeline(Struct, frozen=True):
    """The pipeline that judges rows. ``reward`` is a UsageError if the pipeline gives no number."""

    plan: Plan
    session: JudgeSession
    reward: Reward | UsageError
    accept: Callable[[Result], Any] | None
    columns: Mapping[str, str]
    trainer: TrainerRewards | None = None

    def row(self, values: Mapping[str, Any], index: int = 0) -> Row:
        """Check the values and return the row. DataError if it does not fit the pipeline, or if an image is a local file."""
        types = self.plan.row_types
        column = (
            None
            if types is None
            else _local_image_column(types, {**values, **rename_columns(self.columns, values)})
        )
        if column is not None:
            raise DataError(
                Problem(
                    "schema",
                    f"the column {column!r} is not an http:, https: or data: URL of an image",
                    "the server does not read local files",
                )
            )
        return self.session.row(values, index)

    def is_accepted(self, result: Result) -> bool | None:
        """Whether the outcome meets `--accept`; None without that option. Raises RowError."""
        if self.accept is None:
            return None
        value = self.accept(result)
        if not isinstance(value, bool):
            raise RowError(
                f"`--accept` returned {value!r:.80}, expected true or false", kind="no-answer"
            )
        return value


class ServiceAnswer(Struct, frozen=True):
    """The outcome of a row as a document, and the HTTP status if it is the only row of a request."""

    status: int
    document: dict[str, Any]
    reward: float | None = None


class Service:
    """Judges rows for all endpoints, in one event loop."""

    def __init__(
        self, settings: ServeSettings, client: ModelClient, load: PlanLoader, observer: RunObserver
    ) -> None:
        self.settings = settings
        self.client = client
        self.metrics = Metrics()
        self.admission = Admission(settings.limits.in_flight, settings.limits.queue)
        self._active: ActivePipeline | None = None
        self.reload_error = ""
        self._load = load
        self._observer = observer
        self._reloading = asyncio.Lock()
        self.metrics.gauge(
            "verdict_spent_usd",
            "Cost of all calls, including those of batches, as far as known.",
            lambda: self.client.spending.spent_usd,
        )
        self.metrics.gauge(
            "verdict_rows_judging", "Rows being judged.", lambda: self.admission.judging
        )
        self.metrics.gauge(
            "verdict_rows_waiting", "Rows waiting to be judged.", lambda: self.admission.waiting
        )

    @property
    def active(self) -> ActivePipeline:
        """The pipeline that judges rows."""
        assert self._active is not None
        return self._active

    @property
    def ready(self) -> bool:
        """Whether rows are accepted."""
        return self._active is not None and not self.admission.closed

    async def open(self, plan: Plan) -> None:
        """Call the pinned units of the plan, then make it the active one. Raises UsageError, PinnedError and Refused."""
        settings = self.settings
        accept = (
            None if settings.accept is None else compile_reward(plan, settings.accept, "--accept")
        )
        reward: Reward | UsageError
        try:
            reward = reward_of(plan, settings.reward)
        except UsageError as error:
            if settings.reward is not None:
                raise
            reward = error
        columns = (plan.resolved.get("dataset") or {}).get("columns") or {}
        session = await JudgeSession(
            plan, self.client, seed=settings.seed, observer=self._observer
        ).open()
        self._active = ActivePipeline(plan, session, reward, accept, columns, self._trainer(plan))
        self.metrics.set_pipeline(plan.name, plan.fingerprint)

    def _trainer(self, plan: Plan) -> TrainerRewards | None:
        if self.settings.protocol is None:
            return None
        from verdict_cli.features.rewards.trainer_rewards import TrainerRewards

        return TrainerRewards.of(
            plan, self.settings.reward, self.settings.criteria, self.settings.seed
        )

    async def reload(self) -> tuple[str, str]:
        """Reload the pipeline file. Returns the fingerprints before and after; on VerdictError the active pipeline stays."""
        async with self._reloading:
            before = self.active.plan.fingerprint
            try:
                await self.open(await asyncio.to_thread(self._load))
            except VerdictError as error:
                self.reload_error = str(error)
                self.metrics.count_reload("refused")
                raise
            self.reload_error = ""
            self.metrics.count_reload("ok")
            return before, self.active.plan.fingerprint

    def deadline(self, requested_s: float | None) -> float:
        """The deadline of a request that arrives now, on the clock of the event loop."""
        limit_s = self.settings.limits.deadline_s
        return asyncio.get_running_loop().time() + (
            limit_s if requested_s is None else min(requested_s, limit_s)
        )

    async def judge_rows(
        self, values: Sequence[Mapping[str, Any]], until: float
    ) -> list[ServiceAnswer]:
        """Judge rows. A row that is not done by the deadline fails with `deadline`.

        Raises DataError before any row is judged, and Overloaded if there are too many.
        """
        pipeline = self.active
        rows = [pipeline.row(columns, index) for index, columns in enumerate(values)]
        with self.admission.admit(len(rows)):
            if len(rows) == 1:
                return [await self._judge_row(pipeline, rows[0], until)]
            return list(
                await asyncio.gather(*(self._judge_row(pipeline, row, until) for row in rows))
            )

    async def results(self, values: Sequence[Mapping[str, Any]], until: float) -> list[Result]:
        """The results of rows, for trainers. Raises what `judge_rows` does."""
        pipeline = self.active
        rows = [pipeline.row(columns, index) for index, columns in enumerate(values)]
        with self.admission.admit(len(rows)):
            judged = await asyncio.gather(*(self._result(pipeline, row, until) for row in rows))
        for result, _ in judged:
            self.metrics.count_row(result.failure, result.calls)
        return [result for result, _ in judged]

    async def _result(self, pipeline: ActivePipeline, row: Row, until: float) -> tuple[Result, int]:
        """The row's result, and the status of a response to it alone if it failed."""
        no_outputs = tuple(None for _ in pipeline.plan.nodes)
        status = 502
        try:
            async with asyncio.timeout_at(until), self.admission.slot():
                result = await pipeline.session.judge(row)
        except TimeoutError:
            status = 504
            result = Result(row, no_outputs, Failure("deadline", "the deadline passed", ""))
        except BudgetError as error:
            status = 503
            result = Result(row, no_outputs, Failure(error.kind, error.message, ""))
        except Refused as error:
            result = Result(row, no_outputs, Failure(error.failure, error.message, ""))
        return result, status

    async def _judge_row(self, pipeline: ActivePipeline, row: Row, until: float) -> ServiceAnswer:
        started = perf_counter()
        result, status = await self._result(pipeline, row, until)
        answer = self.answer(pipeline, result)
        answer.document["latency_s"] = perf_counter() - started
        self.metrics.count_row(result.failure, result.calls)
        if answer.document["status"] != "failed" or self.settings.policy == "open":
            return answer
        return replace(answer, status=status)

    def answer(self, pipeline: ActivePipeline, result: Result) -> ServiceAnswer:
        """The outcome as a document, with `accepted` if the server has --accept, and the reward if there is one."""
        accepted: bool | None = None
        reward = None
        if result.status == "ok":
            try:
                accepted = pipeline.is_accepted(result)
            except RowError as error:
                result = structs.replace(result, failure=Failure(error.failure, error.message, ""))
        if result.status == "ok" and not isinstance(pipeline.reward, UsageError):
            try:
                reward = pipeline.reward(result)
            except RowError:
                reward = None
        document = outcome(pipeline.plan, result)
        if pipeline.accept is not None:
            document["accepted"] = (
                self.settings.policy == "open" if result.status != "ok" else accepted
            )
        return ServiceAnswer(200, document, reward)


def _local_image_column(types: RecordType, values: Mapping[str, Any]) -> str | None:
    """The path of the first image column, at any depth, whose value is a local file; None if there is none."""
    inside = _local_image(types, values)
    return None if inside is None else inside.removeprefix(".")


def _local_image(kind: FieldType, value: Any) -> str | None:
    kind, value = without_null(kind), cell_value(value, kind)
    parts: Iterable[tuple[str, FieldType, Any]] = ()
    if isinstance(kind, RecordType) and isinstance(value, Mapping):
        parts = ((f".{name}", inner, value.get(name)) for name, inner in kind.fields.items())
    elif isinstance(kind, ListType) and isinstance(value, list | tuple):
        parts = ((f"[{index}]", kind.item, entry) for index, entry in enumerate(value))
    elif isinstance(kind, ImageType) and isinstance(value, str) and not is_image_url(value):
        return ""
    for part, inner, entry in parts:
        inside = _local_image(inner, entry)
        if inside is not None:
            return part + inside
    return None


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
        service.metrics.gauge(
            "verdict_batches_left", "Unfinished batches.", lambda: len(self._unfinished)
        )

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
        await asyncio.to_thread(
            _store_batch, self._folder / name, pipeline.plan, checked, self._service.settings
        )
        self._enqueue(name)
        return self.state(name)

    def state(self, name: str) -> dict[str, Any]:
        """`{"id", "status", "rows", "done", "failed", "cost_usd", "left_s", "error"}`; `left_s` are the seconds that a running
        batch will still take. KeyError if there is no such batch."""
        path = self._path(name)
        facts = RunDirectory(path).facts()
        state: dict[str, Any] = {
            "id": name,
            "status": "accepted",
            "rows": _read(path)["rows"],
            "error": None,
        }
        state |= {"done": 0, "failed": 0, "cost_usd": 0.0, "left_s": None}
        progress = self._progress.get(name)
        if facts is not None and facts.status == "finished":
            state |= {
                "status": "finished",
                "done": facts.done,
                "failed": facts.failed,
                "cost_usd": facts.cost_usd,
            }
        elif progress is not None:
            state |= {
                "done": progress.done,
                "failed": progress.failed,
                "cost_usd": progress.cost_usd,
            }
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
            _logger.warning(
                "the report of %s could not be written: %s", result.directory.path, error
            )

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
        document = (
            self._service.answer(active, result).document
            if plan is active.plan
            else outcome(plan, result)
        )
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
            raise UsageError(
                f"{self._folder} is in use by another server",
                hint="give this server its own --state",
            )
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
    source = {
        name.removeprefix("source."): value
        for name, value in row.items()
        if name.startswith("source.")
    }
    failure = None
    if row["status"] == "failed":
        failure = Failure(row["failure.kind"], row["failure.message"], row["failure.node"])
    return Result(
        Row(row["row"], row["id"], source),
        tuple(outputs),
        failure,
        abstained=row["status"] == "abstained",
    )
