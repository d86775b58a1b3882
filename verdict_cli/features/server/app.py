"""The HTTP application of `verdict serve`: request and response bodies, endpoints, and the process around them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Annotated, Any

import orjson
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from verdict_cli import __version__
from verdict_cli.errors import DataError, VerdictError
from verdict_cli.features.guard.middleware import (
    GuardMiddleware,
    Server,
    listening_address,
    server_config,
)
from verdict_cli.features.server.chat_api import chat_endpoints
from verdict_cli.features.server.decision_api import decision_endpoints
from verdict_cli.features.server.service import (
    Overloaded,
    PlanLoader,
    ServeSettings,
    Service,
)
from verdict_cli.messages import JsonObject
from verdict_cli.plan.node import Plan
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.observer import RunObserver
from verdict_cli.run.outcome import floors

RowBody = JsonObject
Deadline = Annotated[float, Field(gt=0, description="Seconds, at most the deadline of the server.")]


class _RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid")


class JudgeRequest(_RequestBody):
    """One row."""

    row: Annotated[RowBody, Field(description="The columns that the pipeline's units use.")]
    deadline_s: Deadline | None = None


class FailedRow(BaseModel):
    """The failure of a row."""

    kind: Annotated[
        str,
        Field(description="The kind of failure, such as `unreadable`, `timeout` or `deadline`."),
    ]
    message: str
    unit: Annotated[
        str, Field(description="The unit that failed; empty if the failure is not of a unit.")
    ]


class JudgeResponse(BaseModel):
    """The outcome of a row."""

    status: Annotated[
        str,
        Field(
            description="`ok`, `failed`, or `abstained` (the judge returned no verdict on purpose)."
        ),
    ]
    id: str | int
    output: Annotated[
        JsonObject | None,
        Field(description="The output of the last step; null for a failed row."),
    ]
    failure: FailedRow | None
    calls: Annotated[int, Field(description="The number of model calls.")]
    cost_usd: Annotated[float | None, Field(description="Null if a price is unknown.")]
    accepted: Annotated[
        bool | None,
        Field(description="Whether the outcome meets --accept; absent without that option."),
    ] = None
    latency_s: float | None = None


class PipelineInfo(BaseModel):
    """The active pipeline."""

    name: str
    fingerprint: str
    columns: Annotated[list[str], Field(description="The columns that a row must have.")]
    floors: Annotated[
        list[str],
        Field(description="The embedded baselines of the pipeline, which are not LLM judges."),
    ]
    policy: str
    reload_error: Annotated[str | None, Field(description="Why the latest reload failed.")]


class Reloaded(BaseModel):
    """A successful reload: the fingerprints before and after it."""

    before: str
    after: str


class Health(BaseModel):
    """Whether the server accepts rows."""

    status: str


class ErrorDetail(BaseModel):
    """Why a request failed."""

    kind: str
    message: str


class ErrorResponse(BaseModel):
    """The body of every error response."""

    error: ErrorDetail


OPEN_PATHS = ("/health", "/health/live", "/health/ready")
"""Endpoints that need no token."""
_OPTIONS = orjson.OPT_NON_STR_KEYS
_ERRORS: dict[int | str, JsonObject] = {
    status: {"model": ErrorResponse, "description": description}
    for status, description in {
        401: "The token is missing or wrong.",
        413: "The body is too large, or it has too many questions.",
        422: "A row does not fit the pipeline.",
        429: "The queue is full. Retry after `Retry-After` seconds.",
        503: "The server is stopping, or its budget is spent.",
    }.items()
}
_FAILED: dict[int | str, JsonObject] = {
    502: {"model": JudgeResponse, "description": "The judgement failed (policy `closed`)."},
    504: {"model": JudgeResponse, "description": "The deadline passed (policy `closed`)."},
}


class _Request(Request):
    """A request whose JSON is parsed by orjson, which is faster and rejects NaN."""

    async def json(self) -> Any:
        return orjson.loads(await self.body())


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return handler


def api_application(service: Service) -> ASGIApp:
    """The ASGI application of an opened service."""

    app = FastAPI(
        title=f"verdict: {service.active.plan.name}",
        description="A compound judge over HTTP.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        responses=_ERRORS,
    )
    app.router.route_class = _Route
    _judge_endpoints(app, service)
    chat_endpoints(app, service, _json)
    decision_endpoints(app, service, _json)
    _status_endpoints(app, service)
    _error_handlers(app)
    policy = service.settings.access_policy
    limits = service.settings.limits
    guarded = GuardMiddleware(
        app,
        policy,
        body_bytes=limits.body_bytes,
        body_s=limits.deadline_s,
        unguarded=OPEN_PATHS,
        on_response=service.metrics.count_request,
    )
    if not policy.origins:
        return guarded
    return CORSMiddleware(
        guarded,
        allow_origins=policy.origins,
        allow_methods=["GET", "POST"],
        allow_headers=["authorization", "content-type"],
        expose_headers=["retry-after"],
    )


def _judge_endpoints(app: FastAPI, service: Service) -> None:
    @app.post("/judge", response_model=JudgeResponse, responses=_FAILED)
    async def judge(body: JudgeRequest) -> Response:
        """Judge one row."""
        answer = await service.judge_row(body.row, service.deadline(body.deadline_s))
        return _json(answer.document, answer.status)


def _status_endpoints(app: FastAPI, service: Service) -> None:
    @app.get("/health", response_model=Health)
    @app.get("/health/ready", response_model=Health)
    async def ready() -> Response:
        """Whether the server accepts rows; 503 while it stops."""
        return _json({"status": "ready"}) if service.ready else _json({"status": "stopping"}, 503)

    @app.get("/health/live", response_model=Health)
    async def live() -> Response:
        """Whether the process responds."""
        return _json({"status": "live"})

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Return the metrics in the Prometheus text format."""
        return Response(service.metrics.text(), media_type=service.metrics.content_type)

    @app.get("/pipeline", response_model=PipelineInfo)
    async def pipeline() -> Response:
        """Describe the active pipeline."""
        plan = service.active.plan
        return _json(
            {
                "name": plan.name,
                "fingerprint": plan.fingerprint,
                "columns": [used.column for used in plan.columns if used.asked],
                "floors": [] if service.client.recorded else floors(plan),
                "policy": service.settings.policy,
                "reload_error": service.reload_error or None,
            }
        )

    @app.post("/reload", response_model=Reloaded)
    async def reload() -> Response:
        """Reload the pipeline file. If it is not valid, respond with 409 and keep the active pipeline."""
        try:
            before, after = await service.reload()
        except VerdictError as error:
            return _error_response(409, "reload-refused", str(error))
        return _json({"before": before, "after": after})


def _error_handlers(app: FastAPI) -> None:
    @app.exception_handler(Overloaded)
    async def overloaded(_: Request, error: Overloaded) -> Response:
        headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
        return _error_response(error.status, "shed", error.message, headers)

    @app.exception_handler(DataError)
    async def data_error(_: Request, error: DataError) -> Response:
        return _error_response(422, error.problem.code, str(error))

    @app.exception_handler(VerdictError)
    async def verdict_error(_: Request, error: VerdictError) -> Response:
        return _error_response(500, error.kind, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid_request(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        return _error_response(422, "bad-request", f"{path}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        unknown = f"there is no {request.url.path:.100}; GET /openapi.json lists the endpoints and their bodies"
        message = (
            unknown
            if error.status_code == 404 and error.detail == "Not Found"
            else str(error.detail)
        )
        return _error_response(error.status_code, "http", message, dict(error.headers or {}))


def _error_response(
    status: int, kind: str, message: str, headers: dict[str, str] | None = None
) -> Response:
    return _json({"error": {"kind": kind, "message": message}}, status, headers)


def _json(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    try:
        content = orjson.dumps(document, option=_OPTIONS)
    except (
        TypeError
    ):  # orjson does not encode half a surrogate pair, which a reply of a model may have
        content = json.dumps(document).encode()
    return Response(content, status, headers, "application/json")


_KEEP_ALIVE_S = 75
_BACKLOG = 2048
_RESPONSE_S = 5
"""Seconds for responses that are still being sent once all work is done."""


async def serve_api(
    settings: ServeSettings,
    plan: Plan,
    load: PlanLoader,
    open_client: Callable[[], ModelClient],
    listener: socket.socket,
    log: Callable[[str], None],
    warn: Callable[[str], None],
    observer: RunObserver,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish accepted rows."""
    client = open_client()
    try:
        service = Service(settings, client, load, observer)
        await service.open(plan)
        application = api_application(service)
        server = Server(
            server_config(application, keep_alive_s=_KEEP_ALIVE_S, shutdown_s=_RESPONSE_S)
        )
        with _signals(server, service, log, warn):
            listener.listen(_BACKLOG)
            log(f"{plan.name}: serving at {listening_address(listener)}")
            await server.serve([listener])
    finally:
        await client.close()


@contextlib.contextmanager
def _signals(
    server: uvicorn.Server,
    service: Service,
    log: Callable[[str], None],
    warn: Callable[[str], None],
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
        start_task(partial(_drain, server, service))
        with contextlib.suppress(OSError):  # the terminal may be closed
            log("Stopping: finishing accepted work. Press Ctrl-C again to quit now.")

    def reload() -> None:
        start_task(partial(_reload, service, log, warn))

    handlers: dict[str, Callable[[], None]] = {
        "SIGTERM": shut_down,
        "SIGINT": shut_down,
        # A terminal sends it when it is closed; service managers, which have none, send it to reload.
        "SIGHUP": shut_down if sys.stdin is not None and sys.stdin.isatty() else reload,
    }
    numbers = {
        getattr(signal, name): handler
        for name, handler in handlers.items()
        if hasattr(signal, name)
    }
    with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C ends the loop itself
        for number, handler in numbers.items():
            loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        with contextlib.suppress(NotImplementedError):
            for number in numbers:
                loop.remove_signal_handler(number)


async def _drain(server: uvicorn.Server, service: Service) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(service.settings.limits.drain_s):
            await service.admission.drain()
    server.should_exit = True


async def _reload(
    service: Service, log: Callable[[str], None], warn: Callable[[str], None]
) -> None:
    try:
        before, after = await service.reload()
    except VerdictError as error:
        warn(f"not reloaded, the active pipeline stays: {error}")
        return
    log("reloaded: no change" if before == after else f"reloaded: {before[:12]} → {after[:12]}")
