"""The judge of the endpoints: the active pipeline, its reload, rows judged within a deadline, the counters of `/metrics`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from time import perf_counter
from typing import Any, Literal

from msgspec import Struct, field
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
    Problem,
    Refused,
    RowError,
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
from verdict_cli.messages import Call, Failure, JsonObject, NamedValues, Result, Row, Usage
from verdict_cli.plan.node import Plan
from verdict_cli.plan.row_types import cell_value
from verdict_cli.plural import plural
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.observer import RunObserver
from verdict_cli.run.outcome import compile_reward, outcome
from verdict_cli.storage.datasets.dataset import rename_columns

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of the server. They do not include those of the process."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        self._requests = counter("verdict_requests", "Requests.", ["endpoint", "status"])
        self._seconds = Histogram(
            "verdict_request_seconds",
            "Time from a request to its response.",
            ["endpoint"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._rows = counter("verdict_rows", "Rows judged.", ["status"])
        self._failures = counter("verdict_failures", "Rows that failed, by kind.", ["kind"])
        self._shed = counter("verdict_shed", "Rejected requests.", ["status"])
        self._calls = counter("verdict_model_calls", "Model calls.", ["model", "outcome"])
        self._tokens = counter("verdict_tokens", "Tokens of model calls.", ["model", "kind"])
        cost = "Cost of model calls in US dollars, where the price is known."
        self._cost = counter("verdict_cost_usd", cost, ["model"])
        self._reloads = counter("verdict_reloads", "Reloads of the pipeline.", ["outcome"])
        self._pipeline = Gauge(
            "verdict_pipeline_info",
            "The active pipeline.",
            ["name", "fingerprint"],
            registry=self._registry,
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
            is_cached = reply is not None and reply.cached
            self._calls.labels(model, call.failure or ("cached" if is_cached else "ok")).inc()
            if reply is not None and not is_cached:
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
    drain_s: float = 30.0


class ServeSettings(Struct, frozen=True):
    """The options of `verdict serve`.

    ``policy`` sets the response to a failed judgement: an error (``closed``), or status 200 with the failure (``open``).
    ``accept`` is an expression over the outcome.
    """

    limits: Limits = Limits()
    access_policy: AccessPolicy = field(default_factory=AccessPolicy)
    policy: Policy = "closed"
    accept: str | None = None
    seed: int = 0


class ActivePipeline(Struct, frozen=True):
    """The pipeline that judges rows."""

    plan: Plan
    session: JudgeSession
    accept: Callable[[Result], Any] | None
    columns: Mapping[str, str]

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of what a verdict has."""
        return tuple(self.plan.nodes[self.plan.outputs[-1]].output.fields)

    def row(self, values: NamedValues, index: int = 0) -> Row:
        """Check the values and return the row. DataError if it does not fit the pipeline, or if an image is a local file."""
        types = self.plan.row_types
        columns = {**values, **rename_columns(self.columns, values)}
        path = None if types is None else _local_image(types, columns)
        if path is not None:
            name = path.removeprefix(".")
            message = f"the column {name!r} is not an http:, https: or data: URL of an image"
            raise DataError(Problem("schema", message, "the server does not read local files"))
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
    """The outcome of a row as a document, the HTTP status if it is the only row of a request, and the tokens of its calls."""

    status: int
    document: JsonObject
    usage: Usage = Usage()


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
            "Cost of all calls, as far as known.",
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
        columns = (plan.resolved.get("dataset") or {}).get("columns") or {}
        session = await JudgeSession(
            plan, self.client, seed=settings.seed, observer=self._observer
        ).open()
        self._active = ActivePipeline(plan, session, accept, columns)
        self.metrics.set_pipeline(plan.name, plan.fingerprint)

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

    async def judge_row(self, values: NamedValues, until: float) -> ServiceAnswer:
        """Judge a row. One that is not done by the deadline fails with `deadline`.

        Raises DataError for a row that does not fit the pipeline, and Overloaded if there are too many.
        """
        pipeline = self.active
        row = pipeline.row(values)
        with self.admission.admit(1):
            started = perf_counter()
            result, status = await self._result(pipeline, row, until)
            took_s = perf_counter() - started
        self.metrics.count_row(result.failure, result.calls)
        accepted: bool | None = None
        if result.status == "ok":
            try:
                accepted = pipeline.is_accepted(result)
            except RowError as error:
                result = replace(result, failure=Failure(error.failure, error.message, ""))
        is_open = self.settings.policy == "open"
        document = outcome(pipeline.plan, result)
        if pipeline.accept is not None:
            document["accepted"] = accepted if result.status == "ok" else is_open
        document["latency_s"] = took_s
        if is_open or document["status"] != "failed":
            status = 200
        return ServiceAnswer(status, document, paid_usage([result]))

    async def results(self, values: Sequence[NamedValues], until: float) -> list[Result]:
        """The results of rows, for decisions. Raises what `judge_row` does."""
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


def paid_usage(results: Iterable[Result]) -> Usage:
    """The tokens of the calls that were made, without replies that were there already."""
    total = Usage()
    for result in results:
        for call in result.calls:
            if call.reply is not None and not call.reply.cached:
                total = total.plus(call.reply.usage)
    return total


def _local_image(kind: FieldType, value: Any) -> str | None:
    """The path of the first image, at any depth, that is a local file; None if there is none."""
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
