"""Check and convert a dataset's row by `dataset.schema`, and the expressions over it that `dataset` has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.errors import ReplyError
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.expressions.paths import RowValues
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    Fields,
    FieldType,
    ImageType,
    ListType,
    OptionalType,
    RecordType,
    TextListType,
    TranscriptType,
    is_image_url,
    without_null,
)
from verdict_cli.language.namespace import Namespace
from verdict_cli.language.scales import named_scales
from verdict_cli.plan.compile_context import declared_types
from verdict_cli.plan.place import Place, UseColumn
from verdict_cli.plan.scope import NodeScope
from verdict_cli.storage.path_policy import ALLOW_OUTSIDE, OutsideError, PathPolicy


def row_converter(
    types: RecordType,
    folder: Path = Path(),
    fence: PathPolicy | None = None,
    optional: frozenset[str] = frozenset(),
) -> Callable[[RowValues], RowValues]:
    """A function that returns the row with the declared columns converted to their types.

    A text in a column of numbers or booleans is converted: CSV has only text. The path of an image is
    taken from `folder`, the dataset's own, and may leave it only where `fence` allows it. The function raises
    ValueError with the reasons for a row that breaks the schema, which one that lacks ``optional`` columns does not.
    """

    policy = PathPolicy() if fence is None else fence.for_folder(folder)

    def convert(row: RowValues) -> RowValues:
        converted = dict(row)
        reasons = []
        for name, kind in types.fields.items():
            if name not in converted and name in optional:
                continue
            try:
                if name not in converted:
                    raise ValueError("it is missing")
                converted[name] = kind.read(_converted(converted[name], kind, folder, policy))
            except OutsideError as error:
                reasons.append(f"the column {name!r}: {error}; {ALLOW_OUTSIDE}")
            except (ReplyError, ValueError) as error:
                reason = error.message if isinstance(error, ReplyError) else str(error)
                if converted.get(name, "value") in (None, ""):
                    reason = f'it is empty; write `{name}: "{kind.type_name()}?"` for a column with blanks'
                reasons.append(f"the column {name!r}: {reason}")
        if reasons:
            raise ValueError("; ".join(reasons))
        return converted

    return convert


def _converted(value: Any, kind: FieldType, folder: Path, fence: PathPolicy) -> Any:
    if value == "" and isinstance(kind, OptionalType) and kind.item != TEXT:
        return None  # an empty cell of CSV
    kind = without_null(kind)
    value = cell_value(value, kind)
    if isinstance(kind, ListType) and isinstance(value, list | tuple):
        return [_converted(entry, kind.item, folder, fence) for entry in value]
    if isinstance(kind, RecordType) and isinstance(value, Mapping):
        # Numbers and truths within a record are JSON's own: a text in their place breaks the schema.
        nested = {
            name: inner
            for name, inner in kind.fields.items()
            if isinstance(without_null(inner), ImageType | RecordType | ListType)
        }
        return dict(value) | {
            name: _converted(value[name], inner, folder, fence)
            for name, inner in nested.items()
            if name in value
        }
    if not isinstance(value, str):
        return value
    if isinstance(kind, ImageType):
        return value if is_image_url(value) else str(fence.path(folder, value))
    return _read_text(value, kind)


def _read_text(text: str, kind: FieldType) -> Any:
    """The number or truth value that a text spells; a text of another type as it is."""
    if kind == TRUTH:
        return named_scales()["boolean"].read(text)
    if kind not in (INTEGER, NUMBER):
        return text
    try:
        return int(text) if kind == INTEGER else float(text)
    except ValueError:
        noun = "an integer" if kind == INTEGER else "a number"
        raise ValueError(f"{text!r:.80} is not {noun}") from None


def cell_value(value: Any, kind: FieldType) -> Any:
    """The list or mapping that a cell of CSV, which has only text, spells in JSON; any other value as it is."""
    if not isinstance(value, str) or not isinstance(
        without_null(kind), RecordType | ListType | TextListType | TranscriptType
    ):
        return value
    try:
        return orjson.loads(value)
    except ValueError:
        return value


def row_types(names: Namespace) -> RecordType | None:
    """The declared columns' types, None where none are declared; reports a type that is unknown."""
    declared = names.spec.file.dataset.types
    if declared is None:
        return None
    return RecordType(declared_types(declared, Place(names, ("dataset", "schema"))))


def row_expression(
    dataset: Place,
    key: str,
    columns: Fields,
    use_column: UseColumn,
) -> Expression | None:
    """The expression over rows that a key of `dataset` is (`where`, `trace`, `span`), None where it is not given; reports
    when it can never be evaluated."""
    keys = dataset.names.spec.file.dataset
    text = getattr(keys, key)
    if text is None:
        return None
    if key == "span" and keys.trace is None:
        message = "`span` needs `trace`: a span's id is known in its trace alone"
        dataset.problem("bad-expression", message, "set both", key)
    scope = NodeScope(dataset, (), (), columns)
    expression = scope.expression(text, ("source",), key)
    for column in sorted(scope.uses.columns):
        use_column(column, dataset.below(key))
    return expression
