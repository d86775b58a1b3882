"""`Judge`: a pipeline that stays ready, called row by row from anywhere."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import CancelledError, Future
from functools import partial
from html import escape
from pathlib import Path
from threading import Lock, Thread, get_ident
from types import TracebackType
from typing import Any, Literal, TypeVar

from msgspec import Struct

from verdict_cli.config_model import checked_arguments
from verdict_cli.errors import RowError, UsageError
from verdict_cli.language.authoring.arguments import ModelLike, optional_path
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.messages import NamedValues, Result
from verdict_cli.plan.node import Plan
from verdict_cli.python.judged import Judged, judged_or_raise, row_values
from verdict_cli.python.pipeline import Pipeline
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.outcome import reward_of
from verdict_cli.run.preflight import open_cache, open_recording

T = TypeVar("T")


class JudgeConfig(Struct, frozen=True):
    """Settings of a judge."""

    plan: Plan
    seed: int
    concurrency: int
    recording: Recording | None
    budget_usd: float | None
    cache: bool


class BackgroundJudge:
    """The loop and its judge, which the first call opens."""

    def __init__(self, config: JudgeConfig) -> None:
        self._config = config
        self._pid = os.getpid()
        self._loop = (loop_factory() or asyncio.new_event_loop)()
        self._opening = asyncio.Lock()
        self._session: JudgeSession | None = None
        self._store: CacheStore | None = None
        self._thread = Thread(target=self._loop.run_forever, name="verdict-judge", daemon=True)
        self._thread.start()

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the one that has the thread."""
        return self._pid != os.getpid()

    def wait(self, work: Callable[[JudgeSession], Coroutine[Any, Any, T]]) -> T:
        """The result of the work, waiting in this thread."""
        if get_ident() == self._thread.ident:
            raise UsageError(
                "a judge cannot wait for itself within its own pipeline",
                hint="call another Judge in the function",
            )
        future = self._start(work)
        try:
            return future.result()
        except CancelledError:
            raise _closed_error() from None
        except BaseException:
            future.cancel()
            raise

    async def wait_async(self, work: Callable[[JudgeSession], Coroutine[Any, Any, T]]) -> T:
        """The work's result, awaited in the running loop."""
        future = self._start(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if future.cancelled() and not (task is not None and task.cancelling()):
                raise _closed_error() from None
            raise

    def stop(self) -> None:
        """Stop the loop and its judge. Does nothing when stopped already, or in a forked process."""
        if self.is_forked or self._loop.is_closed():
            return
        if get_ident() == self._thread.ident:  # the garbage collector may call from anywhere
            self._closing = self._loop.create_task(self._close_and_stop())
            return
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _start(self, work: Callable[[JudgeSession], Coroutine[Any, Any, T]]) -> Future[T]:
        async def go() -> T:
            return await work(await self._open_session())

        return asyncio.run_coroutine_threadsafe(go(), self._loop)

    async def _open_session(self) -> JudgeSession:
        if self._session is not None:
            return self._session
        async with self._opening:
            if (
                self._session is None
            ):  # another call may have opened it while this one waited for the lock
                config = self._config
                if config.cache and self._store is None:
                    self._store = open_cache(config.plan)
                client = ModelClient.open(
                    concurrency=config.concurrency,
                    recording=config.recording,
                    budget_usd=config.budget_usd,
                    store=self._store,
                )
                try:
                    self._session = await JudgeSession(config.plan, client, seed=config.seed).open()
                except BaseException:
                    await client.close()
                    raise
        return self._session

    async def _close_and_stop(self) -> None:
        await self._close()
        self._loop.stop()

    async def _close(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.client.close()
        if self._store is not None:
            self._store.close()


def _closed_error() -> UsageError:
    return UsageError(
        "the judge was closed before it answered", hint="close it once all calls are back"
    )


NAN = float("nan")


class Judge:
    """A compound judge that stays ready: `judge(row)` in any thread, `await judge.acall(row)` in any event loop.

    All calls run in one event loop in a thread of the judge's own, so that they share connections, limits, the budget and
    the cache. `close`, or leaving `with`, ends it. A forked process gets a loop of its own.
    """

    @checked_arguments
    def __init__(
        self,
        pipeline: Pipeline,
        *,
        model: ModelLike | None = None,
        replay: str | Path | None = None,
        seed: int = 0,
        concurrency: int = 64,
        budget: float | None = None,
        cache: bool = False,
        reward: str | None = None,
    ) -> None:
        """Checks everything that needs no row: SpecError, or Refused for a model that cannot answer.

        ``budget`` in US dollars ends in BudgetError; ``cache`` shares replies with other runs; ``reward`` is the
        expression whose value `reward` gives, such as `output.score / 5`.
        """
        if not isinstance(pipeline, Pipeline):
            raise UsageError(
                f"Judge takes a Pipeline, not {pipeline!r:.80}",
                hint="`Judge(Pipeline('p') >> unit)`",
            )
        if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
            raise UsageError(
                f"concurrency is {concurrency!r}, expected a whole number of at least 1"
            )
        is_number = isinstance(budget, int | float) and budget >= 0
        if budget is not None and not is_number:  # NaN would never be spent
            raise UsageError(f"budget is {budget!r}, expected US dollars, such as 0.5")
        self._pipeline = pipeline
        self._make = partial(
            type(self),
            model=model,
            replay=replay,
            seed=seed,
            concurrency=concurrency,
            budget=budget,
            cache=cache,
            reward=reward,
        )
        plan = pipeline.plan(model)
        recording = open_recording(optional_path("replay", replay), plan, priced=budget is not None)
        self._plan = plan
        self._reward = None if reward is None else reward_of(plan, reward)
        self._config = JudgeConfig(
            plan, seed, concurrency, recording, budget, cache and recording is None
        )
        self._concurrency = concurrency
        self._lock = Lock()
        self._background: BackgroundJudge | None = None
        self._closed = False

    @classmethod
    def from_yaml(cls, source: str | Path, **options: Any) -> Judge:
        """The judge of a pipeline file, or of a YAML text (a string of several lines); options as for `Judge`."""
        return cls(Pipeline.from_yaml(source), **options)

    def __call__(self, row: NamedValues) -> Judged:
        """The pipeline's output for the row. Raises its failure: ReplyError, Retryable, Rejected, RowError; and
        DataError for a row that lacks a column, Refused, BudgetError, PinnedError."""
        values = row_values(row)
        return judged_or_raise(
            self._plan,
            self._open_background().wait(lambda session: session.judge(session.row(values))),
        )

    async def acall(self, row: NamedValues) -> Judged:
        """The same, awaited in the running event loop. Cancelling it ends the model calls."""
        values = row_values(row)
        return judged_or_raise(
            self._plan,
            await self._open_background().wait_async(
                lambda session: session.judge(session.row(values))
            ),
        )

    def reward(
        self, rows: Iterable[NamedValues], *, failures: Literal["raise", "nan"] = "raise"
    ) -> list[float]:
        """One number per row, in the rows' order; rows are judged concurrently.

        The number is that of the expression ``reward``, else what the last step gives: `score`, or its only field; a
        value of a scale counts as its number, a distribution as its expectation. A row that fails raises its failure,
        and the rows not yet judged are left; with `failures="nan"` its number is NaN, and so is that of a row without
        a verdict.
        """
        number, all_rows = self._number_of(failures), [row_values(row) for row in rows]
        return self._open_background().wait(
            lambda session: session.judge_all(all_rows, number, self._concurrency)
        )

    async def areward(
        self, rows: Iterable[NamedValues], *, failures: Literal["raise", "nan"] = "raise"
    ) -> list[float]:
        """The same, awaited in the running event loop."""
        number, all_rows = self._number_of(failures), [row_values(row) for row in rows]
        return await self._open_background().wait_async(
            lambda session: session.judge_all(all_rows, number, self._concurrency)
        )

    def close(self) -> None:
        """Ends the judge's event loop; calls in progress raise UsageError. May be called twice."""
        with self._lock:
            self._closed = True
            background, self._background = self._background, None
        if background is not None:
            background.stop()

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is a new judge of the same pipeline: a loop, a budget and connections of its own."""
        return self._make, (self._pipeline,)

    def _repr_html_(self) -> str:
        from verdict_cli.report.plan_graph import as_tree

        return f"<pre>{escape(as_tree(self._plan))}</pre>"

    def __repr__(self) -> str:
        return f"Judge({self._plan.name!r})"

    def _open_background(self) -> BackgroundJudge:
        with self._lock:
            if self._closed:
                raise UsageError("the judge is closed", hint="make a new one")
            if self._background is None or self._background.is_forked:
                self._background = BackgroundJudge(self._config)
                weakref.finalize(self, self._background.stop)
            return self._background

    def _number_of(self, failures: str) -> Callable[[Result], float]:
        """What turns an outcome into its number."""
        if failures not in ("raise", "nan"):
            raise UsageError(f"failures is {failures!r}", hint='it is "raise" or "nan"')
        reward = self._reward = self._reward or reward_of(self._plan)

        def number(result: Result) -> float:
            if failures == "raise":
                judged_or_raise(self._plan, result)
                return reward(result)
            try:
                return NAN if result.status != "ok" else reward(result)
            except RowError:
                return NAN

        return number
