"""What each row says of a leaderboard's contests: its systems, and the winner, by a reading that holds for the whole column."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from verdict_cli.errors import DataError, Problem, RowError
from verdict_cli.features.rank.arena_keys import BATTLE_KEYS, SCORE_KEYS, ArenaKeys, control_texts
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.messages import NamedValues, is_number
from verdict_cli.plural import plural

ROOTS = ("source", "output", "nodes", "human")
"""What an expression over rows that are judged can name."""
POSITIONS = {"a": 1.0, "model_a": 1.0, "[[a]]": 1.0, "b": 0.0, "model_b": 0.0, "[[b]]": 0.0}
TIES = frozenset(
    (
        "tie",
        "draw",
        "equal",
        "tie (bothbad)",
        "both bad",
        "both_bad",
        "bothbad",
        "tie (both bad)",
        "[[c]]",
    )
)
_MOST_VALUES = 1_000
_SHOWN = 5


class WinnerError(ValueError):
    """Winners that cannot be read, with a hint."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class Winners:
    """The winners of one column, read as a whole: as systems' names, as positions, or as shares of the win.

    A reading counts if it reads every winner. Where two do and differ at a row, it is not known what is meant.
    """

    READINGS = (
        "the names of systems",
        "positions (A is the first system)",
        "shares of the first system's win",
    )

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._text = expression.text
        self._is_choice = (
            expression.path is not None
            and expression.path[0] != "source"
            and expression.path[-1] == "choice"
        )
        self._values: Counter[Any] = Counter()
        self._unread = Counter[int]()
        self._unread_values: tuple[Counter[Any], ...] = (Counter(), Counter(), Counter())
        self._differ: dict[tuple[int, int], str] = {}
        self._named_tie = ""
        self.total = 0

    def read(self, row: int, systems: Sequence[Any], values: NamedValues) -> tuple[float, ...]:
        """Count the winner of a row. Its share by each reading. RowError for a row without one."""
        winner = self._expression(values)
        if winner is None:
            raise RowError(f"`{self._text}` is null")
        return self.add(row, systems, winner)

    def add(self, row: int, systems: Sequence[Any], winner: Any) -> tuple[float, float, float]:
        """Count a winner. Its share by each reading, NaN where the reading does not read it."""
        shares = (_named_share(systems, winner), _position_share(winner), _number_share(winner))
        self.total += 1
        _count(self._values, winner)
        for reading, share in enumerate(shares):
            if math.isnan(share):
                self._unread[reading] += 1
                _count(self._unread_values[reading], winner)
        if isinstance(winner, str) and shares[0] != 0.5 and _folded(winner) in TIES:
            self._named_tie = self._named_tie or _place(row, systems, winner)
        for pair in combinations(range(3), 2):
            if abs(shares[pair[0]] - shares[pair[1]]) > 0:
                self._differ.setdefault(pair, _place(row, systems, winner))
        return shares

    def reading(self) -> int:
        """The index of the reading. WinnerError where none reads all, or two differ."""
        complete = [reading for reading in range(3) if not self._unread[reading]]
        if not complete:
            raise self._not_read()
        if self._is_choice and 1 in complete:
            return 1
        if self._named_tie and 0 in complete:
            raise self._ambiguous((0, 1), self._named_tie)
        for pair, place in self._differ.items():
            if {*pair} <= {*complete}:
                raise self._ambiguous(pair, place)
        return complete[0]

    def _ambiguous(self, pair: tuple[int, int], place: str) -> WinnerError:
        text = self._text
        one, other = (self.READINGS[reading] for reading in pair)
        cure = f"1 if {text} == SYSTEM_A else 0 if {text} == SYSTEM_B else 0.5"
        kind, second = "shares", f"{text} / 1"
        if pair[1] == 1:
            first, last = (
                [value for value in self._values if _position_share(value) == share]
                for share in (1.0, 0.0)
            )
            kind, second = (
                "positions",
                f"1 if {text} in {first} else 0 if {text} in {last} else 0.5",
            )
        return WinnerError(
            f"`{text}` can be read as {one} or as {other} ({place})",
            f'for names write `winner: "{cure}"`, for {kind} `winner: "{second}"`',
        )

    def _not_read(self) -> WinnerError:
        values = list(self._values)
        if all(is_number(value) for value in values):
            message = f"`{self._text}` gives {_listed(self._values)}: numbers are shares of the first system's win, from 0 to 1"
            return WinnerError(message, self._number_cure(sorted(values)))
        fewest = min(range(3), key=self._unread.__getitem__)
        message = (
            f"{self._unread[fewest]:,} of {plural(self.total, 'winner')} by `{self._text}` are neither A, B, tie "
            f"nor a system of the row: {_listed(self._unread_values[fewest])}"
        )
        return WinnerError(message, self._words("value", {v: _guess(v) for v in values[:_SHOWN]}))

    def _words(self, kind: str, words: Mapping[Any, str]) -> str:
        mapped = ", ".join(f"{value!r}: {word!r}" for value, word in words.items())
        return f'say what each {kind} means, such as `winner: "{{{mapped}}}[{self._text}]"`'

    def _number_cure(self, numbers: list[Any]) -> str:
        low, high = numbers[0], numbers[-1]
        if len(numbers) <= 3:
            words = _CODES.get(tuple(numbers), ("A", "B", "tie"))
            return self._words("number", dict(zip(numbers, words, strict=False)))
        share = f"{self._text} / {100 if 10 < high <= 100 else high:g}"
        if low < 0:
            reach = max(high, -low)
            share = f"({self._text} + {reach:g}) / {2 * reach:g}"
        return f'make them shares, such as `winner: "{share}"`'


_CODES = {
    (0, 1, 2): ("tie", "A", "B"),
    (-1, 0, 1): ("B", "tie", "A"),
    (-1, 1): ("B", "A"),
    (1, 1.5, 2): ("A", "tie", "B"),
}
"""What the codes of data sets of pairs usually mean: an example that the reader is to check."""


def _place(row: int, systems: Sequence[Any], winner: Any) -> str:
    return f"row {row}: {winner!r:.60}, where {systems[0]!r:.60} meets {systems[1]!r:.60}"


def _count(values: Counter[Any], value: Any) -> None:
    key = value if isinstance(value, str | int | float) else repr(value)
    if key in values or len(values) < _MOST_VALUES:
        values[key] += 1


def _listed(values: Counter[Any]) -> str:
    listed = ", ".join(f"{value!r:.60} ({count:,})" for value, count in values.most_common(_SHOWN))
    return listed + (", …" if len(values) > _SHOWN else "")


def _guess(value: Any) -> str:
    return {0.5: "tie", 0.0: "B"}.get(_position_share(value), "A")


def _named_share(systems: Sequence[Any], winner: Any) -> float:
    """The share by names: of the system that it equals, else of the one that it equals but for case and blanks."""
    if isinstance(winner, bool):
        return math.nan
    exact = [winner == system for system in systems]
    if not any(exact) and isinstance(winner, str):
        exact = [
            isinstance(system, str) and _folded(winner) == _folded(system) for system in systems
        ]
    if exact.count(True) == 1:
        return 1.0 if exact[0] else 0.0
    return 0.5 if isinstance(winner, str) and _folded(winner) in TIES else math.nan


def _position_share(winner: Any) -> float:
    if not isinstance(winner, str):
        return math.nan
    word = _folded(winner)
    return 0.5 if word in TIES else POSITIONS.get(word, math.nan)


def _number_share(winner: Any) -> float:
    return (
        float(winner) if isinstance(winner, bool | int | float) and 0 <= winner <= 1 else math.nan
    )


def _folded(text: str) -> str:
    return text.strip().casefold()


class ContestRows:
    """The expressions of one evaluation, and what they give at a row."""

    def __init__(self, name: str, keys: ArenaKeys, where: str | None, file: str) -> None:
        self._name, self._file = name, file
        self.battles = keys.winner is not None
        self.sides = ("a", "b") if self.battles else ("system",)
        names = (*(BATTLE_KEYS if self.battles else SCORE_KEYS), "item")
        self.expressions = {key: self._compiled(key, getattr(keys, key)) for key in names}
        self.controls = [
            [self._compiled(f"control[{index}]", text) for text in texts]
            for index, texts in enumerate(control_texts(keys))
        ]
        self.where = None if where is None else self._compiled("where", where)

    def _compiled(self, key: str, text: str) -> Expression:
        try:
            return compile_expression(text, ROOTS)
        except ExpressionError as error:
            path = f"evaluate.{self._name}.{key}"
            raise DataError(Problem("expression", error.message, error.hint, path=path)) from None

    def every(self) -> list[Expression]:
        """All expressions."""
        controls = [expression for pair in self.controls for expression in pair]
        return [
            *self.expressions.values(),
            *controls,
            *([] if self.where is None else [self.where]),
        ]

    def selects(self, row: int, values: NamedValues) -> bool:
        """Whether the evaluation's `where` holds. Raises DataError."""
        return self.where is None or self.value("where", self.where, row, values) is True

    def systems(self, row: int, values: NamedValues) -> list[Any]:
        """The systems of a row. DataError where one is null, or both are the same."""
        systems = [self.value(key, self.expressions[key], row, values) for key in self.sides]
        if None in systems:
            raise self._error(
                self.sides[systems.index(None)], row, "the system is null", "name every system"
            )
        if self.battles and systems[0] == systems[1]:
            hint = f"a battle needs two systems: leave it out by `where: {self.expressions['a'].text} != {self.expressions['b'].text}`"
            raise self._error("b", row, f"{systems[0]!r:.60} is in battle with itself", hint)
        return systems

    def control(self, row: int, values: NamedValues) -> list[float]:
        """The value of each control; of a battle, the difference of the two sides. Raises DataError."""
        return [self.control_value(index, row, values) for index in range(len(self.controls))]

    def control_value(self, index: int, row: int, values: NamedValues) -> float:
        """The value of one control. Raises DataError."""
        try:
            sizes = [_size(expression, values) for expression in self.controls[index]]
        except RowError as error:
            raise self._error(f"control[{index}]", row, error.message, error.hint) from None
        return sizes[0] - sizes[1] if self.battles else sizes[0]

    def item(self, row: int, values: NamedValues) -> Any:
        """The item of a row. Raises DataError."""
        return self.value("item", self.expressions["item"], row, values)

    def value(self, key: str, expression: Expression, row: int, values: NamedValues) -> Any:
        """What the expression gives. DataError where it gives nothing."""
        try:
            return expression(values)
        except RowError as error:
            raise self._error(key, row, error.message, error.hint) from None

    def reading(self, winners: Winners) -> int:
        """The reading that holds for all winners. Raises DataError."""
        try:
            return winners.reading()
        except WinnerError as error:
            hint = error.hint.replace("SYSTEM_A", self.expressions["a"].text)
            hint = hint.replace("SYSTEM_B", self.expressions["b"].text)
            raise self._fault("winner", error.message, hint) from None

    def _error(self, key: str, row: int, message: str, hint: str) -> DataError:
        return self._fault(key, f"row {row}: {message}", hint)

    def _fault(self, key: str, message: str, hint: str) -> DataError:
        path = f"evaluate.{self._name}.{key}"
        return DataError(Problem("evaluate", message, hint, file=self._file, path=path))


def _size(expression: Expression, values: NamedValues) -> float:
    value = expression(values)
    if isinstance(value, str | list | tuple):
        return float(len(value))
    if is_number(value) and math.isfinite(value):
        return float(value)
    raise RowError(f"`{expression.text}` gives {value!r:.80}, which is neither a number nor a text")


class ContestCheck:
    """Checks a dataset's rows before a call: what a leaderboard needs of the columns alone. See `EvaluationCheck`."""

    def __init__(self, name: str, keys: ArenaKeys, where: str | None) -> None:
        self._rows = ContestRows(name, keys, where, "")
        self._winners = Winners(self._rows.expressions["winner"]) if self._rows.battles else None
        self._problem: Problem | None = None
        self._whole = self._rows.where is None or _of_data(self._rows.where)

    def add(self, index: int, source: NamedValues) -> None:
        """Check a row."""
        if not self._whole or self._problem is not None:
            return
        values = {"source": source}
        try:
            if self._rows.selects(index, values):
                self._check(index, values)
        except DataError as error:
            self._problem = error.problem

    def _check(self, index: int, values: NamedValues) -> None:
        rows = self._rows
        if _of_data(rows.expressions["item"]):
            rows.item(index, values)
        for number, control in enumerate(rows.controls):
            if all(map(_of_data, control)):
                rows.control_value(number, index, values)
        if not all(_of_data(rows.expressions[side]) for side in rows.sides):
            return
        systems = rows.systems(index, values)
        if self._winners is None or not _of_data(rows.expressions["winner"]):
            return
        winner = rows.value("winner", rows.expressions["winner"], index, values)
        if winner is not None:
            self._winners.add(index, systems, winner)

    def problem(self) -> Problem | None:
        """The first thing that is wrong."""
        if self._problem is None and self._winners is not None and self._winners.total:
            try:
                self._rows.reading(self._winners)
            except DataError as error:
                return error.problem
        return self._problem


def _of_data(expression: Expression) -> bool:
    return all(path[0] == "source" for path in expression.paths)
