"""The scored answers or battles of a leaderboard, read from a run's results."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.errors import DataError, Problem, RowError
from verdict_cli.features.rank.arena.arena_keys import (
    BATTLE_KEYS,
    SCORE_KEYS,
    ArenaKeys,
    arena_keys,
    control_names,
    control_texts,
)
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.stats.columns.column import Floats, Ints, KeyBuilder, disambiguate_labels
from verdict_cli.stats.columns.saved_rows import SAVED_ROW_ROOTS, SKIPPED, saved_rows
from verdict_cli.storage.tables.reader import declared_types

_WINNERS = {"a": 1.0, "model_a": 1.0, "b": 0.0, "model_b": 0.0, "tie": 0.5, "tie (bothbad)": 0.5}


@dataclass(frozen=True, slots=True)
class ScoredAnswers:
    """One row for each scored answer; `control` are the values to hold equal, (rows, controls)."""

    system: Ints
    item: Ints
    score: Floats
    control: Floats


@dataclass(frozen=True, slots=True)
class Battles:
    """One row for each battle: `share` is the first system's part of the win, `control` the difference of first and
    second, and `weight` how many equal battles the row stands for."""

    first: Ints
    second: Ints
    share: Floats
    item: Ints
    control: Floats
    weight: Floats


@dataclass(frozen=True, slots=True)
class Contests:
    """What a leaderboard is made from. `rows` counts those that `where` selects; of them `missing` have no score or winner.

    `unreadable` has an example of a row that did not fail and yet has none. `bounds` are the ends of the score's scale.
    """

    systems: tuple[str, ...]
    items: int
    answers: ScoredAnswers | None
    battles: Battles
    controls: tuple[str, ...]
    rows: int
    missing: int
    unreadable: str = ""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    item_labels: tuple[Any, ...] = ()


@dataclass
class _Columns:
    """The columns that are being read."""

    systems: KeyBuilder = field(default_factory=KeyBuilder)
    items: KeyBuilder = field(default_factory=KeyBuilder)
    value: array[float] = field(default_factory=lambda: array("d"))
    control: array[float] = field(default_factory=lambda: array("d"))
    rows: int = 0
    missing: int = 0
    unreadable: str = ""


def read_contests(name: str, evaluation: Evaluation, results: Path) -> Contests:
    """The contests of one evaluation. DataError for a row whose system, item or control cannot be computed."""
    keys = arena_keys(evaluation)
    assert keys is not None
    reader = _Reader(name, keys, evaluation.where, results)
    columns = reader.read()
    codes = columns.systems.keys()
    systems = tuple(disambiguate_labels(codes.labels))
    items = columns.items.keys()
    at = items.codes.astype(np.int64)
    value = np.array(columns.value, dtype=np.float64)
    control = np.array(columns.control, dtype=np.float64).reshape(len(value), len(keys.control))
    rest = (control_names(keys), columns.rows, columns.missing, columns.unreadable)
    if keys.winner is not None:
        pairs = codes.codes.astype(np.int64).reshape(-1, 2)
        battles = Battles(pairs[:, 0], pairs[:, 1], value, at, control, np.ones(len(value)))
        return Contests(systems, len(items.labels), None, battles, *rest, item_labels=items.labels)
    answers = ScoredAnswers(codes.codes.astype(np.int64), at, value, control)
    battles = battles_of_scores(answers, len(systems), len(items.labels))
    return Contests(systems, len(items.labels), answers, battles, *rest, bounds=reader.bounds())


class _Reader:
    """Reads the rows of one evaluation."""

    def __init__(self, name: str, keys: ArenaKeys, where: str | None, results: Path) -> None:
        self.name, self.keys, self.results = name, keys, results
        self.battles = keys.winner is not None
        named = (*(BATTLE_KEYS if self.battles else SCORE_KEYS), "item")
        self.expressions = {key: self._compiled(key, getattr(keys, key)) for key in named}
        self.controls = [
            [self._compiled(f"control[{index}]", text) for text in texts]
            for index, texts in enumerate(control_texts(keys))
        ]
        self.where = None if where is None else self._compiled("where", where)

    def _compiled(self, key: str, text: str) -> Expression:
        try:
            return compile_expression(text, SAVED_ROW_ROOTS)
        except ExpressionError as error:
            path = f"evaluate.{self.name}.{key}"
            raise DataError(Problem("expression", error.message, error.hint, path=path)) from None

    def bounds(self) -> tuple[float, float]:
        """The ends of the declared scale of the score, else infinite."""
        match self.expressions["score"].path:
            case ("output", str(column)):
                declared = declared_types(self.results).get(f"output.{column}")
                return (declared.bounds if declared else None) or (-math.inf, math.inf)
        return (-math.inf, math.inf)

    def read(self) -> _Columns:
        """All rows that count."""
        found = _Columns()
        every = [*self.expressions.values(), *(each for pair in self.controls for each in pair)]
        every += [] if self.where is None else [self.where]
        paths = [path for expression in every for path in expression.paths]
        for row, failed, _, values in saved_rows(self.results, paths):
            if self.where is not None and self._fixed("where", self.where, row, values) is not True:
                continue
            found.rows += 1
            if failed or values.get(SKIPPED):
                found.missing += 1
                continue
            self._row(found, row, values)
        return found

    def _row(self, found: _Columns, row: int, values: Mapping[str, Any]) -> None:
        sides = ("a", "b") if self.battles else ("system",)
        systems = [self._fixed(key, self.expressions[key], row, values) for key in sides]
        if None in systems:
            raise self._error(sides[systems.index(None)], row, "the system is null", "name every system")
        if self.battles and systems[0] == systems[1]:
            raise self._error("b", row, f"{systems[0]!r:.60} is in battle with itself", "a battle needs two systems")
        try:
            value = self._share(values, systems) if self.battles else _number(self.expressions["score"], values)
        except RowError as error:
            found.missing += 1
            found.unreadable = found.unreadable or f"row {row}: {error.message}"
            return
        control = []
        for index, sizes in enumerate(self.controls):
            try:
                size = [_size(expression, values) for expression in sizes]
            except RowError as error:
                raise self._error(f"control[{index}]", row, error.message, error.hint) from None
            control.append(size[0] - size[1] if self.battles else size[0])
        for system in systems:
            found.systems.add(system)
        found.items.add(self._fixed("item", self.expressions["item"], row, values))
        found.value.append(value)
        found.control.extend(control)

    def _share(self, values: Mapping[str, Any], systems: list[Any]) -> float:
        """The first system's share of the win."""
        expression = self.expressions["winner"]
        winner = expression(values)
        if isinstance(winner, bool | int | float) and 0 <= winner <= 1:
            return float(winner)
        if isinstance(winner, str) and (share := _WINNERS.get(winner.strip().lower())) is not None:
            return share
        if winner in systems:
            return 1.0 if winner == systems[0] else 0.0
        raise RowError(f"`{expression.text}` gives {winner!r:.80}, not A, B, tie, a system's name or a share")

    def _fixed(self, key: str, expression: Expression, row: int, values: Mapping[str, Any]) -> Any:
        try:
            return expression(values)
        except RowError as error:
            raise self._error(key, row, error.message, error.hint) from None

    def _error(self, key: str, row: int, message: str, hint: str) -> DataError:
        path = f"evaluate.{self.name}.{key}"
        return DataError(Problem("evaluate", f"row {row}: {message}", hint, file=str(self.results), path=path))


def _number(expression: Expression, values: Mapping[str, Any]) -> float:
    value = expression(values)
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    raise RowError(f"`{expression.text}` gives {value!r:.80}, not a number")


def _size(expression: Expression, values: Mapping[str, Any]) -> float:
    value = expression(values)
    if isinstance(value, str | list | tuple):
        return float(len(value))
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise RowError(f"`{expression.text}` gives {value!r:.80}, which is neither a number nor a text")


def battles_of_scores(answers: ScoredAnswers, systems: int, items: int) -> Battles:
    """A battle for each item and each two systems with a score there: the higher score wins, equal ones share.

    Several scores of one system for one item count as their mean.
    """
    cell = answers.item * systems + answers.system
    size = items * systems
    counts = np.bincount(cell, minlength=size)

    def means(column: Floats) -> Floats:
        sums = np.bincount(cell, weights=column, minlength=size)
        found: Floats = np.divide(sums, counts, out=np.full(size, np.nan), where=counts > 0).reshape(items, systems)
        return found

    scores = means(answers.score)
    controls = [means(answers.control[:, index]) for index in range(answers.control.shape[1])]
    parts: list[tuple[Ints, Ints, Floats, Ints, Floats]] = []
    for one, other in combinations(range(systems), 2):
        both = np.flatnonzero(np.isfinite(scores[:, one]) & np.isfinite(scores[:, other]))
        share = (np.sign(scores[both, one] - scores[both, other]) + 1) / 2
        control = np.stack([each[both, one] - each[both, other] for each in controls], axis=1) if controls else None
        parts.append(
            (
                np.full(len(both), one, dtype=np.int64),
                np.full(len(both), other, dtype=np.int64),
                share,
                both.astype(np.int64),
                np.empty((len(both), 0)) if control is None else control,
            )
        )
    if not parts:
        none = np.empty(0, np.int64)
        return Battles(none, none, np.empty(0), none, np.empty((0, len(controls))), np.empty(0))
    first, second, share, item, control = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Battles(first, second, share, item, control, np.ones(len(first)))
