"""A call and a finished row as records of a database, each with its checksum."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from verdict_cli.messages import Reply, Stage
from verdict_cli.storage.database.schema import DamagedError

_COMPRESSED_FROM = 1000
"""Bytes from which compression saves more than it costs."""
_COMPRESSION = (1, zlib.DEFLATED, 14, 7)
"""Level, method, window and memory: of one size more, each record would have its memory from the system, which takes 50 µs."""
_ZLIB = 0x68
"""The first byte of what zlib then writes, with which no record begins."""
_MOST_COMPRESSION = 1100
"""How many times longer than its compressed form a value of zlib can be: 1032, by its format."""
LONGEST = 1 << 28
"""Bytes of the longest value, decompressed."""

T = TypeVar("T")
Images = tuple[tuple[int, str], ...]


class CallContent(Struct, frozen=True, array_like=True, gc=False):
    """What is stored of a call beside the columns of its table.

    ``messages`` are role, number of the text, and images. ``error``, ``retryable``: of a failure.
    ``reused``: another run, or the shared cache, had the reply.
    """

    reply: Reply | None
    messages: tuple[tuple[str, int, Images], ...] = ()
    error: str = ""
    retryable: bool = False
    latency_s: float = 0.0
    reused: bool = False


class StoredCall(Struct, frozen=True, gc=False):
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


class RowCall(Struct, frozen=True, array_like=True, gc=False):
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


class StoredRow(Struct, frozen=True, array_like=True, gc=False):
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
    kind: msgspec.msgpack.Decoder(kind) for kind in (CallContent, StoredRow)
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
    return encoded if len(encoded) < _COMPRESSED_FROM else _compressed(encoded)


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


def encode_text(text: str) -> bytes | str:
    """A text as the value of a column: itself, compressed where it is long."""
    if len(text) < _COMPRESSED_FROM and text.isascii():
        return text
    return _compressed(text.encode("utf-8", "surrogatepass"))


def decode_text(value: Any) -> str:
    """The text of a column. DamagedError for a value that `encode_text` does not give."""
    if isinstance(value, str):
        return value
    try:
        return _decompressed(value).decode("utf-8", "surrogatepass")
    except (ValueError, TypeError, zlib.error) as error:
        raise DamagedError(f"a text cannot be read: {error}") from None


def _compressed(content: bytes) -> bytes:
    compressor = zlib.compressobj(*_COMPRESSION)
    return compressor.compress(content) + compressor.flush()


def _decompressed(value: bytes) -> bytes:
    if len(value) < LONGEST // _MOST_COMPRESSION:
        return zlib.decompress(value, bufsize=4 * len(value))
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
        same = zlib.crc32(_checked(values)) == stored
    except (ValueError, TypeError):
        same = False
    if not same:
        raise DamagedError("the checksum of a record differs")
