"""Data inside a page: JSON that no text can break out of, and compressed JSON that the page's script unpacks."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import orjson

COMPRESSION_LEVEL = 4
"""Of gzip: beyond it a page is written noticeably slower and is hardly smaller."""
NESTED = (list, dict)
"""Types whose JSON text holds several values."""
_INERT = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def island(value: Any) -> str:
    """JSON for a `<script type="application/json">`: no tag, comment or line end of HTML or JavaScript is in it."""
    return encoded(value).decode().translate(_INERT)


def packed(value: Any) -> str:
    """JSON, compressed by gzip, as base64."""
    return packed_bytes(encoded(value))


def packed_bytes(content: bytes) -> str:
    """Bytes, compressed by gzip, as base64."""
    return base64.b64encode(gzip.compress(content, COMPRESSION_LEVEL, mtime=0)).decode()


def encoded(value: Any) -> bytes:
    """JSON of any value: a value that JSON or UTF-8 cannot represent is written as text."""
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return orjson.dumps(_plain(value), option=orjson.OPT_NON_STR_KEYS)


def _plain(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_plain(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case bool() | float() | None:
            return value
        case int():
            return value if abs(value) < 1 << 53 else str(value)
        case _:
            return str(value)
