"""Errors that a model plants in the judged texts, in place of the rules of `degradations.py`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from verdict_cli.messages import Row
from verdict_cli.storage.tables.reader import read_table

INSTRUCTIONS: Mapping[str, str] = {
    "negation": "negate one of its statements, or remove a negation",
    "number": "replace one number by another one that is clearly wrong",
    "entity": "replace the name of one person, place, organisation or work by another of the same sort, wherever it occurs",
    "unit": "replace the unit of one number by another unit of the same kind, so that the quantity is wrong",
    "cut end": "leave out its last third to half, so that it stops too early",
    "shuffled sentences": "put its sentences into another order, in which it no longer makes sense",
    "invented quote": "add one sentence with a quotation that nobody said",
}
"""What each kind of error asks for, by the kinds of `degradations.py`."""
REQUEST = (
    "Change the text below so that it has one error, and is worse by it: {instruction}. Change nothing else: keep its "
    "language, tone and layout. Do not mark, mention or explain the error. If the text has no place for this error, answer "
    "with the text as it is.\n\nAnswer with `text`: the whole changed text.\n\nThe text:\n{text}"
)
Texts = Mapping[tuple[str, str], str]
"""(kind, text) -> the text with an error of that kind."""


def planting_pipeline(model: str) -> dict[str, Any]:
    """The pipeline that plants: a row a kind and text, so that a stopped audit pays for no text twice."""
    unit = {"unit": "Unit", "name": "planted", "prompt": "{source.request}", "response": {"text": "str"}}
    return {"verdict": 1, "name": "planted-errors", "model": model, "pipeline": [unit]}


def planting_requests(rows: Iterable[Row], column: str, kinds: Iterable[str]) -> list[dict[str, Any]]:
    """A request for each kind and each distinct text of the column."""
    texts = dict.fromkeys(row.source.get(column) for row in rows)
    pairs = [(kind, text) for text in texts if isinstance(text, str) and text.strip() for kind in kinds]
    return [
        {"id": at, "kind": kind, "text": text, "request": REQUEST.format(instruction=INSTRUCTIONS[kind], text=text)}
        for at, (kind, text) in enumerate(pairs)
    ]


def planted_texts(results: Path, requests: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """The texts of a finished run over these requests; those that could not be read, or are blank, are left out."""
    return {
        (requests[int(at)]["kind"], requests[int(at)]["text"]): text.strip()
        for batch in read_table(results, ["id", "status", "output.text"])
        for at, status, text in zip(batch["id"], batch["status"], batch["output.text"], strict=True)
        if status == "ok" and (text or "").strip()
    }


def planted_change(planted: Texts, kind: str) -> tuple[Callable[[str], str], str]:
    """The change of a probe, and what identifies it. A text without an error of this kind stays as it is."""
    mine = {text: changed for (of, text), changed in planted.items() if of == kind and changed != text.strip()}
    digest = blake2b(json.dumps(sorted(mine.items())).encode(), digest_size=16).hexdigest()
    return lambda text: mine.get(text, text), digest
