"""The kinds of a table's columns, and how values of each become an Arrow array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from verdict_cli.data.json_text import METADATA, encode

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
    """The values as an Arrow array of that kind."""
    import pyarrow as pa

    if kind == "json":
        values = [value if value is None or isinstance(value, Json) else encode(value) for value in values]
    elif kind == "float":
        values = [None if value is None else float(value) for value in values]
    return pa.array(values, field("", kind).type, from_pandas=False)


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
