"""The endpoints."""

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
from verdict_cli.http.api import schemas as said
from verdict_cli.http.api.admission import Overloaded
from verdict_cli.http.api.batches import PAGE, Batches
from verdict_cli.http.api.service import Service
from verdict_cli.http.guard.middleware import App, GuardMiddleware
from verdict_cli.run.outcome import floors

OPEN_PATHS = ("/health", "/health/live", "/health/ready")
"""Endpoints that need no token."""
_OPTIONS = orjson.OPT_NON_STR_KEYS
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": said.Refusal, "description": words}
    for status, words in {
        401: "The token is missing or wrong.",
        413: "The body, or the number of rows, is too large.",
        422: "A row that the pipeline cannot take.",
        429: "The queue is full: come again after `Retry-After` seconds.",
        503: "The server is stopping, or its budget is spent.",
    }.items()
}
_FAILED: dict[int | str, dict[str, Any]] = {
    502: {"model": said.JudgeResponse, "description": "The judgement failed (policy `closed`)."},
    504: {"model": said.JudgeResponse, "description": "The deadline is over (policy `closed`)."},
}


class _Request(Request):
    """A request whose JSON is read by orjson: faster, and without NaN."""

    async def json(self) -> Any:
        """The body."""
        return orjson.loads(await self.body())


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return handler


def api_application(service: Service, batches: Batches) -> App:
    """The ASGI application over a service that is opened."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        batches.start()
        try:
            yield
        finally:
            await batches.close()

    app = FastAPI(
        title=f"verdict: {service.now.plan.name}",
        description="A compound judge over HTTP.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=_REFUSALS,
    )
    app.router.route_class = _Route
    _endpoints(app, service)
    _batches(app, service, batches)
    _about(app, service, batches)
    _errors(app)
    door = service.settings.door
    limits = service.settings.limits
    guarded = GuardMiddleware(
        app,
        door,
        body_bytes=limits.body_bytes,
        body_s=limits.deadline_s,
        unguarded=OPEN_PATHS,
        answered=service.metrics.answered,
    )
    if not door.origins:
        return guarded
    return CORSMiddleware(
        guarded,
        allow_origins=door.origins,
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["authorization", "content-type"],
        expose_headers=["location", "retry-after"],
    )


def _endpoints(app: FastAPI, service: Service) -> None:
    @app.post("/judge", response_model=said.JudgeResponse, responses=_FAILED)
    async def judge(asked: said.JudgeRequest) -> Response:
        """Judges one row."""
        (answer,) = await service.answers([asked.row], service.deadline(asked.deadline_s))
        return _json(answer.document, answer.status)

    @app.post("/reward", response_model=said.Rewards)
    async def reward(asked: said.RowsRequest) -> Response:
        """One number a row, for reinforcement learning."""
        if isinstance(service.now.reward, UsageError):
            return _refusal(409, "no-number", str(service.now.reward))
        answers = await service.answers(asked.rows, service.deadline(asked.deadline_s))
        none = {"kind": "no-number", "message": "the outcome gives no number", "unit": ""}
        failures = [answer.document["failure"] or (none if answer.reward is None else None) for answer in answers]
        return _json({"rewards": [answer.reward for answer in answers], "failures": failures})


def _batches(app: FastAPI, service: Service, batches: Batches) -> None:
    @app.post(
        "/judge/batch",
        response_model=said.JudgeResponses,
        responses={202: {"model": said.Batch, "description": "Kept on disk (`wait=false`)."}},
    )
    async def batch(asked: said.RowsRequest, wait: bool = True) -> Response:
        """Judges several rows, each with a status of its own. With `wait=false` they are kept on disk, acknowledged, and
        judged later, whatever happens to the server."""
        if wait:
            answers = await service.answers(asked.rows, service.deadline(asked.deadline_s))
            return _json({"results": [answer.document for answer in answers]})
        if service.admission.closed:
            raise Overloaded(503, "the server is stopping", 1)
        if batches.left >= service.settings.limits.batches:
            raise Overloaded(429, f"{batches.left} batches are waiting", 60)
        state = await batches.accept(asked.rows)
        return _json(state, 202, {"Location": f"/batches/{state['id']}"})

    @app.get("/batches/{name}", response_model=said.Batch)
    def state(
        name: str, offset: Annotated[int, Query(ge=0)] = 0, limit: Annotated[int, Query(ge=1, le=PAGE)] = PAGE
    ) -> Response:
        """How a batch stands; once it is finished a page of its results."""
        try:
            made = batches.state(name)
            if made["status"] == "finished":
                made["results"] = batches.results(name, offset, limit)
                made["next_offset"] = offset + limit if offset + limit < made["rows"] else None
        except KeyError:
            return _refusal(404, "no-batch", "there is no such batch")
        return _json(made)

    @app.delete("/batches/{name}", status_code=204)
    def remove(name: str) -> Response:
        """Removes a batch that is finished or stopped."""
        try:
            gone = batches.remove(name)
        except KeyError:
            return _refusal(404, "no-batch", "there is no such batch")
        return Response(status_code=204) if gone else _refusal(409, "not-finished", "the batch is being judged")


def _about(app: FastAPI, service: Service, batches: Batches) -> None:
    @app.get("/health", response_model=said.Health)
    @app.get("/health/ready", response_model=said.Health)
    async def ready() -> Response:
        """Whether rows are taken on: 503 while the server stops."""
        return _json({"status": "ready"}) if service.ready else _json({"status": "stopping"}, 503)

    @app.get("/health/live", response_model=said.Health)
    async def live() -> Response:
        """Whether the process answers at all."""
        return _json({"status": "live"})

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Figures in Prometheus' text format."""
        return Response(service.metrics.text(), media_type=service.metrics.content_type)

    @app.get("/pipeline", response_model=said.PipelineInfo)
    async def pipeline() -> Response:
        """The pipeline that answers."""
        plan = service.now.plan
        return _json(
            {
                "name": plan.name,
                "fingerprint": plan.fingerprint,
                "columns": [used.column for used in plan.columns if used.asked],
                "floors": [] if service.access.recorded else floors(plan),
                "policy": service.settings.policy,
                "reload_error": service.trouble or None,
            }
        )

    @app.post("/reload", response_model=said.Reloaded)
    async def reload() -> Response:
        """Reads the pipeline file anew. Refused (409) unless it is valid; the old one then goes on."""
        try:
            before, after = await service.reload()
        except VerdictError as error:
            return _refusal(409, "reload-refused", str(error))
        batches.again()
        return _json({"before": before, "after": after})


def _errors(app: FastAPI) -> None:
    @app.exception_handler(Overloaded)
    async def shed(_: Request, error: Overloaded) -> Response:
        headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
        return _refusal(error.status, "shed", error.message, headers)

    @app.exception_handler(DataError)
    async def data(_: Request, error: DataError) -> Response:
        return _refusal(422, error.problem.code, str(error))

    @app.exception_handler(VerdictError)
    async def other(_: Request, error: VerdictError) -> Response:
        return _refusal(500, error.kind, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        found = error.errors()[0]
        where = ".".join(str(part) for part in found["loc"])
        return _refusal(422, "bad-request", f"{where}: {found['msg']}")

    @app.exception_handler(HTTPException)
    async def plain(_: Request, error: HTTPException) -> Response:
        return _refusal(error.status_code, "http", str(error.detail), dict(error.headers or {}))


def _refusal(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> Response:
    return _json({"error": {"kind": kind, "message": message}}, status, headers)


def _json(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    try:
        content = orjson.dumps(document, option=_OPTIONS)
    except TypeError:  # half a surrogate pair in a model's reply, which orjson does not write
        content = json.dumps(document).encode()
    return Response(content, status, headers, "application/json")
