"""The types of a table's columns, and how values become Arrow arrays or JSON text."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Any, Literal

import orjson
from msgspec import Struct

from verdict_cli.errors import OutputError
from verdict_cli.messages import NamedValues

ColumnKind = Literal["null", "bool", "int", "long", "float", "str", "native", "json"]
"""What a column holds: ``long`` are integers of 64 bits that are not all floats, too, ``native`` the Arrow lists and structs of
its declared type, ``json`` is JSON text of any values."""

_EXACT = 1 << 53  # floats hold every integer up to this
_INT64 = 1 << 63
_JSON_TEXT = {b"verdict": b"json"}
"""Arrow field metadata of a column in which every value that is not null is JSON text."""
_SCHEMA_KEY = b"verdict.schema"
"""The key of Arrow field metadata that holds the JSON Schema of the column's values."""
_SCALARS: dict[type, ColumnKind] = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
}


ORDERED_KEY = "x-ordered"
"""The key of a declared schema that says that its values go from the worst to the best."""


class DeclaredType(Struct, frozen=True):
    """What a pipeline declares of a column's values: the JSON Schema of its field type, a scale's values worst first."""

    schema: NamedValues

    @property
    def shape(self) -> Shape | None:
        """The form of the lists and mappings; None for other values, and where a part of the type is open."""
        shape = _shape_of(self.schema)
        return None if isinstance(shape, str) else shape

    @property
    def values(self) -> tuple[Any, ...]:
        """All values in order, where they are listed."""
        return tuple(self.schema.get("enum", ()))

    @property
    def ranks(self) -> Mapping[str, int]:
        """Words of an ordered scale with their places, 1 for the worst; empty for other values."""
        words = (
            self.values
            if self.schema.get(ORDERED_KEY) and all(isinstance(word, str) for word in self.values)
            else ()
        )
        return {word: rank for rank, word in enumerate(words, 1)}

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The smallest and the largest number, None where none is declared."""
        if "minimum" in self.schema and "maximum" in self.schema:
            return float(self.schema["minimum"]), float(self.schema["maximum"])
        if self.schema.get("type") == "boolean":
            return 0.0, 1.0
        values = self.values
        if not values or not {*map(type, values)} <= {bool, int, float}:
            return None
        return float(min(values)), float(max(values))


Shape = Literal["bool", "int", "float", "str"] | list["Shape"] | dict[str, "Shape"]
"""The form of values that Arrow has as scalars, as lists (`[that of the items]`) and as structs (that of each key)."""
SCALAR_KINDS: dict[Any, Literal["bool", "int", "float", "str"]] = {
    "boolean": "bool",
    "integer": "int",
    "number": "float",
    "string": "str",
}
"""The kinds of values by the types of JSON Schema."""


def _shape_of(schema: NamedValues) -> Shape | None:
    """The form of the values of a JSON Schema, null or not; None where it leaves something open."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if choices:
        return _shape_of(choices[0]) if len(choices) == 1 else None
    kind = schema.get("type")
    if kind == "array":
        item = _shape_of(schema.get("items", {}))
        return None if item is None else [item]
    if kind == "object":
        fields = {name: _shape_of(inner) for name, inner in schema.get("properties", {}).items()}
        shapes = {name: shape for name, shape in fields.items() if shape is not None}
        return shapes if shapes and len(shapes) == len(fields) else None
    return SCALAR_KINDS.get(kind)


def _arrow_type(shape: ColumnKind | Shape) -> Any:
    import pyarrow as pa

    if isinstance(shape, list):
        return pa.list_(_arrow_type(shape[0]))
    if isinstance(shape, dict):
        return pa.struct([(name, _arrow_type(inner)) for name, inner in shape.items()])
    return field("", shape).type


def fits_shape(values: Sequence[Any], shape: Shape) -> bool:
    """Whether the shape holds every one of the values exactly."""
    if isinstance(shape, list):
        lists = [value for value in values if value is not None]
        return all(isinstance(value, list | tuple) for value in lists) and fits_shape(
            [*chain(*lists)], shape[0]
        )
    if isinstance(shape, dict):
        names = shape.keys()
        mappings = [_text_keyed(value, names) for value in values if value is not None]
        return all(
            isinstance(value, Mapping) and value.keys() == names for value in mappings
        ) and all(
            fits_shape([value[name] for value in mappings], inner) for name, inner in shape.items()
        )
    return wider(shape, column_kind_of(values)) in (shape, "long")


def _text_keyed(value: Any, names: Collection[str]) -> Any:
    """A mapping with its keys as JSON has them: those of a distribution are the values of its scale."""
    is_plain = not isinstance(value, Mapping) or value.keys() == names or len(value) != len(names)
    return value if is_plain else decode_json_text(encode_json_text(value))


def column_kind_of(values: Sequence[Any]) -> ColumnKind:
    """The narrowest kind that holds every one of the values exactly, texts as far as they are UTF-8."""
    types = set(map(type, values))
    kinds: set[ColumnKind] = {_SCALARS.get(kind, "json") for kind in types}
    if int in types:
        integers = values if len(types) == 1 else [value for value in values if type(value) is int]
        low, high = min(integers), max(integers)
        if low < -_INT64 or high >= _INT64:
            return "json"
        if low < -_EXACT or high > _EXACT:
            kinds.add("long")
    return reduce(wider, kinds, "null")


def wider(old: ColumnKind, new: ColumnKind) -> ColumnKind:
    """The kind that holds both."""
    if new in (old, "null"):
        return old
    if old == "null":
        return new
    return _WIDER.get(frozenset((old, new)), "json")


_WIDER: dict[frozenset[ColumnKind], ColumnKind] = {
    frozenset(("int", "long")): "long",
    frozenset(("int", "float")): "float",
}


def field(name: str, kind: ColumnKind, declared: DeclaredType | None = None) -> Any:
    """The Arrow field of a column. Its metadata says whether its text is JSON, and what the pipeline declares of it."""
    import pyarrow as pa

    types = {
        "null": pa.null(),
        "bool": pa.bool_(),
        "int": pa.int64(),
        "long": pa.int64(),
        "float": pa.float64(),
        "str": pa.string(),
        "json": pa.string(),
    }
    shape = declared.shape if declared is not None and kind == "native" else None
    metadata = dict(_JSON_TEXT) if kind == "json" else {}
    if declared is not None:
        metadata[_SCHEMA_KEY] = orjson.dumps(declared.schema)
    return pa.field(
        name, types[kind] if shape is None else _arrow_type(shape), metadata=metadata or None
    )


def declared_type(field: Any) -> DeclaredType | None:
    """What the pipeline declares of an Arrow field; None in tables of versions that did not say it."""
    text = (field.metadata or {}).get(_SCHEMA_KEY)
    return None if text is None else DeclaredType(orjson.loads(text))


def array(values: Sequence[Any], kind: ColumnKind | Shape) -> Any:
    """The values as an Arrow array of that kind, or of the shape that they fit. UnicodeEncodeError for half a surrogate pair.

    Built from buffers: `pyarrow.array` imports pandas, which takes longer than the rest of a small run.
    """
    import numpy as np
    import pyarrow as pa

    count, nulls, known, inner = len(values), values.count(None), None, []
    if nulls == count:
        return pa.nulls(count, _arrow_type(kind))
    if nulls:
        known = _bits([value is not None for value in values])
    if isinstance(kind, list):
        data = [_offsets((len(value or ()) for value in values), count)]
        inner = [array([*chain(*(value for value in values if value))], kind[0])]
    elif isinstance(kind, dict):
        data = []
        rows = [_text_keyed(value, kind.keys()) or {} for value in values]
        inner = [array([row.get(name) for row in rows], shape) for name, shape in kind.items()]
    else:
        if kind == "json":
            values = ["" if value is None else encode_json_text(value) for value in values]
        elif nulls:
            nothing = "" if kind == "str" else 0
            values = [nothing if value is None else value for value in values]
        if kind == "bool":
            data = [_bits(values)]
        elif kind in ("int", "long", "float"):
            number = np.float64 if kind == "float" else np.int64
            data = [pa.py_buffer(np.fromiter(values, number, count))]
        else:
            text = "".join(values).encode()
            data = [
                _offsets(map(len, values if text.isascii() else map(str.encode, values)), count)
            ]
            data.append(pa.py_buffer(text))
    return pa.Array.from_buffers(_arrow_type(kind), count, [known, *data], children=inner or None)


def _offsets(sizes: Iterable[int], count: int) -> Any:
    """The buffer of the ends of lists or texts of these sizes."""
    import numpy as np
    import pyarrow as pa

    ends = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(sizes, np.int64, count), out=ends[1:])
    if ends[-1] >= 1 << 31:  # Arrow's offsets are 32-bit
        raise OutputError(
            "a table cannot hold a row of more than 2 GiB",
            hint="leave the column out of the dataset",
        )
    return pa.py_buffer(ends.astype(np.int32))


def _bits(truths: Sequence[bool]) -> Any:
    import numpy as np
    import pyarrow as pa

    return pa.py_buffer(np.packbits(np.frombuffer(bytes(truths), np.uint8), bitorder="little"))


def is_json(field: Any) -> bool:
    """Whether the Arrow field's values are JSON text."""
    import pyarrow as pa

    is_marked = bool(field.metadata) and field.metadata.get(b"verdict") == b"json"
    return is_marked and field.type in (pa.string(), pa.large_string())


def encode_json_text(value: Any) -> str:
    """The JSON text, keys in their own order.

    A leading space, which JSON allows, marks text that needs the standard library's decoder: integers beyond
    64 bits, halves of surrogate pairs, NaN and infinities (written as Python writes them).
    """
    try:
        text = orjson.dumps(value, default=_as_dict, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return " " + json.dumps(value, default=_as_dict, separators=(",", ":"))
    if b"null" in text and _holds_non_finite(value):
        return " " + json.dumps(value, default=_as_dict, separators=(",", ":"))
    return text.decode()


def decode_json_text(text: str) -> Any:
    """The value that was encoded; tuples have become lists, and keys strings."""
    return json.loads(text) if text.startswith(" ") else orjson.loads(text)


def _as_dict(value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a table cannot hold a {type(value).__name__}")


def _holds_non_finite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(map(_holds_non_finite, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_non_finite, value))
