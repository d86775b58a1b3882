from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from verdict_cli.messages import Message, Request, Row
from verdict_cli.model import Model

PROMPT = "Question: what is the capital of France?\nAnswer: the capital is Paris, France.\nRate the answer."


def make_request(model: str | Model = "baseline/lexical", **fields: Any) -> Request:
    """A judge's request about one row; every field can be replaced."""
    settings: dict[str, Any] = {
        "row": Row(0, "a", {}),
        "node": "judge",
        "model": Model(name=model) if isinstance(model, str) else model,
        "messages": (Message("user", PROMPT),),
        "inserted": ("what is the capital of France?", "the capital is Paris, France."),
        **fields,
    }
    return Request(**settings)


@pytest.fixture(scope="session")
def request_for() -> Callable[..., Request]:
    return make_request
