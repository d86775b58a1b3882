"""The viewer's pages and the JSON behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from verdict_cli.errors import UsageError, VerdictError
from verdict_cli.http.viewer.assets import style, viewer_page, viewer_script
from verdict_cli.http.viewer.query import Query, TooLong
from verdict_cli.http.viewer.run_registry import LARGE, RunRegistry
from verdict_cli.http.viewer.run_view import PER_PAGE
from verdict_cli.http.viewer.runs import headline
from verdict_cli.report.compress import encoded

BODY_BYTES = 64 * 1024
BODY_S = 10.0
MOST_LABEL, MOST_NOTE = 1_000, 20_000
AT_ONCE = 8
"""Requests that are worked on at once; others wait."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A report is a file that may have come from elsewhere: it gets an origin of its own, and so no cookie and no data."""

PageAnswer = Callable[[Request, RunRegistry], Any]


def viewer_application(library: RunRegistry) -> Starlette:
    """The ASGI application over the runs of a directory."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = AT_ONCE
        try:
            yield
        finally:
            library.close()

    shell = viewer_page()
    routes = [
        Route(path, lambda _: HTMLResponse(shell, headers={"content-security-policy": POLICY}))
        for path in ("/", "/run", "/compare")
    ]
    routes += [
        Route("/assets/view.js", _asset(viewer_script(), "text/javascript")),
        Route("/assets/view.css", _asset(style(), "text/css")),
        Route("/report", _in_thread(_report, library)),
        Route("/api/runs", _in_thread(_runs, library)),
        Route("/api/run", _in_thread(_run, library)),
        Route("/api/rows", _in_thread(_rows, library)),
        Route("/api/row", _in_thread(_row, library)),
        Route("/api/compare", _in_thread(_compare, library)),
        Route("/api/label", _labelling(library), methods=["POST"]),
    ]
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _refused, VerdictError: _wrong, TooLong: _too_long},
    )


def _asset(text: str, kind: str) -> Callable[[Request], Response]:
    return lambda _: Response(text, media_type=kind)


def _in_thread(answer: PageAnswer, library: RunRegistry) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        made = await anyio.to_thread.run_sync(answer, request, library)
        return made if isinstance(made, Response) else _json(made)

    return endpoint


def _runs(request: Request, library: RunRegistry) -> Any:
    found = library.runs.all()
    return {
        "root": library.runs.root.name,
        "single": found[0].name if library.runs.single and found else None,
        "runs": [{**_facts(run), "headline": headline(run)} for run in found],
    }


def _run(request: Request, library: RunRegistry) -> Any:
    run = library.run(request.query_params.get("run", ""))
    made = {**_facts(run), "headline": headline(run), "live": None}
    made["report"] = (run.directory.path / "report.html").is_file()
    if run.live:
        return {**made, "live": library.live(run).state()}
    opened = library.opened(run)
    ready = False if opened.rows > LARGE and not opened.shown_once else library.judged(opened)
    return {
        **made,
        "table": opened.rows,
        "ready": ready,
        "columns": opened.columns(),
        "shown": opened.shown(),
        "evaluation": opened.judged.name,
        "trouble": opened.judged.trouble,
        "labelled": sum(one["label"] is not None for one in opened.people()[1].values()),
    }


def _rows(request: Request, library: RunRegistry) -> Any:
    asked = request.query_params
    opened = library.opened(library.run(asked.get("run", "")))
    if opened.rows <= LARGE or opened.shown_once:
        library.judged(opened, wait_s=0.0 if opened.shown_once else 1.0)
    columns = opened.columns()
    query = Query.read(
        asked.getlist("f"), asked.get("q", ""), asked.get("sort", ""), asked.get("down") == "1", tuple(columns)
    )
    shown = [name for name in asked.getlist("c") if name in columns][:40] or opened.shown()
    total, rows = opened.page(query, _number(asked.get("page", "0")), shown)
    opened.shown_once = True
    return {"total": total, "per": PER_PAGE, "columns": [[name, columns[name]] for name in shown], "rows": rows}


def _row(request: Request, library: RunRegistry) -> Any:
    asked = request.query_params
    opened = library.opened(library.run(asked.get("run", "")))
    try:
        place = opened.place(asked["id"]) if "id" in asked else _number(asked.get("row", ""))
        return opened.story(place)
    except KeyError:
        raise HTTPException(404, "there is no such row") from None


def _compare(request: Request, library: RunRegistry) -> Any:
    asked = request.query_params
    done, made = library.compared(library.run(asked.get("a", "")), library.run(asked.get("b", "")))
    if not done:
        return {"ready": False}
    name = asked.get("evaluation", "") or next(iter(made["evaluations"]))
    if name not in made["evaluations"]:
        raise HTTPException(404, "the runs share no such evaluation")
    one = dict(made["evaluations"][name])
    flipped = one.pop("flipped")
    which = asked.get("which", "")
    if which:
        flipped = [flip for flip in flipped if (flip["gain"] > 0) == (which == "b")]
    start = min(_number(asked.get("page", "0")), max(0, len(flipped) - 1) // PER_PAGE) * PER_PAGE
    return {
        "ready": True,
        "a": made["a"],
        "b": made["b"],
        "paired_by": made["paired_by"],
        "names": list(made["evaluations"]),
        "evaluation": name,
        "compared": one,
        "total": len(flipped),
        "per": PER_PAGE,
        "flipped": flipped[start : start + PER_PAGE],
    }


def _labelling(library: RunRegistry) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "send JSON")
        try:
            given = await request.json()
            run, place, label, note = (given.get(key) for key in ("run", "row", "label", "note"))
        except (ValueError, AttributeError, RecursionError):
            raise HTTPException(422, "the body is to be a JSON mapping") from None
        fine = isinstance(run, str) and type(place) is int and (note is None or isinstance(note, str))
        if not fine or not (label is None or isinstance(label, str | int | float | bool)):
            raise HTTPException(422, "give `run`, `row` (its place), `label` and `note`")
        if len(str(label)) > MOST_LABEL or len(note or "") > MOST_NOTE:
            raise HTTPException(413, "the label or the note is too long")
        await anyio.to_thread.run_sync(_kept, library, run, place, label, note)
        return _json({"kept": True})

    return endpoint


def _kept(library: RunRegistry, run: str, place: int, label: Any, note: str | None) -> None:
    opened = library.opened(library.run(run))
    try:
        opened.label(place, label, note, datetime.now(UTC).isoformat(timespec="seconds"))
    except KeyError:
        raise HTTPException(404, "there is no such row") from None


def _report(request: Request, library: RunRegistry) -> Response:
    path = library.run(request.query_params.get("run", "")).directory.path / "report.html"
    if not path.is_file() or path.is_symlink():
        raise HTTPException(404, "this run has no report.html")
    headers = {"content-security-policy": _REPORT_POLICY}
    return FileResponse(path, media_type="text/html; charset=utf-8", headers=headers)


def _facts(run: Any) -> dict[str, Any]:
    facts = asdict(run.facts)
    names = (
        "status", "config", "dataset", "started", "rows", "done", "failed", "abstained", "calls", "cost_usd",
        "wall_s", "models", "failures", "floors", "prompt_tokens", "completion_tokens", "seed",
    )  # fmt: skip
    return {"run": run.name, "name": facts["name"], **{name: facts[name] for name in names}}


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise HTTPException(422, "a place is a whole number")
    return int(text)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": error.detail}, error.status_code)


async def _wrong(_: Request, error: Exception) -> Response:
    return _json({"error": str(error)}, 422 if isinstance(error, UsageError) else 500)


async def _too_long(_: Request, error: Exception) -> Response:
    return _json({"error": "the search took too long: give a filter, or fewer words"}, 503)


def _json(document: Any, status: int = 200) -> Response:
    return Response(encoded(document), status, media_type="application/json")
