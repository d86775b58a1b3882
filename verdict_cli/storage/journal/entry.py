"""A completed call and its line in the journal."""

from __future__ import annotations

import json
import math
import re
import zlib
from typing import Any

import orjson
from msgspec import Struct

from verdict_cli.messages import Alternative, Call, Reply, Usage

CallKey = tuple[str, str, str, int, int, str]
"""The row's key, the node, its fingerprint, call, attempt, and the number of the entry inside `each`. It depends on content
alone, not on the row's number."""
PINNED = "pinned"
"""The key of the row under which the calls of pinned units are recorded, and the name of the partition that makes them."""


class JournalEntry(Struct, frozen=True):
    """A call's reply, or the kind (``failure``) and the message (``error``) of its failure.

    A reply that was paid for but is unusable (empty, refused or cut off) has both. ``row`` is the row's key. The
    journal fills in ``fingerprint``, that of the node. ``item`` is the number of the entry inside `each`, ``content`` a digest of
    the entry and of what was asked, by which the call is found when the row's other entries change.
    """

    row: str
    node: str
    call: int
    attempt: int
    reply: Reply | None
    failure: str = ""
    error: str = ""
    retryable: bool = False
    latency_s: float = 0.0
    fingerprint: str = ""
    item: str = ""
    content: str = ""

    @classmethod
    def of(cls, call: Call, *, retryable: bool = False, content: str = "") -> JournalEntry:
        """The entry of a call; ``retryable``: its failure may be temporary."""
        request = call.request
        return cls(
            request.row.key,
            request.node,
            request.call,
            request.attempt,
            call.reply,
            call.failure,
            call.error,
            retryable,
            call.latency_s,
            item=request.row.item,
            content=content,
        )

    @property
    def key(self) -> CallKey:
        """What identifies the call."""
        return self.row, self.node, self.fingerprint, self.call, self.attempt, self.item

    @property
    def content_key(self) -> CallKey:
        """What identifies a call inside `each` wherever its entry is."""
        return self.content, self.node, self.fingerprint, self.call, self.attempt, ""


def encode_entry(entry: JournalEntry, fingerprint: str = "") -> bytes:
    """The entry as one line of JSON with its checksum and line end; ``fingerprint`` where the entry has none.

    The last key, ``crc``, is the CRC-32 of the line without it, in 8 hex digits. Logprobs are lists ``[token, logprob]``; an infinite logprob, which JSON cannot express, is a string.
    """
    fields: dict[str, Any] = {
        "row": entry.row,
        "node": entry.node,
        "fingerprint": entry.fingerprint or fingerprint,
        "call": entry.call,
        "attempt": entry.attempt,
        "latency": entry.latency_s,
    }
    if entry.item:
        fields |= {"item": entry.item, "content": entry.content}
    if entry.reply is not None:
        fields["reply"] = reply_fields(entry.reply)
    if entry.reply is None or entry.failure or entry.error or entry.retryable:
        fields |= {"failure": entry.failure, "error": entry.error, "retryable": entry.retryable}
    try:
        text = orjson.dumps(fields)
    except TypeError:  # half a surrogate pair: orjson refuses it, the standard library escapes it
        text = json.dumps(fields, separators=(",", ":")).encode()
    return b'%s,"crc":"%08x"}\n' % (text[:-1], zlib.crc32(text))


def decode_entry(line: bytes) -> JournalEntry:
    """The entry of a line. Raises ValueError where the line is not an entry."""
    try:
        fields = _parsed(line)
        reply = fields.get("reply")
        return JournalEntry(
            fields["row"],
            fields["node"],
            fields["call"],
            fields["attempt"],
            None if reply is None else read_reply(reply),
            fields.get("failure", ""),
            fields.get("error", ""),
            fields.get("retryable", False),
            fields["latency"],
            fields["fingerprint"],
            fields.get("item", ""),
            fields.get("content", ""),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("this line is not a journal entry") from error


def keys_of(line: bytes) -> tuple[CallKey, ...]:
    """The keys of a line, without decoding its reply: inside `each` also that of its content. Raises ValueError where the
    line is not an entry."""
    try:
        fields = _parsed(line)
        rest = fields["node"], fields["fingerprint"], fields["call"], fields["attempt"]
        key = fields["row"], *rest, fields.get("item", "")
        if "latency" not in fields or not isinstance(key[0], str):
            raise ValueError("this line is not a journal entry")
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("this line is not a journal entry") from error
    return (key, (fields["content"], *rest, "")) if fields.get("content") else (key,)


_CHECKSUM = re.compile(rb',"crc":"([0-9a-f]{8})"\}\s*\Z')
_CHECKSUM_LENGTH = 19
_KEYS = {"latency", "crc", *JournalEntry.__struct_fields__} - {"latency_s"}


def _parsed(line: bytes) -> Any:
    """The JSON of a line. ValueError for a damaged line; lines of earlier versions have no checksum."""
    checksum = _CHECKSUM.search(line, max(0, len(line) - _CHECKSUM_LENGTH))
    if checksum is not None:
        covered = zlib.crc32(b"}", zlib.crc32(memoryview(line)[: checksum.start()]))
        if covered != int(checksum[1], 16):
            raise ValueError("this line is damaged: its checksum differs")
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        if rb"\ud" not in line.lower():
            raise
        fields = json.loads(line)
    # A damaged checksum would else look like a line of an earlier version, which has no other keys.
    if not fields.keys() <= _KEYS or ("crc" in fields and checksum is None):
        raise ValueError("this line is not a journal entry")
    return fields


def reply_fields(reply: Reply) -> dict[str, Any]:
    """The reply as JSON values. `read_reply` restores all but its ``allowance``."""
    logprobs, usage = reply.logprobs, reply.usage
    fields: dict[str, Any] = {
        "text": reply.text,
        "finish": reply.finish_reason,
        "logprobs": None
        if logprobs is None
        else [
            [[alternative.token, _json_logprob(alternative.logprob)] for alternative in position]
            for position in logprobs
        ],
        "usage": [usage.prompt_tokens, usage.completion_tokens],
        "cost": reply.cost_usd,
        "model": reply.model,
        "latency": reply.latency_s,
        "recalled": reply.recalled,
        "cached": reply.cached,
        "sent": reply.sent,
    }
    if usage.cached_tokens or usage.cache_write_tokens or usage.reasoning_tokens or usage.note:
        fields["usage"] += [usage.cached_tokens, usage.cache_write_tokens, usage.reasoning_tokens]
        fields["usage"] += [usage.hour_cache_tokens, usage.note] if usage.hour_cache_tokens or usage.note else []
    if reply.system_fingerprint or reply.reasoning or reply.service_tier:
        fields["served"] = [reply.system_fingerprint, reply.reasoning, reply.service_tier]
    if reply.request:
        fields["request"] = reply.request
    return fields


def read_reply(fields: dict[str, Any]) -> Reply:
    """The reply of `reply_fields`. KeyError or TypeError for other fields."""
    logprobs = fields["logprobs"]
    return Reply(
        fields["text"],
        fields["finish"],
        None
        if logprobs is None
        else tuple(tuple(Alternative(token, float(value)) for token, value in position) for position in logprobs),
        Usage(*fields["usage"]),
        fields["cost"],
        fields["model"],
        fields["latency"],
        fields["recalled"],
        fields.get("cached", False),
        fields.get("sent", ""),
        None,
        *fields.get("served", ("", "", "")),
        *(False, (), fields.get("request", "")),
    )


def _json_logprob(logprob: float) -> float | str:
    return logprob if math.isfinite(logprob) else str(logprob)
