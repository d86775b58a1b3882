"""A completed call and its line in the journal."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson
from msgspec import Struct

from verdict_cli.messages import Alternative, Call, Reply, Usage

CallKey = tuple[str, str, str, int, int]
"""The row's key, the node, its fingerprint, call, attempt. It depends on content alone, not on the row's number."""


class JournalEntry(Struct, frozen=True):
    """A call's reply, or the kind (``failure``) and the message (``error``) of its failure.

    A reply that was paid for but is unusable (empty, refused or cut off) has both. ``row`` is the row's key. The
    journal fills in ``fingerprint``, that of the node.
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

    @classmethod
    def of(cls, call: Call, *, retryable: bool = False) -> JournalEntry:
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
        )

    @property
    def key(self) -> CallKey:
        """What identifies the call."""
        return self.row, self.node, self.fingerprint, self.call, self.attempt


def encode_entry(entry: JournalEntry, fingerprint: str = "") -> bytes:
    """The entry as one line of JSON with its line end; ``fingerprint`` where the entry has none.

    Logprobs are lists ``[token, logprob]``; an infinite logprob, which JSON cannot express, is a string.
    """
    fields: dict[str, Any] = {
        "row": entry.row,
        "node": entry.node,
        "fingerprint": entry.fingerprint or fingerprint,
        "call": entry.call,
        "attempt": entry.attempt,
        "latency": entry.latency_s,
    }
    if entry.reply is None:
        fields |= {"failure": entry.failure, "error": entry.error, "retryable": entry.retryable}
    else:
        fields["reply"] = reply_fields(entry.reply)
        if entry.failure or entry.error or entry.retryable:
            fields |= {"failure": entry.failure, "error": entry.error, "retryable": entry.retryable}
    try:
        return orjson.dumps(fields) + b"\n"
    except TypeError:  # half a surrogate pair: orjson refuses it, the standard library escapes it
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


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
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("this line is not a journal entry") from error


def key_of(line: bytes) -> CallKey:
    """The key of a line, without decoding its reply. Raises ValueError where the line is not an entry."""
    try:
        fields = _parsed(line)
        key = fields["row"], fields["node"], fields["fingerprint"], fields["call"], fields["attempt"]
        if "latency" not in fields or not isinstance(key[0], str):
            raise ValueError("this line is not a journal entry")
    except (KeyError, TypeError) as error:
        raise ValueError("this line is not a journal entry") from error
    return key


def _parsed(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        if rb"\ud" not in line.lower():
            raise
        return json.loads(line)


def reply_fields(reply: Reply) -> dict[str, Any]:
    """The reply as JSON values. `read_reply` restores all but its ``allowance``."""
    logprobs = reply.logprobs
    return {
        "text": reply.text,
        "finish": reply.finish_reason,
        "logprobs": None
        if logprobs is None
        else [[[one.token, _json_logprob(one.logprob)] for one in position] for position in logprobs],
        "usage": [reply.usage.prompt_tokens, reply.usage.completion_tokens],
        "cost": reply.cost_usd,
        "model": reply.model,
        "latency": reply.latency_s,
        "recalled": reply.recalled,
        "cached": reply.cached,
        "sent": reply.sent,
    }


def read_reply(fields: dict[str, Any]) -> Reply:
    """The reply of `reply_fields`. KeyError or TypeError for other fields."""
    logprobs = fields["logprobs"]
    return Reply(
        fields["text"],
        fields["finish"],
        None
        if logprobs is None
        else tuple(
            tuple(Alternative(token, _read_logprob(value)) for token, value in position) for position in logprobs
        ),
        Usage(*fields["usage"]),
        fields["cost"],
        fields["model"],
        fields["latency"],
        fields["recalled"],
        fields.get("cached", False),
        fields.get("sent", ""),
    )


def _json_logprob(logprob: float) -> float | str:
    return logprob if math.isfinite(logprob) else str(logprob)


def _read_logprob(value: float | str) -> float:
    return float(value) if isinstance(value, str) else value
