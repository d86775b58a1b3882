"""A run's queue as one annotator sees it: the next row, their progress, and what a blind queue hides from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from verdict_cli.features.viewer.run_view import MOST_CELL_TEXT, RunView
from verdict_cli.report.chat import as_conversation, chat_turns
from verdict_cli.storage.tables.human_labels import HumanLabel, label_key
from verdict_cli.storage.tables.label_queue import LabelQueue, QueuedRow, next_rows, read_queue
from verdict_cli.storage.tables.reader import read_rows

if TYPE_CHECKING:
    from verdict_cli.features.viewer.run_registry import RunRegistry

MOST_LABEL_CHARS, MOST_NOTE_CHARS = 1_000, 20_000
HIDDEN = "this queue is blind: the verdicts are shown once your part of it is labelled"


def hides_verdicts(view: RunView) -> bool:
    """Whether the judge's verdicts are hidden: a blind queue still has rows for this annotator."""
    if not view.annotator:
        return False
    queue = read_queue(view.run.directory.path)
    return queue is not None and queue.blind and bool(next_rows(queue, view.annotations(), view.annotator))


def check_shown(view: RunView) -> None:
    """HTTPException 403 where the verdicts are hidden."""
    if hides_verdicts(view):
        raise HTTPException(403, HIDDEN)


def queue_state(view: RunView, position: int | None = None) -> dict[str, Any]:
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
    shown: QueuedRow | None
    if position is None:
        shown = waiting[0] if waiting else None
    else:
        shown = next((row for row in queue.rows if row.row == position), None)
        if shown is None:
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
        "row": None if shown is None else _row(view, shown),
        "answers": list(view.evaluation.answers),
    }


def _row(view: RunView, shown: QueuedRow) -> dict[str, Any]:
    names = view.judged_columns()
    (batch,) = read_rows(view.results, [shown.row], names) if names else ({},)
    source = {name.removeprefix("source."): batch[name][0] for name in names}
    talks = {name: messages for name, value in source.items() if (messages := as_conversation(value)) is not None}
    own = view.annotations().get(label_key(shown.id), {}).get(view.annotator, HumanLabel())
    return {
        "position": shown.row,
        "id": shown.id,
        "source": {name: _cut(value) for name, value in source.items() if name not in talks},
        "chats": {name: chat_turns(messages, _cut, MOST_CELL_TEXT) for name, messages in talks.items()},
        "human": {"label": own.label, "note": own.note, "at": own.at},
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


def label_endpoint(registry: RunRegistry) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint that stores a label; a body without `note` keeps the note that is there."""

    async def endpoint(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "send JSON")
        try:
            body = await request.json()
            run, position, label, note, skip = (body.get(key) for key in ("run", "row", "label", "note", "skip"))
            keeps_note = "note" not in body
        except (ValueError, AttributeError, RecursionError):
            raise HTTPException(422, "the body is not a JSON object") from None
        is_valid = isinstance(run, str) and type(position) is int and (note is None or isinstance(note, str))
        is_valid = is_valid and (skip is None or (isinstance(skip, bool) and not (skip and label is not None)))
        if not is_valid or not (label is None or isinstance(label, str | int | float | bool)):
            raise HTTPException(422, "give `run`, `row` (the position), and `label` and `note`, or `skip`")
        if len(str(label)) > MOST_LABEL_CHARS or len(note or "") > MOST_NOTE_CHARS:
            raise HTTPException(413, "the label or the note is too long")
        kept = True if keeps_note else note
        await anyio.to_thread.run_sync(_store_label, registry, run, position, label, kept, skip is True)
        return JSONResponse({"saved": True})

    return endpoint


def _store_label(
    registry: RunRegistry, run: str, position: int, label: Any, note: str | bool | None, skipped: bool
) -> None:
    view = registry.view(registry.run(run))
    try:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        view.add_label(position, label, note, at, skipped=skipped)
    except KeyError:
        raise HTTPException(404, "no such row") from None
