"""The endpoints of `verdict serve`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Annotated, Any

import orjson
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from verdict_cli import __version__
from verdict_cli.errors import DataError, UsageError, VerdictError
from verdict_cli.features.guard.middleware import App, GuardMiddleware
from verdict_cli.features.server import schemas
from verdict_cli.features.server.batches import PAGE, Batches
from verdict_cli.features.server.openai_chat import chat_endpoints
from verdict_cli.features.server.service import Overloaded, Service
from verdict_cli.run.outcome import floors

OPEN_PATHS = ("/health", "/health/live", "/health/ready")
"""Endpoints that need no token."""
_OPTIONS = orjson.OPT_NON_STR_KEYS
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorResponse, "description": description}
    for status, description in {
        401: "The token is missing or wrong.",
        413: "The body is too large, or it has too many rows.",
        422: "A row does not fit the pipeline.",
        429: "The queue is full. Retry after `Retry-After` seconds.",
        503: "The server is stopping, or its budget is spent.",
    }.items()
}
_FAILED: dict[int | str, dict[str, Any]] = {
    502: {"model": schemas.JudgeResponse, "description": "The judgement failed (policy `closed`)."},
    504: {"model": schemas.JudgeResponse, "description": "The deadline passed (policy `closed`)."},
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


def api_application(service: Service, batches: Batches) -> App:
    """The ASGI application of an opened service."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        batches.start()
        try:
            yield
        finally:
            await batches.close()

    app = FastAPI(
        title=f"verdict: {service.active.plan.name}",
        description="A compound judge over HTTP.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=_ERRORS,
    )
    app.router.route_class = _Route
    _judge_endpoints(app, service)
    chat_endpoints(app, service, _json)
    if service.settings.protocol is not None:
        from verdict_cli.features.server.trainers import trainer_endpoints

        trainer_endpoints(app, service, service.settings.protocol)
    _batch_endpoints(app, service, batches)
    _status_endpoints(app, service, batches)
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
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["authorization", "content-type"],
        expose_headers=["location", "retry-after"],
    )


def _judge_endpoints(app: FastAPI, service: Service) -> None:
    @app.post("/judge", response_model=schemas.JudgeResponse, responses=_FAILED)
    async def judge(body: schemas.JudgeRequest) -> Response:
        """Judge one row."""
        (answer,) = await service.judge_rows([body.row], service.deadline(body.deadline_s))
        return _json(answer.document, answer.status)

    @app.post("/reward", response_model=schemas.Rewards)
    async def reward(body: schemas.RowsRequest) -> Response:
        """Return one reward per row, for reinforcement learning."""
        if isinstance(service.active.reward, UsageError):
            return _error_response(409, "no-number", str(service.active.reward))
        answers = await service.judge_rows(body.rows, service.deadline(body.deadline_s))
        no_number = {"kind": "no-number", "message": "the outcome has no number", "unit": ""}
        failures = [answer.document["failure"] or (no_number if answer.reward is None else None) for answer in answers]
        return _json({"rewards": [answer.reward for answer in answers], "failures": failures})


def _batch_endpoints(app: FastAPI, service: Service, batches: Batches) -> None:
    @app.post(
        "/judge/batch",
        response_model=schemas.JudgeResponses,
        responses={202: {"model": schemas.Batch, "description": "Stored (`wait=false`)."}},
    )
    async def batch(body: schemas.RowsRequest, wait: bool = True) -> Response:
        """Judge several rows, each with its own status. With `wait=false` they are stored on disk, acknowledged, and judged
        in the background, also after a restart of the server."""
        if wait:
            answers = await service.judge_rows(body.rows, service.deadline(body.deadline_s))
            return _json({"results": [answer.document for answer in answers]})
        if service.admission.closed:
            raise Overloaded(503, "the server is stopping", 1)
        if batches.unfinished >= service.settings.limits.batches:
            raise Overloaded(429, f"{batches.unfinished} batches are waiting", 60)
        state = await batches.accept(body.rows)
        return _json(state, 202, {"Location": f"/batches/{state['id']}"})

    @app.get("/batches/{name}", response_model=schemas.Batch)
    def state(
        name: str, offset: Annotated[int, Query(ge=0)] = 0, limit: Annotated[int, Query(ge=1, le=PAGE)] = PAGE
    ) -> Response:
        """Return the state of a batch and, once it is finished, a page of its results."""
        try:
            content = batches.state(name)
            if content["status"] == "finished":
                content["results"] = batches.results(name, offset, limit)
                content["next_offset"] = offset + limit if offset + limit < content["rows"] else None
        except KeyError:
            return _error_response(404, "no-batch", "no such batch")
        return _json(content)

    @app.delete("/batches/{name}", status_code=204)
    def remove(name: str) -> Response:
        """Delete a batch that is finished or stopped."""
        try:
            removed = batches.remove(name)
        except KeyError:
            return _error_response(404, "no-batch", "no such batch")
        return (
            Response(status_code=204) if removed else _error_response(409, "not-finished", "the batch is being judged")
        )


def _status_endpoints(app: FastAPI, service: Service, batches: Batches) -> None:
    @app.get("/health", response_model=schemas.Health)
    @app.get("/health/ready", response_model=schemas.Health)
    async def ready() -> Response:
        """Whether the server accepts rows; 503 while it stops."""
        return _json({"status": "ready"}) if service.ready else _json({"status": "stopping"}, 503)

    @app.get("/health/live", response_model=schemas.Health)
    async def live() -> Response:
        """Whether the process responds."""
        return _json({"status": "live"})

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Return the metrics in the Prometheus text format."""
        return Response(service.metrics.text(), media_type=service.metrics.content_type)

    @app.get("/pipeline", response_model=schemas.PipelineInfo)
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

    @app.post("/reload", response_model=schemas.Reloaded)
    async def reload() -> Response:
        """Reload the pipeline file. If it is not valid, respond with 409 and keep the active pipeline."""
        try:
            before, after = await service.reload()
        except VerdictError as error:
            return _error_response(409, "reload-refused", str(error))
        batches.retry_stopped()
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
        message = unknown if error.status_code == 404 and error.detail == "Not Found" else str(error.detail)
        return _error_response(error.status_code, "http", message, dict(error.headers or {}))


def _error_response(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> Response:
    return _json({"error": {"kind": kind, "message": message}}, status, headers)


def _json(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    try:
        content = orjson.dumps(document, option=_OPTIONS)
    except TypeError:  # orjson does not encode half a surrogate pair, which a reply of a model may have
        content = json.dumps(document).encode()
    return Response(content, status, headers, "application/json")
