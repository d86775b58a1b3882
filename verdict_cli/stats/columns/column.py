"""Compact columns of values and keys: eight bytes a number, four a label."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Factorized:
    """A key a row (a group, a cluster, an id): places in `labels`, MISSING where a row has none."""

    codes: npt.NDArray[np.int32]
    labels: tuple[Any, ...]

    def take(self, rows: Ints) -> Factorized:
        """The keys of these rows."""
        return Factorized(self.codes[rows], self.labels)


class GrowingKeys:
    """Keys that are being read. Values of different types are different keys; null is a key too."""

    def __init__(self) -> None:
        self.codes = array("i")
        self.places: dict[Hashable, int] = {}
        self.labels: list[Any] = []

    def add(self, value: Any) -> None:
        """Append a row's key."""
        key: Hashable = value if isinstance(value, str) else (type(value).__name__, _key_text(value))
        place = self.places.setdefault(key, len(self.labels))
        if place == len(self.labels):
            self.labels.append(value)
        self.codes.append(place)

    def skip(self) -> None:
        """Append a row without a key."""
        self.codes.append(MISSING)

    def keys(self) -> Factorized:
        """The finished keys."""
        codes = np.frombuffer(self.codes, dtype=np.int32) if self.codes else np.empty(0, np.int32)
        return Factorized(codes, tuple(self.labels))


def _key_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def key_text(value: Any) -> str:
    """A key as text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else _key_text(value)


def disambiguate_labels(values: Sequence[Any]) -> list[str]:
    """The values as text; text that reads like another value's, such as "1" beside 1, in quotation marks."""
    plain = [key_text(value) for value in values]
    return [
        json.dumps(value) if isinstance(value, str) and plain.count(value) > 1 else text
        for value, text in zip(values, plain, strict=True)
    ]


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MISSING, NUMBER = -1, -2
EXACT = 2**53
"""Integers beyond this cannot be told apart as floats: they are labels, not numbers."""


@dataclass(frozen=True, slots=True)
class Column:
    """One value a row. `codes` is MISSING, NUMBER (the value is in `numbers`) or the place of a word in `words`.

    `types` holds which of bool, int, float, str and list occur.
    """

    numbers: Floats
    codes: npt.NDArray[np.int32]
    words: tuple[Any, ...]
    types: frozenset[str]

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """True for rows that have a value."""
        return np.not_equal(self.codes, MISSING)

    @property
    def numeric(self) -> bool:
        """Whether every value is a number or a boolean."""
        return self.types <= {"bool", "int", "float"}

    def take(self, rows: Ints) -> Column:
        """The column of these rows."""
        return Column(self.numbers[rows], self.codes[rows], self.words, self.types)


class ColumnBuilder:
    """A column that is being read. Columns that are compared share their `places` of words."""

    def __init__(self, places: dict[Hashable, int]) -> None:
        self.places = places
        self.numbers = array("d")
        self.codes = array("i")
        self.types: set[str] = set()

    def add(self, value: Any) -> str:
        """Append a value; returns why it is none ("" when it is one). A value that is none is appended as missing."""
        number, code, reason = math.nan, MISSING, ""
        if value is None:
            reason = "is null"
        elif isinstance(value, bool):
            number, code = float(value), NUMBER
            self.types.add("bool")
        elif isinstance(value, int) and abs(value) <= EXACT:
            number, code = float(value), NUMBER
            self.types.add("int")
        elif isinstance(value, float):
            if math.isfinite(value):
                number, code = value, NUMBER
                self.types.add("float")
            else:
                reason = f"is {value}, which is no number to count with"
        elif isinstance(value, str | int):
            code = self.places.setdefault(str(value), len(self.places))
            self.types.add("str")
        elif isinstance(value, list | tuple):
            code = self.places.setdefault(_frozen(value), len(self.places))
            self.types.add("list")
        else:
            reason = f"is a {type(value).__name__}, not a label, a number or a ranking"
        self.numbers.append(number)
        self.codes.append(code)
        return reason

    def column(self) -> Column:
        """The finished column."""
        words = tuple(list(word) if isinstance(word, tuple) else word for word in self.places)
        return Column(
            np.frombuffer(self.numbers, dtype=np.float64) if self.numbers else np.empty(0),
            np.frombuffer(self.codes, dtype=np.int32) if self.codes else np.empty(0, np.int32),
            words,
            frozenset(self.types),
        )


def _frozen(value: list[Any] | tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_frozen(item) if isinstance(item, list | tuple) else _item(item) for item in value)


def _item(value: Any) -> Hashable:
    return value if isinstance(value, str | int | float | bool | None) else json.dumps(value, sort_keys=True)
