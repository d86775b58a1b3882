"""The judge behind the endpoints: the pipeline that is loaded, its replacement, and rows judged within a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from msgspec import structs

from verdict_cli.errors import BudgetError, DataError, Problem, Refused, RowError, UsageError, VerdictError
from verdict_cli.http.api.admission import Admission
from verdict_cli.http.api.prometheus import Metrics
from verdict_cli.http.api.settings import Load, ServeSettings
from verdict_cli.language.fields.image import ImageType, is_image_url
from verdict_cli.language.fields.types import RecordType
from verdict_cli.llm.tracing import Spans
from verdict_cli.messages import Failure, Result, Row
from verdict_cli.plan.node import Plan
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.outcome import outcome
from verdict_cli.run.reward import Reward, compile_reward, reward_of
from verdict_cli.storage.datasets.dataset import rename_columns


@dataclass(frozen=True)
class ActivePipeline:
    """A pipeline that answers; ``reward`` is a UsageError where it gives no number."""

    plan: Plan
    warm: JudgeSession
    reward: Reward | UsageError
    accept: Callable[[Result], Any] | None
    columns: Mapping[str, str]

    def row(self, given: Mapping[str, Any], index: int = 0) -> Row:
        """The row. DataError for one that the pipeline cannot take, and for a picture that is a file of this machine."""
        types = self.plan.row_types
        column = None if types is None else _named_file(types, {**given, **rename_columns(self.columns, given)})
        if column is not None:
            raise DataError(
                Problem(
                    "schema",
                    f"the column {column!r} is to be a picture's http:, https: or data: URL",
                    "a server reads no files",
                )
            )
        return self.warm.row(given, index)

    def accepted(self, result: Result) -> bool | None:
        """Whether the outcome passes `--accept`; None where there is no such rule."""
        if self.accept is None:
            return None
        value = self.accept(result)
        if not isinstance(value, bool):
            raise RowError(f"`--accept` gave {value!r:.80}, expected true or false", kind="no-answer")
        return value


@dataclass(frozen=True)
class ServiceAnswer:
    """What one row is answered, and the status of a request for it alone."""

    status: int
    document: dict[str, Any]
    reward: float | None = None


class Service:
    """Judges rows for all endpoints, in one event loop."""

    def __init__(self, settings: ServeSettings, access: ModelClient, load: Load, spans: Spans) -> None:
        self.settings = settings
        self.access = access
        self.metrics = Metrics()
        self.admission = Admission(settings.limits.in_flight, settings.limits.queue)
        self.loaded: ActivePipeline | None = None
        self.trouble = ""
        self._load = load
        self._spans = spans
        self._reloading = asyncio.Lock()
        self.metrics.gauge(
            "verdict_spent_usd",
            "What all calls cost, those of batches too, as far as it is known.",
            lambda: self.access.spending.spent_usd,
        )
        self.metrics.gauge("verdict_rows_judging", "Rows that are judged now.", lambda: self.admission.judging)
        self.metrics.gauge("verdict_rows_waiting", "Rows that wait for a place.", lambda: self.admission.waiting)

    @property
    def now(self) -> ActivePipeline:
        """The pipeline that answers."""
        assert self.loaded is not None
        return self.loaded

    @property
    def ready(self) -> bool:
        """Whether rows are taken on."""
        return self.loaded is not None and not self.admission.closed

    async def open(self, plan: Plan) -> None:
        """Makes the plan the one that answers, once its pinned units are asked. UsageError, PinnedError, Refused."""
        settings = self.settings
        accept = None if settings.accept is None else compile_reward(plan, settings.accept, "--accept")
        reward: Reward | UsageError
        try:
            reward = reward_of(plan, settings.reward)
        except UsageError as error:
            if settings.reward is not None:
                raise
            reward = error
        columns = (plan.resolved.get("dataset") or {}).get("columns") or {}
        warm = await JudgeSession(plan, self.access, seed=settings.seed, spans=self._spans).open()
        self.loaded = ActivePipeline(plan, warm, reward, accept, columns)
        self.metrics.loaded(plan.name, plan.fingerprint)

    async def reload(self) -> tuple[str, str]:
        """Reads the pipeline anew: the fingerprints before and after. Raises what is wrong with it, and the old one stays."""
        async with self._reloading:
            before = self.now.plan.fingerprint
            try:
                await self.open(await asyncio.to_thread(self._load))
            except VerdictError as error:
                self.trouble = str(error)
                self.metrics.reloaded("refused")
                raise
            self.trouble = ""
            self.metrics.reloaded("ok")
            return before, self.now.plan.fingerprint

    def deadline(self, asked_s: float | None) -> float:
        """The moment, on the loop's clock, until which a request that arrives now is answered."""
        most = self.settings.limits.deadline_s
        return asyncio.get_running_loop().time() + (most if asked_s is None else min(asked_s, most))

    async def answers(self, given: Sequence[Mapping[str, Any]], until: float) -> list[ServiceAnswer]:
        """The rows' answers in order, each failed with `deadline` where it was not ready in time. DataError before any is
        judged, Shed when they are too many."""
        loaded = self.now
        rows = [loaded.row(one, place) for place, one in enumerate(given)]
        with self.admission.entered(len(rows)):
            if len(rows) == 1:
                return [await self._answer(loaded, rows[0], until)]
            return list(await asyncio.gather(*(self._answer(loaded, row, until) for row in rows)))

    async def _answer(self, loaded: ActivePipeline, row: Row, until: float) -> ServiceAnswer:
        started = perf_counter()
        nothing = tuple(None for _ in loaded.plan.nodes)
        status = 502
        try:
            async with asyncio.timeout_at(until), self.admission.place():
                result = await loaded.warm.judge(row)
        except TimeoutError:
            status = 504
            result = Result(row, nothing, Failure("deadline", "the deadline is over", ""))
        except BudgetError as error:
            status = 503
            result = Result(row, nothing, Failure(error.kind, error.message, ""))
        except Refused as error:
            result = Result(row, nothing, Failure(error.failure, error.message, ""))
        answer = self.described(loaded, result)
        answer.document["latency_s"] = perf_counter() - started
        self.metrics.judged(result.failure, result.calls)
        if answer.document["status"] != "failed" or self.settings.policy == "open":
            return answer
        return replace(answer, status=status)

    def described(self, loaded: ActivePipeline, result: Result) -> ServiceAnswer:
        """The outcome as a document, with `accepted` where there is a rule, and its reward where it has one."""
        accepted: bool | None = None
        reward = None
        if result.status == "ok":
            try:
                accepted = loaded.accepted(result)
            except RowError as error:
                result = structs.replace(result, failure=Failure(error.failure, error.message, ""))
        if result.status == "ok" and not isinstance(loaded.reward, UsageError):
            try:
                reward = loaded.reward(result)
            except RowError:
                reward = None
        document = outcome(loaded.plan, result)
        if loaded.accept is not None:
            document["accepted"] = self.settings.policy == "open" if result.status != "ok" else accepted
        return ServiceAnswer(200, document, reward)


def _named_file(types: RecordType, values: Mapping[str, Any]) -> str | None:
    """The name of the first picture, at any depth, that is given as a path; None where there is none."""
    for name, kind in types.fields.items():
        value = values.get(name)
        if isinstance(kind, RecordType) and isinstance(value, Mapping):
            inner = _named_file(kind, value)
            if inner is not None:
                return f"{name}.{inner}"
        elif isinstance(kind, ImageType) and isinstance(value, str) and not is_image_url(value):
            return name
    return None
