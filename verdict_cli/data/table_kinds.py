"""The kinds of a table's columns, and how values of each become an Arrow array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from verdict_cli.data.json_text import METADATA, encode
from verdict_cli.errors import OutputError

Kind = Literal["null", "bool", "int", "float", "str", "json"]

_EXACT = 1 << 53
_INT64 = 1 << 63
_SCALARS: dict[type, Kind] = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str"}


class Json(str):
    """Text that is already JSON."""

    __slots__ = ()


def kind_of(values: Sequence[Any]) -> Kind:
    """The narrowest kind that holds every one of the values exactly."""
    kinds: set[Kind] = {_SCALARS.get(kind, "json") for kind in set(map(type, values))} - {"null"}
    if not kinds:
        return "null"
    if kinds == {"int", "float"}:
        return "float" if all_exact(values) else "json"
    if len(kinds) > 1:
        return "json"
    kind = kinds.pop()
    if kind == "int" and not _within(values, -_INT64, _INT64 - 1):
        return "json"
    return "json" if kind == "str" and not _encodes(values) else kind


def wider(old: Kind, new: Kind, *, exact: bool) -> Kind:
    """The kind that holds both; ``exact``: every integer of the two is exactly a float."""
    if new in (old, "null"):
        return old
    if old == "null":
        return new
    return "float" if {old, new} == {"int", "float"} and exact else "json"


def all_exact(values: Sequence[Any]) -> bool:
    """Whether every integer among the values is exactly a float."""
    if int not in set(map(type, values)):
        return True
    return _within([value for value in values if type(value) is int], -_EXACT, _EXACT)


def field(name: str, kind: Kind) -> Any:
    """The Arrow field of a column."""
    import pyarrow as pa

    types = {
        "null": pa.null(),
        "bool": pa.bool_(),
        "int": pa.int64(),
        "float": pa.float64(),
        "str": pa.string(),
        "json": pa.string(),
    }
    return pa.field(name, types[kind], metadata=METADATA if kind == "json" else None)


def array(values: Sequence[Any], kind: Kind) -> Any:
    """The values as an Arrow array of that kind.

    Made from buffers: `pyarrow.array` imports pandas, which takes longer than all else that a small run does.
    """
    import numpy as np
    import pyarrow as pa

    count = len(values)
    if kind == "null":
        return pa.nulls(count)
    known = None
    if type(None) in set(map(type, values)):
        known = pa.py_buffer(_bits(np.fromiter((value is not None for value in values), np.bool_, count)))
    if kind == "bool":
        data = [pa.py_buffer(_bits(np.fromiter(map(bool, values), np.bool_, count)))]
    elif kind in ("int", "float"):
        numbers = values if known is None else (0 if value is None else value for value in values)
        data = [pa.py_buffer(np.fromiter(numbers, np.int64 if kind == "int" else np.float64, count))]
    else:
        texts = (
            [*map(str.encode, values)]
            if kind == "str" and known is None
            else [_text(value, kind) for value in values]
        )
        ends = np.zeros(count + 1, np.int64)
        np.cumsum(np.fromiter(map(len, texts), np.int64, count), out=ends[1:])
        if ends[-1] >= 1 << 31:
            raise OutputError(
                "a table cannot hold a row of more than 2 GiB", hint="leave the column out of the dataset"
            )
        data = [pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(field("", kind).type, count, [known, *data])


def _bits(truths: Any) -> Any:
    import numpy as np

    return np.packbits(truths, bitorder="little")


def _text(value: Any, kind: Kind) -> bytes:
    if value is None:
        return b""
    return (encode(value) if kind == "json" and not isinstance(value, Json) else value).encode()


def _within(values: Sequence[Any], low: int, high: int) -> bool:
    """Whether the numbers among the values, of which there is one, are all from `low` to `high`."""
    there = [value for value in values if value is not None]
    return bool(low <= min(there) and max(there) <= high)


def _encodes(values: Sequence[Any]) -> bool:
    """Whether the texts among the values are all UTF-8: a lone surrogate is not."""
    try:
        "".join([value for value in values if value is not None]).encode()
    except UnicodeEncodeError:
        return False
    return True
