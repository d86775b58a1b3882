"""People's labels of a run as its evaluations see them: joined with the run's rows, and read as the scale reads replies."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import ReplyError
from verdict_cli.language.scales import named_scales
from verdict_cli.messages import NamedValues
from verdict_cli.plural import plural
from verdict_cli.stats.columns.column import Ends
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.human_labels import FILE, HumanLabel, label_key, read_annotations
from verdict_cli.storage.tables.label_queue import human_values
from verdict_cli.storage.tables.reader import read_table

UNSURE = "unsure"
"""The label of who cannot say: it is no label of the row, unless the scale has it."""
_SHOWN = 5

Annotations = Mapping[str, Mapping[str, HumanLabel]]


class RunLabels(Struct, frozen=True):
    """What expressions see as `human`, by the `label_key` of the row's id. `problems` are what is wrong with labels, `unsure`
    counts those that are none."""

    by_row: Mapping[str, NamedValues]
    problems: tuple[str, ...] = ()
    unsure: int = 0


def run_labels(results: Path, types: Sequence[DeclaredType] = ()) -> RunLabels:
    """The labels beside the results; `types` are those of the predictions that labels are compared with. Raises what
    `read_annotations` and `read_queue` do."""
    annotations = read_annotations(results.with_name(FILE))
    if not annotations:
        return RunLabels(human_values(results.parent, {}))
    joined, problems = _joined(annotations, results)
    reader = LabelReader(types)
    read = {
        key: {by: replace(label, label=reader.read(label.label)) for by, label in row.items()}
        for key, row in joined.items()
    }
    return RunLabels(
        human_values(results.parent, read), (*problems, *reader.problems()), reader.unsure
    )


def _joined(annotations: Annotations, results: Path) -> tuple[Annotations, list[str]]:
    """The labels by the keys of the run's rows: 1 and "1" are the same row where the run has one of them only."""
    spelled: dict[str, set[str]] = {}
    keys: set[str] = set()
    kinds: set[str] = set()
    for batch in read_table(results, ["id"]):
        for row_id in batch["id"]:
            kinds.add("texts" if isinstance(row_id, str) else "numbers")
            key = label_key(row_id)
            if key in annotations:
                keys.add(key)
            other = _other_spelling(row_id)
            if other is not None and other in annotations:
                spelled.setdefault(other, set()).add(key)
    joined = {key: row for key, row in annotations.items() if key in keys}
    lost = []
    for key, row in annotations.items():
        if key in keys:
            continue
        rows = spelled.get(key, set())
        (row_key,) = rows if len(rows) == 1 else ("",)
        if row_key and row_key not in joined:
            joined[row_key] = row
        else:
            lost.append(key)
    if not lost:
        return joined, []
    count = sum(len(annotations[key]) for key in lost)
    shown = ", ".join(key[:60] for key in lost[:3])
    message = f"{plural(count, 'label belongs|labels belong')} to no row of the run, such as of the id {shown}"
    return joined, [f"{message}; the run's ids are {' and '.join(sorted(kinds)) or 'none'}"]


def _other_spelling(row_id: Any) -> str | None:
    """The key of a number's text, or of the number that a text writes."""
    if isinstance(row_id, int) and not isinstance(row_id, bool):
        return label_key(str(row_id))
    if isinstance(row_id, str) and row_id.isascii() and row_id.removeprefix("-").isdigit():
        number = int(row_id) if len(row_id) < 40 else None
        return label_key(number) if number is not None and str(number) == row_id else None
    return None


class LabelReader:
    """Reads labels as values of the predictions' types, and counts those that are none."""

    def __init__(self, types: Sequence[DeclaredType]) -> None:
        self._values: list[Any] = []
        self._bounds: list[Ends] = []
        self._is_closed = bool(types)
        for declared in types:
            schema, kind = declared.schema, declared.schema.get("type")
            if kind == "boolean":
                self._values += [True, False]
            elif declared.values:
                self._values += declared.values
            elif kind in ("integer", "number"):
                ends = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
                self._bounds.append(ends)
            else:
                self._is_closed = False
        # Several evaluations compare with one scale, and a text is read as a value where one alone is written like it.
        self._values = list({(type(value), value): value for value in self._values}.values())
        self._off: Counter[Any] = Counter()
        self._kinds: set[str] = set()
        self._total = self.unsure = 0

    def read(self, label: Any) -> Any:
        """The label as a value of the scale; as it is where it is none; None where somebody was unsure."""
        if label is None:
            return None
        self._total += 1
        value = self._value(label)
        if value is None and _folded(label) == UNSURE:
            self.unsure += 1
            return None
        if value is None and self._is_closed:
            self._off[label] += 1
        if value is None:
            value = self._beside_scale(label)
        self._kinds.add("texts" if isinstance(value, str) else "numbers or booleans")
        return value

    def _beside_scale(self, label: Any) -> Any:
        """The label as it is; as a number where the scale has numbers only, since text would make all of them words."""
        types = {type(value) for value in self._values}
        is_of_numbers = self._is_closed and types <= {int, float}
        number = _number(label) if is_of_numbers else None
        return label if number is None else number

    def _value(self, label: Any) -> Any:
        exact = [value for value in self._values if value == label]
        if exact:
            return exact[0]
        number = _number(label)
        if number is not None and any(low <= number <= high for low, high in self._bounds):
            return number
        folded = [value for value in self._values if _folded(value) == _folded(label)]
        if len(folded) == 1:
            return folded[0]
        truth = _truth(label)
        meant = [value for value in self._values if truth is not None and _truth(value) is truth]
        return meant[0] if len(meant) == 1 else None

    def problems(self) -> list[str]:
        """What is wrong with the labels that were read."""
        problems = []
        if self._off:
            count = sum(self._off.values())
            listed = ", ".join(
                f"{label!r:.60} ({number:,})" for label, number in self._off.most_common(_SHOWN)
            )
            more = ", …" if len(self._off) > _SHOWN else ""
            values = ", ".join(f"{value!r:.60}" for value in self._values[:10])
            ranges = ", ".join(f"{low:g} to {high:g}" for low, high in self._bounds)
            verb = "is no value" if count == 1 else "are no values"
            problems.append(
                f"{count:,} of {plural(self._total, 'human label')} {verb} of the scale and can equal no prediction: "
                f"{listed}{more}; its values are {values or ranges}"
            )
        if len(self._kinds) > 1 and not self._off:
            problems.append(
                "human labels are partly texts and partly numbers or booleans, which never agree"
            )
        return problems


def _folded(value: Any) -> str:
    """The label as it is compared: `Both bad` is `both_bad`."""
    return re.sub(r"[\s_-]+", "_", str(value).strip().casefold())


def _number(label: Any) -> int | float | None:
    """A number, or the number that a text writes."""
    if isinstance(label, bool):
        return None
    try:
        number = float(label)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number


def _truth(value: Any) -> bool | None:
    """What the boolean scale reads."""
    try:
        return bool(named_scales()["boolean"].read(value))
    except ReplyError:
        return None
