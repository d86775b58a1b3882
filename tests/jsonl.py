"""Rows as the text of a file of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable


def jsonl(rows: Iterable[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)
