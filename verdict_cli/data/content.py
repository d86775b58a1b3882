"""A row's name by its content, which is the same in every process, file and place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson


def content_key(record: Mapping[str, Any]) -> str:
    """32 hex digits (BLAKE2b) over the record as JSON, its columns sorted. Equal records share it."""
    try:
        text = orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # integers beyond 64 bits, halves of surrogate pairs
        text = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    return blake2b(text, digest_size=16).hexdigest()
