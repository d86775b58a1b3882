"""JSON as servers and recordings write it: the standard's, and the NaN that Python writes."""

from __future__ import annotations

import json
from typing import Any

import orjson


def loads(text: bytes) -> Any:
    """The value. Raises ValueError for anything that is not JSON in UTF-8, or that could not be written out again."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(text)
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
        except RecursionError:
            raise ValueError("nested too deeply") from None
        return value
