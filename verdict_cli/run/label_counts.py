"""The labels of one evaluation, counted row by row before a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from verdict_cli.errors import RowError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.messages import NamedValues
from verdict_cli.plan.check_evaluations import PossibleValues

MOST_LABELS = 1_000
"""Distinct labels that are counted, at most: a free text has as many as there are rows."""
_EXACT = 2**53
"""Floats cannot express greater integers, so they count as text, as in a report."""

Key = tuple[bool, Any]
"""Whether a label is text, and the text or the number. Labels with equal keys are equal (1, 1.0 and true are)."""


def label_value_key(value: Any) -> Key:
    """The key of a label or prediction."""
    if isinstance(value, str) or (isinstance(value, int) and abs(value) > _EXACT):
        return True, str(value)
    return False, float(value)


class LabelCounts(Struct):
    """``counts`` are label key -> [rows, an example], with the possible predictions from the start.

    ``others`` are the rows with further labels, once there are too many; ``bad`` is the error of the first row whose
    label cannot be used, and its hint. ``whole`` is false where `where` depends on more than the row.
    ``prediction`` is set where it is computed from the data alone; ``predicted`` has an example of its texts (True) and
    of its numbers (False).
    """

    evaluation: Evaluation
    target: Expression
    where: Expression | None
    possible: PossibleValues
    whole: bool
    prediction: Expression | None
    predicted: dict[bool, Any] = {}
    counts: dict[Key, list[Any]] = {}
    rows: int = 0
    missing: int = 0
    texts: int = 0
    others: int = 0
    truths: int = 0
    fractions: int = 0
    lists: int = 0
    bad: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        for value in self.possible.values or ():
            self.counts[label_value_key(value)] = [0, value]

    def add(self, index: int, source: NamedValues) -> None:
        """Count the label of a row."""
        values = {"source": source}
        try:
            if self.where is not None and self.where(values) is not True:
                return
            value = self.target(values)
        except RowError as error:
            self._found_bad(f"row {index}: {error.message}", error.hint)
            return
        self.rows += 1
        self._note_prediction(values)
        if value is None:
            self.missing += 1
        elif isinstance(value, list | tuple):
            self.lists += 1
        elif isinstance(value, float) and not math.isfinite(value):
            hint = "leave the cell empty or give null where there is no label, or leave the row out with `where`"
            self._found_bad(f"row {index}: `{self.target.text}` is {value}, not a label", hint)
        elif isinstance(value, str | int | float):
            self._count(value)
        else:
            kind = "mapping" if isinstance(value, Mapping) else type(value).__name__
            message = (
                f"row {index}: `{self.target.text}` is a {kind}, not a label, a number or a ranking"
            )
            self._found_bad(message, self._field(value))

    def _note_prediction(self, values: NamedValues) -> None:
        if self.prediction is None:
            return
        with suppress(RowError):  # the report counts such rows
            value = self.prediction(values)
            if isinstance(value, str | int | float):
                self.predicted.setdefault(isinstance(value, str), value)

    @property
    def numeric(self) -> bool | None:
        """Whether the predictions are numbers; None where that is not known, or some are."""
        if len(self.predicted) == 1:
            return False in self.predicted
        return self.possible.numeric

    def _count(self, value: str | int | float) -> None:
        if type(value) is str:
            key: Key = (True, value)
            self.texts += 1
        else:
            key = label_value_key(value)
            self.texts += key[0]
            self.truths += isinstance(value, bool)
            self.fractions += isinstance(value, float)
        count = self.counts.get(key)
        if count is not None:
            count[0] += 1
            count[1] = value
        elif len(self.counts) < MOST_LABELS:
            self.counts[key] = [1, value]
        else:
            self.others += 1

    def _found_bad(self, message: str, hint: str) -> None:
        self.bad = self.bad or (message, hint)

    def _field(self, value: Any) -> str:
        """A hint for a label that is not a value: the field of a mapping that could be meant."""
        names = (
            [name for name, part in value.items() if isinstance(part, str | int | float)]
            if isinstance(value, Mapping)
            else []
        )
        if names and self.target.path is not None:
            example = (
                f"{self.target.text}.{names[0]}"
                if str(names[0]).isidentifier()
                else f"{self.target.text}[{names[0]!r}]"
            )
            return f"name one of its fields, such as `{example}`"
        return "give a label, a number or null"

    @property
    def labels(self) -> int:
        """The rows that have a label."""
        return self.others + sum(int(count) for count, _ in self.counts.values())

    @property
    def seen(self) -> dict[Key, tuple[int, Any]]:
        """Label key -> (rows, an example) of the labels that occur, the most frequent first."""
        counts = {key: (count, value) for key, (count, value) in self.counts.items() if count}
        return dict(sorted(counts.items(), key=lambda item: (-item[1][0], str(item[0][1]))))


def count_labels(evaluation: Evaluation, possible: PossibleValues) -> LabelCounts | None:
    """Empty counts for an evaluation; None where its labels do not come from the data alone."""
    target = over_data(evaluation.target)
    if target is None:
        return None
    where = over_data(evaluation.where)
    whole = evaluation.where is None or where is not None
    prediction = over_data(evaluation.prediction)
    return LabelCounts(evaluation, target, where, possible, whole, prediction)


def over_data(text: str | None) -> Expression | None:
    """The expression if it reads the dataset alone; None for another one, and for one that is wrong, which is told elsewhere."""
    if text is None:
        return None
    try:
        expression = compile_expression(text)
    except ExpressionError:
        return None
    return expression if all(path[0] == "source" for path in expression.paths) else None
