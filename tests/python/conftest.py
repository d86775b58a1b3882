"""Recordings that answer a pipeline's calls, so that tests ask no model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

Recorded = Callable[..., Path]


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """`recorded(judge='{"score": 4}')`: a recording in which each unit gives its reply in row 0; a list has one
    reply an attempt; `recorded(rows=[{...}, …])` one mapping a row. A reply may be a mapping of the recording's keys."""
    numbers = count()

    def make(
        replies: Mapping[str, Any] | None = None,
        rows: list[Mapping[str, Any]] | None = None,
        **more: Any,
    ) -> Path:
        path = tmp_path / f"recording{next(numbers)}.jsonl"
        with path.open("w") as file:
            for row, units in enumerate(
                rows if rows is not None else [{**(replies or {}), **more}]
            ):
                for unit, answers in units.items():
                    for attempt, reply in enumerate(
                        answers if isinstance(answers, list) else [answers]
                    ):
                        fields = reply if isinstance(reply, dict) else {"reply": reply}
                        record = {"row": row, "unit": unit, "attempt": attempt, **fields}
                        file.write(json.dumps(record) + "\n")
        return path

    return make
