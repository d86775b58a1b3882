"""What an evaluation needs of the dataset's columns, checked before the first call: its filter, groups and clusters."""

from __future__ import annotations

from typing import Any

from verdict_cli.errors import Problem, RowError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.messages import NamedValues
from verdict_cli.run.label_counts import over_data


class ColumnCheck:
    """Computes, at each row, the expressions that read the dataset alone. See `EvaluationCheck`.

    The first row at which one cannot be computed would end the report after every call was paid.
    """

    def __init__(self, name: str, evaluation: Evaluation) -> None:
        self._name = name
        where = evaluation.where
        self._where = over_data(where)
        self._is_whole = where is None or self._where is not None
        texts = {f"by[{index}]": text for index, text in enumerate(evaluation.by)}
        texts |= {key: text for key in ("cluster", "group") if (text := getattr(evaluation, key))}
        if evaluation.gold is not None:
            texts["gold.target"] = evaluation.gold.target
        compiled = {key: over_data(text) for key, text in texts.items()}
        self._expressions = {
            key: expression for key, expression in compiled.items() if expression is not None
        }
        self._problem: Problem | None = None

    def add(self, index: int, source: NamedValues) -> None:
        """Check a row."""
        if self._problem is not None or not self._is_whole:
            return
        values = {"source": source}
        if self._where is not None and self._value("where", self._where, index, values) is not True:
            return
        for key, expression in self._expressions.items():
            if all(path[1] in source for path in expression.paths if len(path) > 1):
                self._value(key, expression, index, values)

    def _value(self, key: str, expression: Expression, index: int, values: NamedValues) -> Any:
        try:
            value = expression(values)
        except RowError as error:
            self._problem = self._problem or self._at(
                key, f"row {index}: {error.message}", error.hint
            )
            return None
        if key == "where" and not isinstance(value, bool):
            message = f"row {index}: `{expression.text}` gives {value!r:.80}, not true or false"
            hint = f"compare, as in `{expression.text} == {value!r:.40}`"
            self._problem = self._at(key, message, hint)
        return value

    def _at(self, key: str, message: str, hint: str) -> Problem:
        return Problem("evaluate", message, hint, path=f"evaluate.{self._name}.{key}")

    def problem(self) -> Problem | None:
        """The first thing that is wrong."""
        return self._problem
