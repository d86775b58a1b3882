"""The process around the endpoints: its socket, its signals, and an end that finishes what was begun."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from functools import partial

import uvicorn

from verdict_cli.errors import VerdictError
from verdict_cli.http.api.app import api_application
from verdict_cli.http.api.batches import Batches
from verdict_cli.http.api.service import Service
from verdict_cli.http.api.settings import Load, ServeSettings
from verdict_cli.http.guard.connection import connections
from verdict_cli.http.guard.listening import Server, listening_address
from verdict_cli.llm.tracing import Spans
from verdict_cli.plan.node import Plan
from verdict_cli.run.local import loop_factory
from verdict_cli.run.model_client import ModelClient

_KEEP_ALIVE_S = 75
_BACKLOG = 2048
_LAST_S = 5
"""What answers that are being sent may still take once all work is done."""


def serve_api(
    settings: ServeSettings,
    plan: Plan,
    load: Load,
    access: Callable[[], ModelClient],
    concurrency: int,
    at: socket.socket,
    say: Callable[[str], None],
    spans: Spans,
) -> None:
    """Answers until SIGTERM or SIGINT; then what was taken on is finished, and batches that are not are left to the next start."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(settings, plan, load, access, concurrency, at, say, spans))


async def _serve(
    settings: ServeSettings,
    plan: Plan,
    load: Load,
    access: Callable[[], ModelClient],
    concurrency: int,
    at: socket.socket,
    say: Callable[[str], None],
    spans: Spans,
) -> None:
    ways = access()
    try:
        service = Service(settings, ways, load, spans)
        await service.open(plan)
        batches = Batches(service, concurrency)
        batches.open()
        server = Server(
            uvicorn.Config(
                api_application(service, batches),
                http=connections(),
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_LAST_S,
            )
        )
        with _signals(server, service, batches, say):
            at.listen(_BACKLOG)
            say(f"{plan.name} answers at {listening_address(at)}")
            if batches.left:
                say(f"{batches.left} acknowledged batches are gone on with")
            await server.serve([at])
    finally:
        await ways.close()


@contextlib.contextmanager
def _signals(server: uvicorn.Server, service: Service, batches: Batches, say: Callable[[str], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    def begin(work: Callable[[], Coroutine[None, None, None]]) -> None:
        task = loop.create_task(work())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def end() -> None:
        if service.admission.closed:
            server.force_exit = server.should_exit = True
            return
        service.admission.closed = True
        say("stopping: what was taken on is finished; once more stops at once")
        begin(partial(_drained, server, service, batches, say))

    handlers: dict[str, Callable[[], None]] = {
        "SIGTERM": end,
        "SIGINT": end,
        "SIGHUP": lambda: begin(partial(_reloaded, service, batches, say)),
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


async def _drained(server: uvicorn.Server, service: Service, batches: Batches, say: Callable[[str], None]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(service.settings.limits.drain_s):
            await service.admission.drained()
            await batches.drained()
    if batches.left:
        say(f"{batches.left} batches are not finished: the next start goes on with them")
    server.should_exit = True


async def _reloaded(service: Service, batches: Batches, say: Callable[[str], None]) -> None:
    try:
        before, after = await service.reload()
    except VerdictError as error:
        say(f"not reloaded, the old pipeline goes on: {error}")
        return
    batches.again()
    say("reloaded: the same pipeline" if before == after else f"reloaded: {before[:12]} → {after[:12]}")
