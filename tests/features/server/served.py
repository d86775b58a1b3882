"""The pipeline that is served in tests, and rows for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

ONE_JUDGE = """
verdict: 1
name: t
model: baseline/lexical
dataset: {id: key}
pipeline: [{unit: JudgeUnit, name: judge, prompt: 'Is {source.a} about {source.b}?'}]
"""
ROWS = [{"a": "a red house", "b": "a red house"}, {"a": "ships", "b": "the law of bees"}]


def asking(url: str, **keys: Any) -> str:
    """A pipeline that asks the loopback server."""
    model = {"name": "openai/m", "api_base": url, **keys}
    return ONE_JUDGE.replace("baseline/lexical", str(model).replace("'", '"'))


def until(true: Callable[[], object], seconds: float = 60.0) -> None:
    """Returns once it is true; fails when that takes too long."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
