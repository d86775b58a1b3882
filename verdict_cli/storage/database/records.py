"""A call and a finished row as records of a database, each with its checksum."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple

from verdict_cli.messages import Alternative, Reply, Stage, Usage
from verdict_cli.storage.database.schema import DamagedError

_COMPRESSED_FROM = 400
"""Bytes from which compression saves more than it costs."""
_LEVEL = 1
_ZLIB = 0x78
"""The first byte of what zlib writes, with which no record begins."""
LONGEST = 1 << 28
"""Bytes of the longest value, decompressed."""

T = TypeVar("T")
Images = tuple[tuple[int, str], ...]


class CallContent(Struct, frozen=True):
    """What is stored of a call beside the columns of its table.

    ``messages`` are role, number of the text, and images. ``error``, ``retryable``: of a failure.
    ``saved_usd``: what the provider's cache saved. ``reused``: another run, or the shared cache, had the reply.
    """

    reply: Reply | None
    messages: tuple[tuple[str, int, Images], ...] = ()
    error: str = ""
    retryable: bool = False
    latency_s: float = 0.0
    saved_usd: float | None = 0.0
    reused: bool = False


class _StoredReply(Struct, frozen=True, array_like=True):
    """A reply without what only the call itself needs."""

    text: str
    finish_reason: str
    logprobs: tuple[tuple[tuple[str, float], ...], ...] | None
    usage: Usage
    cost_usd: float | None
    model: str
    latency_s: float
    cached: bool
    sent: str
    system_fingerprint: str = ""
    reasoning: str = ""
    service_tier: str = ""
    request: str = ""

    @classmethod
    def of(cls, reply: Reply) -> _StoredReply:
        """The reply as it is stored."""
        logprobs = reply.logprobs
        return cls(
            reply.text,
            reply.finish_reason,
            None
            if logprobs is None
            else tuple([tuple(map(astuple, position)) for position in logprobs]),
            reply.usage,
            reply.cost_usd,
            reply.model,
            reply.latency_s,
            reply.cached,
            reply.sent,
            reply.system_fingerprint,
            reply.reasoning,
            reply.service_tier,
            reply.request,
        )

    def reply(self) -> Reply:
        """The reply."""
        logprobs = self.logprobs
        return Reply(
            self.text,
            self.finish_reason,
            None
            if logprobs is None
            else tuple([tuple([Alternative(*one) for one in some]) for some in logprobs]),
            self.usage,
            self.cost_usd,
            self.model,
            self.latency_s,
            cached=self.cached,
            sent=self.sent,
            system_fingerprint=self.system_fingerprint,
            reasoning=self.reasoning,
            service_tier=self.service_tier,
            request=self.request,
        )


class _StoredContent(Struct, frozen=True, array_like=True):
    reply: _StoredReply | None
    messages: tuple[tuple[str, int, Images], ...]
    error: str
    retryable: bool
    latency_s: float
    saved_usd: float | None
    reused: bool


class StoredCall(Struct, frozen=True):
    """A call in a database. ``usable``: its reply may answer equal requests of other rows."""

    number: int
    digest: bytes | None
    row: int
    unit: str
    item: str
    call: int
    attempt: int
    model: str
    failure: str
    usable: bool
    content: CallContent


class RowCall(Struct, frozen=True, array_like=True):
    """A call as a row has it: the number of its record, and what is the row's own.

    ``shared``: an equal request of another row had the reply. ``recalled``: an earlier process had paid for it.
    """

    number: int
    unit: str
    item: str = ""
    call: int = 0
    attempt: int = 0
    failure: str = ""
    error: str = ""
    shared: bool = False
    recalled: bool = False
    repaired: bool = False
    mass: float | None = None


class StoredRow(Struct, frozen=True, array_like=True):
    """A finished row: what the tables and the counts need of it.

    ``names`` is the number of the text with the names of its columns, ``values`` are theirs.
    """

    row: int
    id: str | int
    names: int
    values: list[Any]
    calls: tuple[RowCall, ...]
    status: str = "ok"
    failure: tuple[str, str] | None = None
    saved: dict[str, int] = field(default_factory=dict)
    stages: dict[str, tuple[Stage, ...]] = field(default_factory=dict)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be stored")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)
_DECODERS: dict[Any, Any] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (_StoredContent, StoredRow)
}
_checked = msgspec.msgpack.Encoder().encode


def encode(record: Struct) -> bytes | str:
    """A record as the value of a column: MessagePack, compressed where it is long."""
    try:
        encoded = _ENCODER.encode(record)
    except (
        UnicodeEncodeError,
        OverflowError,
    ):  # half a surrogate pair, an integer of more than 64 bits
        return json.dumps(msgspec.to_builtins(record, enc_hook=_plain))
    return encoded if len(encoded) < _COMPRESSED_FROM else zlib.compress(encoded, _LEVEL)


def decode(kind: type[T], value: Any) -> T:
    """The record of a column. DamagedError for a value that `encode` does not give."""
    try:
        if isinstance(value, str):
            return msgspec.convert(json.loads(value), kind)
        content = _decompressed(value) if value[0] == _ZLIB else value
        record: T = _DECODERS[kind].decode(content)
    except (ValueError, TypeError, IndexError, zlib.error, RecursionError) as error:
        raise DamagedError(f"a record cannot be read: {error}") from None
    return record


def encode_content(content: CallContent) -> bytes | str:
    """What is stored of a call as the value of a column."""
    reply = None if content.reply is None else _StoredReply.of(content.reply)
    return encode(_StoredContent(reply, *astuple(content)[1:]))


def decode_content(value: Any) -> CallContent:
    """What `encode_content` has stored. DamagedError for another value."""
    stored = decode(_StoredContent, value)
    return CallContent(None if stored.reply is None else stored.reply.reply(), *astuple(stored)[1:])


def encode_text(text: str) -> bytes | str:
    """A text as the value of a column: itself, compressed where it is long."""
    if len(text) < _COMPRESSED_FROM and text.isascii():
        return text
    return zlib.compress(text.encode("utf-8", "surrogatepass"), _LEVEL)


def decode_text(value: Any) -> str:
    """The text of a column. DamagedError for a value that `encode_text` does not give."""
    if isinstance(value, str):
        return value
    try:
        return _decompressed(value).decode("utf-8", "surrogatepass")
    except (ValueError, TypeError, zlib.error) as error:
        raise DamagedError(f"a text cannot be read: {error}") from None


def _decompressed(value: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    content = decompressor.decompress(value, LONGEST)
    if not decompressor.eof:
        raise DamagedError("a record is cut off, or too long")
    return content


def checksum(*values: Any) -> int:
    """The checksum of the columns of a record."""
    return zlib.crc32(_checked(values))


def check(values: tuple[Any, ...], stored: Any) -> None:
    """DamagedError where the columns are not those whose checksum was stored."""
    try:
        same = checksum(*values) == stored
    except (ValueError, TypeError):
        same = False
    if not same:
        raise DamagedError("the checksum of a record differs")
