"""What tests of runs with several parts share: a pipeline, its replies, and how tables are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from verdict_cli.errors import Rejected
from verdict_cli.messages import Reply, Request
from verdict_cli.storage.tables.reader import read_table

STEPS = """
- {unit: CoTUnit, name: rule, prompt: 'Say how to rate', pin: true}
- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text} as {previous.thinking}'}
"""
COUNTS = ("rows", "done", "failed", "calls", "prompt_tokens", "failures", "models", "reasons", "abstained")


class Killed(BaseException):
    """In the place of a SIGKILL."""


async def spoken(request: Request) -> Reply:
    if request.row.source.get("text") == "text 3":
        raise Rejected("too long", kind="context-too-long")
    return Reply('{"score": 3}' if request.json_schema else "strictly", cost_usd=0.5)


def cells(path: Path) -> list[tuple[Any, ...]]:
    """The rows of a table, without what says that a call was recalled."""
    found = []
    for batch in read_table(path):
        batch.pop("recalled", None)
        batch.pop("latency_s", None)
        found += [tuple(batch), *zip(*batch.values(), strict=True)][1:]
    return [tuple(map(str, row)) for row in found]


def copies(folder: Path, count: int = 23) -> Path:
    """Rows of which many are equal, in all parts."""
    path = folder / "copies.jsonl"
    path.write_text("".join(json.dumps({"text": f"text {place % 4}"}) + "\n" for place in range(count)))
    return path
