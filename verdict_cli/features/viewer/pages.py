"""The pages of `verdict view`, their assets, and the JSON that they load and send: rows, comparisons, labels."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
import uvicorn
from msgspec import UNSET, Struct, UnsetType
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from verdict_cli.errors import DataError, SpecError, UsageError, VerdictError
from verdict_cli.features.guard.middleware import (
    AccessPolicy,
    GuardMiddleware,
    listening_address,
    server_config,
)
from verdict_cli.features.viewer.query import Query, QueryTimeout
from verdict_cli.features.viewer.run_registry import (
    HIDDEN,
    LARGE,
    RunRegistry,
    check_shown,
    comparison_page,
    hides_verdicts,
    whole_number,
)
from verdict_cli.features.viewer.run_view import (
    MOST_CELL_TEXT,
    PER_PAGE,
    RunEntry,
    Runs,
    RunView,
    find_studies,
    study_page,
)
from verdict_cli.messages import JsonObject
from verdict_cli.report import run_notes
from verdict_cli.report.chat import as_conversation, chat_turns
from verdict_cli.report.compress import encoded
from verdict_cli.report.renderers.html import PAGE_FOLDER, chart_library, page_environment
from verdict_cli.storage.tables.human_labels import HumanLabel, label_key
from verdict_cli.storage.tables.label_queue import (
    QUEUE_FILE,
    LabelQueue,
    QueuedRow,
    next_rows,
    read_queue,
)
from verdict_cli.storage.tables.reader import read_rows

MOST_LABEL_CHARS, MOST_NOTE_CHARS = 1_000, 20_000


def queue_state(view: RunView, position: int | None = None) -> JsonObject:
    """The annotator's progress and a row to label: the next one, or the one at `position` if it is theirs.

    HTTPException 404 for a run without a queue, and a position that is not in it.
    """
    queue = read_queue(view.run.directory.path)
    if queue is None:
        raise HTTPException(404, "this run has no queue; draw one with `verdict queue`")
    annotations = view.annotations()
    waiting = next_rows(queue, annotations, view.annotator)
    mine = [row for row in queue.rows if view.annotator in annotations.get(label_key(row.id), {})]
    skipped = [row for row in mine if annotations[label_key(row.id)][view.annotator].skipped]
    queue_row: QueuedRow | None
    if position is None:
        queue_row = waiting[0] if waiting else None
    else:
        queue_row = next((row for row in queue.rows if row.row == position), None)
        if queue_row is None:
            raise HTTPException(404, "this row is not in the queue")
    return {
        "annotator": view.annotator,
        "annotators": queue.annotators,
        "choose": queue.choose,
        "blind": queue.blind,
        "rows": len(queue.rows),
        "waiting": len(waiting),
        "labelled": len(mine) - len(skipped),
        "skipped": len(skipped),
        "before": _latest(view, queue),
        "row": None if queue_row is None else _queued_row(view, queue_row),
        "answers": list(view.evaluation.answers),
    }


def _queued_row(view: RunView, queue_row: QueuedRow) -> JsonObject:
    names = view.judged_columns()
    (batch,) = read_rows(view.results, [queue_row.row], names) if names else ({},)
    source = {name.removeprefix("source."): batch[name][0] for name in names}
    talks = {
        name: messages
        for name, value in source.items()
        if (messages := as_conversation(value)) is not None
    }
    human = view.annotations().get(label_key(queue_row.id), {}).get(view.annotator, HumanLabel())
    return {
        "position": queue_row.row,
        "id": queue_row.id,
        "source": {name: _cut(value) for name, value in source.items() if name not in talks},
        "chats": {
            name: chat_turns(messages, _cut, MOST_CELL_TEXT) for name, messages in talks.items()
        },
        "human": {"label": human.label, "note": human.note, "at": human.at},
    }


def _cut(value: Any) -> Any:
    return value[:MOST_CELL_TEXT] if isinstance(value, str) else value


def _latest(view: RunView, queue: LabelQueue) -> list[int]:
    """The positions of the rows that this annotator has labelled or skipped, the last one first."""
    annotations = view.annotations()
    mine = [
        (annotations[key][view.annotator].at or "", index, row.row)
        for index, row in enumerate(queue.rows)
        if view.annotator in annotations.get(key := label_key(row.id), {})
    ]
    return [row for _, _, row in sorted(mine, reverse=True)]


class _LabelBody(Struct, frozen=True):
    """A label of a row: `row` is its position, and a body without `note` keeps the note that is there."""

    run: str
    row: int
    id: Any
    label: str | int | float | bool | None = None
    note: str | UnsetType | None = UNSET
    skip: bool | None = None


def label_endpoint(registry: RunRegistry) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint that stores a label."""

    async def endpoint(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "send JSON")
        try:
            body = msgspec.json.decode(await request.body(), type=_LabelBody)
        except (ValueError, RecursionError):
            raise HTTPException(422, _LABEL_FORM) from None
        if body.skip and body.label is not None:
            raise HTTPException(422, _LABEL_FORM)
        if len(str(body.label)) > MOST_LABEL_CHARS or len(body.note or "") > MOST_NOTE_CHARS:
            raise HTTPException(413, "the label or the note is too long")
        if isinstance(body.label, int) and body.label.bit_length() > 63:
            raise HTTPException(422, "the label has more than 64 bits")
        await anyio.to_thread.run_sync(_store_label, registry, body)
        return JSONResponse({"saved": True})

    return endpoint


_LABEL_FORM = "send a JSON object with `run`, `row` (the position), its `id`, and `label` and `note`, or `skip`"


def _store_label(registry: RunRegistry, body: _LabelBody) -> None:
    view = registry.view(registry.run(body.run))
    try:
        if not view.is_row(body.row, body.id):
            raise HTTPException(
                409, "the run was made again, and this row is another one: load the page again"
            )
        timestamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        view.add_label(body.row, body.label, body.note, timestamp, skipped=body.skip is True)
    except KeyError:
        raise HTTPException(404, "no such row") from None


FOLDER = Path(__file__).parent
SHARED = (
    "data.js", "theme.js", "intervals.js", "charts.js", "cells.js", "markdown.js", "story.js", "rows.js",
)  # fmt: skip
VIEWER_FILES = (
    "address.js", "chart.js", "list.js", "trends.js", "labels.js", "queue.js", "leaderboard.js", "overview.js", "corrected.js",
    "run.js", "compare.js", "view.js",
)  # fmt: skip


@cache
def viewer_page() -> str:
    """The page. Its script reads from the URL what to show."""
    return (
        page_environment()
        .from_string((FOLDER / "view.html").read_text("utf-8"))
        .render(kicker="Verdict")
    )


def viewer_script() -> str:
    """The scripts, in the order of their dependencies, inside one function."""
    files = [*(PAGE_FOLDER / name for name in SHARED), *(FOLDER / name for name in VIEWER_FILES)]
    text = "\n".join(file.read_text("utf-8") for file in files)
    return f"(() => {{\n'use strict';\n{text}\n}})();\n"


def viewer_style() -> str:
    """The style sheet of the report, followed by that of the viewer."""
    return (PAGE_FOLDER / "style.css").read_text("utf-8") + (FOLDER / "view.css").read_text("utf-8")


_MOST_CONNECTIONS = 200
"""The most open connections."""


def serve_viewer(
    runs: Runs,
    policy: AccessPolicy,
    listener: socket.socket,
    log: Callable[[str], None],
    annotator: str = "",
) -> None:
    """Serve until SIGTERM or SIGINT. Labels that are given are those of the `annotator`."""
    guarded = GuardMiddleware(
        viewer_application(RunRegistry(runs, annotator)),
        policy,
        body_bytes=BODY_BYTES,
        body_s=BODY_S,
        pages=True,
    )
    server = uvicorn.Server(
        server_config(guarded, connections=_MOST_CONNECTIONS, keep_alive_s=15, shutdown_s=2)
    )
    listener.listen(128)
    token = "" if policy.token is None else f"/?token={policy.token}"
    log(f"{runs.root.name}: serving at {listening_address(listener)}{token} (press Ctrl-C to stop)")
    with suppress(KeyboardInterrupt):
        server.run([listener])


BODY_BYTES = 64 * 1024
BODY_S = 10.0
THREADS = 8
"""Requests that are processed concurrently; others wait."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A report may come from another machine. The sandbox gives it its own origin, so it gets neither the cookie nor the data."""

PageHandler = Callable[[Request, RunRegistry], Any]


def viewer_application(registry: RunRegistry) -> Starlette:
    """The ASGI application over the runs of a directory."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        try:
            yield
        finally:
            registry.close()

    routes = [Route(path, lambda _: _shell()) for path in ("/", "/run", "/compare", "/queue")]
    routes += [
        Route("/assets/view.js", _asset(viewer_script(), "text/javascript")),
        Route("/assets/library.js", _asset(chart_library()[0], "text/javascript")),
        Route("/assets/view.css", _asset(viewer_style(), "text/css")),
        Route("/api/label", label_endpoint(registry), methods=["POST"]),
    ]
    routes += [Route(path, _in_thread(page, registry)) for path, page in _PAGES.items()]
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            HTTPException: _http_error,
            VerdictError: _verdict_error,
            QueryTimeout: _too_long,
        },
    )


def _asset(text: str, kind: str) -> Callable[[Request], Response]:
    return lambda _: Response(text, media_type=kind)


def _in_thread(
    handler: PageHandler, registry: RunRegistry
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        content = await anyio.to_thread.run_sync(handler, request, registry)
        return content if isinstance(content, Response) else _json(content)

    return endpoint


def _runs(request: Request, registry: RunRegistry) -> Any:
    runs = registry.runs.all()
    studies = find_studies(registry.runs.root)
    folders = sorted(
        {study.name for study in studies if study.kind != "comparison"}, key=len, reverse=True
    )
    listed = []
    for run in runs:
        summary = {} if _hides(run, registry) else registry.summaries.get(run.directory.path)
        parts = {key: summary.get(key) for key in ("main", "second", "conclusion")}
        gates = [
            [gate["metric"], gate["verdict"], gate["passed"], gate["implied"]]
            for gate in summary.get("gates", ())
        ]
        queued = (run.directory.path / QUEUE_FILE).is_file()
        study = next((folder for folder in folders if run.name.startswith(f"{folder}/")), None)
        listed.append({**_facts(run), **parts, "gates": gates, "queue": queued, "study": study})
    return {
        "root": registry.runs.root.name,
        "single": runs[0].name if registry.runs.single and runs else None,
        "annotator": registry.annotator,
        "runs": listed,
        "studies": [study.as_json() for study in studies],
    }


def _hides(run: RunEntry, registry: RunRegistry) -> bool:
    """Whether this annotator may not see the verdicts of the run yet."""
    if not registry.annotator or run.live or not (run.directory.path / QUEUE_FILE).is_file():
        return False
    return hides_verdicts(registry.view(run))


def _run(request: Request, registry: RunRegistry) -> Any:
    run = registry.run(request.query_params.get("run", ""))
    content = {
        **_facts(run),
        "live": None,
        "summary": None,
        "notices": run_notes.facts_notices(run.facts),
    }
    content["report"] = (run.directory.path / "report.html").is_file()
    if run.live:
        return {**content, "live": registry.live(run).state()}
    view = registry.view(run)
    content |= {"annotator": view.annotator, "queue": (run.directory.path / QUEUE_FILE).is_file()}
    if hides_verdicts(view):
        return {**content, "report": False, "hidden": True}
    ready = registry.evaluate_for_page(view)
    return {
        **content,
        "summary": registry.summaries.get(run.directory.path),
        "hidden": False,
        "large": view.rows > LARGE,
        "ready": ready,
        "columns": [column.as_json() for column in view.columns().values()],
        "outcomes": view.evaluation.outcomes(),
        "evaluation": view.evaluation.name,
        "matrix": view.evaluation.matrix,
        "answers": list(view.evaluation.answers),
        "error": view.evaluation.error,
        "labelled": sum(label["label"] is not None for label in view.labels()[1].values()),
    }


def _query(request: Request, view: RunView) -> Query:
    """The rows that the URL asks for. Without `sort`, those to look at come first; with `row`, as in the file."""
    params = request.query_params
    sort, down = params.get("sort", ""), params.get("down") == "1"
    if not sort:
        sort, down = view.default_sort()
    return Query.parse(
        params.getlist("f"),
        params.get("q", ""),
        "" if sort == "row" else sort,
        down,
        tuple(view.columns()),
    )


def _shown_view(request: Request, registry: RunRegistry) -> RunView:
    """The run that the URL names. HTTPException where there is none, or its verdicts are hidden."""
    view = registry.view(registry.run(request.query_params.get("run", "")))
    check_shown(view)
    return view


def _rows(request: Request, registry: RunRegistry) -> Any:
    params = request.query_params
    view = _shown_view(request, registry)
    registry.evaluate_for_page(view)
    columns = view.columns()
    query = _query(request, view)
    names = [name for name in params.getlist("c") if name in columns][:40] or view.default_columns()
    total, page, rows = view.page(query, whole_number(params.get("page", "0")), names)
    view.shown_once = True
    return {
        "total": total,
        "per": PER_PAGE,
        "page": page,
        "columns": [columns[name].as_json() for name in names],
        "rows": rows,
        "sort": query.sort or "row",
        "down": query.down,
    }


def _wrong(request: Request, registry: RunRegistry) -> Any:
    params = request.query_params
    view = _shown_view(request, registry)
    position = whole_number(params.get("row", ""))
    registry.evaluate(view, wait_s=5.0)
    return {
        "row": view.next_wrong(
            _query(request, view), position, -1 if params.get("back") == "1" else 1
        )
    }


def _labels(request: Request, registry: RunRegistry) -> Any:
    view = _shown_view(request, registry)
    ready, content = registry.label_metrics(view)
    return {"ready": ready, **(content or {})}


def _row(request: Request, registry: RunRegistry) -> Any:
    params = request.query_params
    view = _shown_view(request, registry)
    try:
        position = (
            view.position(params["id"]) if "id" in params else whole_number(params.get("row", ""))
        )
        return view.details(position)
    except KeyError:
        raise HTTPException(404, "no such row") from None


def _queue(request: Request, registry: RunRegistry) -> Any:
    params = request.query_params
    view = registry.view(registry.run(params.get("run", "")))
    registry.evaluate(view, wait_s=5.0)
    return queue_state(view, whole_number(params["row"]) if "row" in params else None)


def _report(request: Request, registry: RunRegistry) -> Response:
    run = registry.run(request.query_params.get("run", ""))
    if not run.live:
        check_shown(registry.view(run))
    path = run.directory.path / "report.html"
    if not path.is_file() or path.is_symlink():
        raise HTTPException(404, "this run has no report.html")
    headers = {"content-security-policy": _REPORT_POLICY}
    return FileResponse(path, media_type="text/html; charset=utf-8", headers=headers)


def _study(request: Request, registry: RunRegistry) -> Response:
    params = request.query_params
    page = study_page(registry.runs.root, params.get("kind", ""), params.get("folder", ""))
    if page is None:
        raise HTTPException(404, "no such study")
    for run in registry.runs.all():
        if _hides(run, registry):  # the page may show what this person is not to see yet
            raise HTTPException(403, HIDDEN)
    headers = {"content-security-policy": _REPORT_POLICY}
    return FileResponse(page, media_type="text/html; charset=utf-8", headers=headers)


def _facts(run: Any) -> JsonObject:
    facts = run.facts.as_json()
    names = (
        "status", "config", "dataset", "started", "rows", "done", "failed", "abstained", "calls", "cost_usd",
        "wall_s", "models", "failures", "floors", "prompt_tokens", "completion_tokens", "seed",
    )  # fmt: skip
    return {"run": run.name, "name": facts["name"], **{name: facts[name] for name in names}}


def _shell(status: int = 200) -> HTMLResponse:
    """The page, whose script reads from the address what to show."""
    return HTMLResponse(viewer_page(), status, headers={"content-security-policy": POLICY})


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404 and not request.url.path.startswith(("/api/", "/assets/")):
        return _shell(404)
    return _json({"error": error.detail}, error.status_code)


async def _verdict_error(_: Request, error: Exception) -> Response:
    is_of_input = isinstance(error, UsageError | DataError | SpecError)
    return _json({"error": str(error)}, 422 if is_of_input else 500)


async def _too_long(_: Request, error: Exception) -> Response:
    return _json({"error": "the search took too long; add a filter, or use fewer words"}, 503)


def _json(document: Any, status: int = 200) -> Response:
    return Response(encoded(document), status, media_type="application/json")


_PAGES = {
    "/report": _report,
    "/study": _study,
    "/api/runs": _runs,
    "/api/run": _run,
    "/api/rows": _rows,
    "/api/row": _row,
    "/api/wrong": _wrong,
    "/api/labels": _labels,
    "/api/queue": _queue,
    "/api/compare": comparison_page,
}
"""What answers each address from the runs."""
