"""An event loop in its own thread, in which one judge answers all callers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from threading import Thread, get_ident
from typing import Any, TypeVar

from verdict_cli.errors import UsageError
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.plan.node import Plan
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.preflight import open_cache

T = TypeVar("T")


@dataclass(frozen=True)
class JudgeConfig:
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
                "a judge cannot wait for itself within its own pipeline", hint="call another Judge in the function"
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
            if self._session is None:
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
    return UsageError("the judge was closed before it answered", hint="close it once all calls are back")
