"""The columns of `results.parquet` for a plan and its dataset, and a row's result as a row of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from verdict_cli.language.expressions.entry_lists import TURN
from verdict_cli.language.fields.types import (
    DistributionType,
    Fields,
    FieldType,
    ListType,
    PlainType,
    RecordType,
    ScaleType,
    UnknownType,
    without_null,
)
from verdict_cli.messages import JsonObject, Result
from verdict_cli.plan.levels import ITEM_COLUMN, in_lists
from verdict_cli.plan.node import Node, Plan
from verdict_cli.storage.datasets.dataset import Dataset, rename_columns
from verdict_cli.storage.datasets.files import format_of
from verdict_cli.storage.datasets.parquet import list_types
from verdict_cli.storage.tables.column_types import (
    ORDERED_KEY,
    SCALAR_KINDS,
    ColumnKind,
    DeclaredType,
    encode_json_text,
)
from verdict_cli.storage.tables.run_columns import (
    RESULT_COLUMNS,
    RunColumn,
    column_kinds_of,
    column_types_of,
)

Cells = tuple[tuple[str, ...], list[Any]]
"""A row of a table: the names of its columns, and its values."""


def result_columns(
    plan: Plan, source: Sequence[str], declared: Mapping[str, DeclaredType] | None = None
) -> dict[str, ColumnKind]:
    """The columns of `results.parquet` in order, each with the narrowest kind that is known before the run. ``declared`` are
    their types, by default those that the plan declares."""
    declared = declared_columns(plan) if declared is None else declared
    columns = column_kinds_of(_columns_of(plan))
    columns |= {f"source.{column}": "null" for column in source}
    for node in plan.nodes:
        if node.groups:
            columns[f"{node.id}.{ITEM_COLUMN}"] = "json"
        columns |= {f"{node.id}.{name}": _kind(kind) for name, kind in node.result.fields.items()}
    if plan.output_node is not None:
        columns |= {
            f"output.{name}": _kind(kind) for name, kind in plan.output_node.result.fields.items()
        }
    return columns | {
        name: "native" for name in columns if name in declared and declared[name].shape is not None
    }


def column_types(plan: Plan, dataset: Dataset) -> dict[str, DeclaredType]:
    """The declared columns, and the dataset's that are lists and mappings by the types of its Parquet files."""
    if {format_of(path) for path in dataset.files} != {"parquet"}:
        return declared_columns(plan)
    of_files = [rename_columns(dataset.columns, list_types(path)) for path in dataset.files]
    same = {
        name: DeclaredType(schema)
        for name, schema in of_files[0].items()
        if all(schema == schemas_of_file.get(name) for schemas_of_file in of_files)
    }
    typed = plan.row_types.fields if plan.row_types else {}
    types = {
        f"source.{name}": kind
        for name, kind in same.items()
        if kind.shape is not None and name not in typed
    }
    return types | declared_columns(plan)


def declared_columns(plan: Plan) -> dict[str, DeclaredType]:
    """What the plan declares of the columns of `results.parquet`: each output field's type, with its scale; of the dataset's
    columns and the entries of `each`, those that are lists and mappings."""
    types: Fields = {
        f"{node.id}.{name}": kind
        for node in plan.nodes
        for name, kind in node.result.fields.items()
    }
    if plan.output_node is not None:
        types |= {f"output.{name}": kind for name, kind in plan.output_node.result.fields.items()}
    columns = {
        name: DeclaredType(schema)
        for name, kind in types.items()
        if (schema := _declared_schema(without_null(kind)))
    }
    others = {
        f"{node.id}.{ITEM_COLUMN}": _entries_type(plan, node) for node in plan.nodes if node.groups
    }
    others |= {
        f"source.{name}": kind
        for name, kind in (plan.row_types.fields if plan.row_types else {}).items()
    }
    lists = {name: DeclaredType(without_null(kind).json_schema()) for name, kind in others.items()}
    columns |= {name: declared for name, declared in lists.items() if declared.shape is not None}
    return columns | column_types_of(_columns_of(plan))


def _columns_of(plan: Plan) -> list[RunColumn]:
    return [column for column in RESULT_COLUMNS if not column.only or getattr(plan, column.only)]


def _entries_type(plan: Plan, node: Node) -> FieldType:
    """The type of the column of the entries at which a unit inside `each` was run."""
    groups = [plan.groups[index] for index in node.groups]
    turn = RecordType({name: TURN.fields[name] for name in ("index", "role", "content")})
    names = {group.name: turn if group.entry == TURN else group.entry for group in groups}
    kind: FieldType = RecordType(names)
    for _ in groups:
        kind = ListType(kind)
    return kind


def _declared_schema(kind: FieldType) -> JsonObject:
    """The field's JSON Schema, which says of an ordered scale that it is one, and of a distribution its values."""
    if isinstance(kind, DistributionType):
        keys = orjson.loads(encode_json_text(dict.fromkeys(kind.scale.values() or ())))
        number = {"type": "number"}
        return {
            "type": "object",
            "properties": dict.fromkeys(keys, number),
            "additionalProperties": number,
        }
    schema = kind.json_schema()
    ordered = isinstance(kind, ScaleType) and kind.scale.ordered and "enum" in schema
    return schema | {ORDERED_KEY: True} if ordered else schema


class ResultRows:
    """Makes rows of `results.parquet`. Column names are cached: most rows have the same fields."""

    def __init__(self, plan: Plan) -> None:
        self._columns = _columns_of(plan)
        self._getters = [column.getter for column in self._columns]
        self._prefixes = ["source", *(node.id for node in plan.nodes)]
        self._last = None if plan.output_node is None else plan.output_node.index
        self._inside = [node for node in plan.nodes if node.groups]
        self._names = lru_cache(maxsize=1000)(self._column_names)

    def row(self, result: Result) -> Cells:
        """The row of a result."""
        source = result.row.source
        outputs: Sequence[Any] = result.outputs
        last = None if self._last is None else outputs[self._last]
        if self._inside:
            outputs, last = self._in_lists(result)
        values = [get(result) for get in self._getters]
        values += source.values()
        for output in outputs:
            values += output.values() if output else ()
        if last:
            values += last.values()
        return self._names(
            tuple(source), *[tuple(output or ()) for output in outputs], tuple(last or ())
        ), values

    def _in_lists(self, result: Result) -> tuple[list[Any], Any]:
        """The outputs with one list a field for units inside `each`, beside the list of their entries; the last one's."""
        outputs = [*result.outputs]
        last = None if self._last is None else outputs[self._last]
        for node in self._inside:
            lists = in_lists(node, outputs[node.index])
            if lists is None:
                continue
            if node.index == self._last:
                last = lists
            outputs[node.index] = {ITEM_COLUMN: result.entries.get(node.index), **lists}
        return outputs, last

    def _column_names(self, *fields: tuple[str, ...]) -> tuple[str, ...]:
        """The names of a row's columns; ``fields`` are those of its source, of each unit's output, and of the last unit's."""
        names = [column.name for column in self._columns]
        names += [
            f"{prefix}.{name}"
            for prefix, own in zip(self._prefixes, fields[:-1], strict=True)
            for name in own
        ]
        return (*names, *(f"output.{name}" for name in fields[-1]))


def _kind(kind: FieldType) -> ColumnKind:
    kind = without_null(kind)
    if isinstance(kind, PlainType | ScaleType):
        return SCALAR_KINDS.get(kind.json_schema().get("type"), "null")
    return "null" if isinstance(kind, UnknownType) else "json"
