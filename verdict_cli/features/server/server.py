"""The server process: its socket, its signals, and a graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from functools import partial

import uvicorn

from verdict_cli.errors import VerdictError
from verdict_cli.features.guard.middleware import Server, connection_class, listening_address
from verdict_cli.features.server.app import api_application
from verdict_cli.features.server.batches import Batches
from verdict_cli.features.server.service import PlanLoader, ServeSettings, Service
from verdict_cli.plan.node import Plan
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.observer import RunObserver

_KEEP_ALIVE_S = 75
_BACKLOG = 2048
_RESPONSE_S = 5
"""Seconds for responses that are still being sent once all work is done."""


async def serve_api(
    settings: ServeSettings,
    plan: Plan,
    load: PlanLoader,
    open_client: Callable[[], ModelClient],
    concurrency: int,
    listener: socket.socket,
    log: Callable[[str], None],
    warn: Callable[[str], None],
    observer: RunObserver,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish accepted rows. Unfinished batches resume at the next start."""
    client = open_client()
    try:
        service = Service(settings, client, load, observer)
        await service.open(plan)
        batches = Batches(service, concurrency)
        batches.open()
        server = Server(
            uvicorn.Config(
                api_application(service, batches),
                http=connection_class(),
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_RESPONSE_S,
            )
        )
        with _signals(server, service, batches, log, warn):
            listener.listen(_BACKLOG)
            log(f"{plan.name}: serving at {listening_address(listener)}")
            if batches.unfinished:
                log(f"resuming {batches.unfinished} batches")
            await server.serve([listener])
    finally:
        await client.close()


@contextlib.contextmanager
def _signals(
    server: uvicorn.Server, service: Service, batches: Batches, log: Callable[[str], None], warn: Callable[[str], None]
) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    def start_task(work: Callable[[], Coroutine[None, None, None]]) -> None:
        task = loop.create_task(work())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def shut_down() -> None:
        if service.admission.closed:
            server.force_exit = server.should_exit = True
            return
        service.admission.closed = True
        start_task(partial(_drain, server, service, batches, warn))
        with contextlib.suppress(OSError):  # the terminal may be closed
            log("Stopping: finishing accepted work. Press Ctrl-C again to quit now.")

    def reload() -> None:
        start_task(partial(_reload, service, batches, log, warn))

    handlers: dict[str, Callable[[], None]] = {
        "SIGTERM": shut_down,
        "SIGINT": shut_down,
        # A terminal sends it when it is closed; service managers, which have none, send it to reload.
        "SIGHUP": shut_down if sys.stdin is not None and sys.stdin.isatty() else reload,
    }
    numbers = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C ends the loop itself
        for number, handler in numbers.items():
            loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        with contextlib.suppress(NotImplementedError):
            for number in numbers:
                loop.remove_signal_handler(number)


async def _drain(server: uvicorn.Server, service: Service, batches: Batches, warn: Callable[[str], None]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(service.settings.limits.drain_s):
            await service.admission.drain()
            await batches.drain()
    if batches.unfinished:
        with contextlib.suppress(OSError):
            warn(f"{batches.unfinished} batches are not finished; they resume at the next start")
    server.should_exit = True


async def _reload(service: Service, batches: Batches, log: Callable[[str], None], warn: Callable[[str], None]) -> None:
    try:
        before, after = await service.reload()
    except VerdictError as error:
        warn(f"not reloaded, the active pipeline stays: {error}")
        return
    batches.retry_stopped()
    log("reloaded: no change" if before == after else f"reloaded: {before[:12]} → {after[:12]}")
