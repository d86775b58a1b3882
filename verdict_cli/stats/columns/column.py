"""Compact columns of values and keys: eight bytes a number, four a label."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from verdict_cli.storage.tables.column_types import DeclaredType

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
RowMask = npt.NDArray[np.bool_]
Ends = tuple[float, float]
"""The smallest and the largest number that something can be."""


class Factorized(Struct, frozen=True):
    """A key for each row (a group, a cluster, an id): indices into `labels`, MISSING where a row has none."""

    codes: npt.NDArray[np.int32]
    labels: tuple[Any, ...]

    def take(self, rows: Ints) -> Factorized:
        return Factorized(self.codes[rows], self.labels)

    def most_frequent(self, most: int) -> list[tuple[int, str]]:
        """The codes of so many keys, the most frequent first, and the keys as text."""
        sizes = np.bincount(self.codes[self.codes != MISSING], minlength=len(self.labels))
        codes = [code for code in np.argsort(-sizes, kind="stable")[:most].tolist() if sizes[code]]
        return [
            *zip(codes, disambiguate_labels([self.labels[code] for code in codes]), strict=True)
        ]


class KeyBuilder:
    """Keys that are being read. Values of different types are different keys; null is a key too."""

    def __init__(self) -> None:
        self.codes = array("i")
        self.known: dict[Hashable, int] = {}
        self.labels: list[Any] = []

    def extend(self, values: Sequence[Any], positions: Ints) -> None:
        """Append the key of each row, `values[positions]`; MISSING rows have none."""
        codes = np.array([*map(self.code, values), MISSING], dtype=np.int32)
        self.codes.frombytes(codes[positions].tobytes())

    def code(self, value: Any) -> int:
        """The code of a key, which is a new one where the key is."""
        key: Hashable = value
        if not isinstance(value, str):
            # As JSON a list is hashable, and 1 is not true; numbers, of which most keys are, need none.
            plain = isinstance(value, int | float) and value == value  # noqa: PLR0124
            key = (type(value), value if plain else key_text(value))
        code = self.known.setdefault(key, len(self.labels))
        if code == len(self.labels):
            self.labels.append(value)
        return code

    def keys(self) -> Factorized:
        return Factorized(np.array(self.codes, dtype=np.int32), tuple(self.labels))


def key_text(value: Any) -> str:
    """A key as text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def disambiguate_labels(values: Sequence[Any]) -> list[str]:
    """The values as text; a string that reads like another value, such as "1" where there is also 1, in quotes."""
    plain = [key_text(value) for value in values]
    return [
        json.dumps(value) if isinstance(value, str) and plain.count(value) > 1 else text
        for value, text in zip(values, plain, strict=True)
    ]


MISSING, NUMERIC = -1, -2
GOLD, INCLUSION = "gold.target", "gold.weight"
"""The columns of human labels, and of the probabilities with which rows were drawn for one."""
EXACT = 2**53
"""Floats cannot distinguish integers beyond this: they are labels, not numbers."""


class Column(Struct, frozen=True):
    """One value for each row. `codes` is MISSING, NUMERIC (the value is in `numbers`) or an index into `words`.

    `types` holds which of bool, int, float, str and list occur; `declared` what the pipeline says of the values, None
    where they are of no single column of the results, or where an older table does not say it.
    """

    numbers: Floats
    codes: npt.NDArray[np.int32]
    words: tuple[Any, ...]
    types: frozenset[str]
    declared: DeclaredType | None = None

    @property
    def bounds(self) -> Ends | None:
        """The ends of the declared scale; None without one, or where a value is outside it."""
        return shared_bounds(self, self)

    @property
    def present(self) -> RowMask:
        return np.not_equal(self.codes, MISSING)

    @property
    def numeric(self) -> bool:
        """Whether every value is a number or a boolean."""
        return self.types <= {"bool", "int", "float"}

    def value(self, row: int) -> Any:
        """One value in its own type; None where there is none."""
        code = self.codes[row]
        if code != NUMERIC:
            return None if code == MISSING else self.words[code]
        number = float(self.numbers[row])
        if self.types == {"bool"}:
            return bool(number)
        return int(number) if number.is_integer() and "float" not in self.types else number

    def values(self, rows: Iterable[int | None]) -> list[Any]:
        """The values of these rows; None where there is no row."""
        return [None if row is None else self.value(row) for row in rows]

    def take(self, rows: Ints) -> Column:
        return Column(self.numbers[rows], self.codes[rows], self.words, self.types, self.declared)


def shared_bounds(first: Column, second: Column) -> Ends | None:
    """The ends of the scale that either column declares; None without one, or where a value of either is outside it."""
    scales = [column.declared.bounds for column in (first, second) if column.declared is not None]
    ends = next((scale for scale in scales if scale is not None), None)
    if ends is None:
        return None
    is_outside = [
        (column.numbers < ends[0]).any() or (column.numbers > ends[1]).any()
        for column in (first, second)
    ]
    return None if any(is_outside) else ends


class LabelSet(Struct, frozen=True):
    """The labels that columns share: numbers in order, then words as their scale lists them, else by the alphabet."""

    values: tuple[Any, ...]
    numbers: Floats
    words: dict[int, int]

    @staticmethod
    def of(*columns: Column, positive: Any = None) -> LabelSet:
        """The labels of all columns, and the positive one, whether it occurs or not."""
        extra = [float(positive)] if isinstance(positive, bool | int | float) else []
        numbers = np.unique(np.concatenate([*(column.numbers for column in columns), extra]))
        numbers = numbers[~np.isnan(numbers)]
        codes = np.unique(np.concatenate([column.codes[column.codes >= 0] for column in columns]))
        shared: tuple[Any, ...] = next((column.words for column in columns if column.words), ())
        declared = [column.declared.values for column in columns if column.declared]
        listed = dict.fromkeys(key_text(value) for values in declared for value in values)
        rank = {text: index for index, text in enumerate(listed)}
        texts = {code: key_text(shared[code]) for code in codes.tolist()}
        ordered = sorted(texts, key=lambda code: (rank.get(texts[code], len(rank)), texts[code]))
        words = {code: len(numbers) + index for index, code in enumerate(ordered)}
        types = [column.types for column in columns]
        values = [_typed_number(number, types) for number in numbers.tolist()]
        values += [shared[code] for code in ordered]
        if isinstance(positive, str) and positive not in values:
            values.append(positive)
        return LabelSet(tuple(values), numbers, words)

    def codes(self, column: Column) -> Ints:
        """The index of each row's label, MISSING where it has none."""
        table = np.full(
            max(self.words, default=0) + 2, MISSING, dtype=np.int64
        )  # the last one is that of MISSING
        for code, label in self.words.items():
            table[code] = label
        codes = table[np.maximum(column.codes, MISSING)]
        is_number = column.codes == NUMERIC
        codes[is_number] = np.searchsorted(self.numbers, column.numbers[is_number])
        return codes

    def index(self, value: Any) -> int | None:
        """The index of a label (1, 1.0 and true are one label), None where it is none of these."""
        return self.values.index(value) if value in self.values else None


def _typed_number(number: float, types: Sequence[frozenset[str]]) -> Any:
    kinds = frozenset().union(*types)
    if "bool" in types[0] and number in (0.0, 1.0) and not types[0] & {"int", "float"}:
        return bool(number)
    if "float" not in kinds and number.is_integer():
        return bool(number) if kinds & {"bool", "int", "float"} == {"bool"} else int(number)
    return number


class ColumnBuilder:
    """A column that is being read. Columns that are compared share the codes of their words."""

    def __init__(self, words: dict[Hashable, int], declared: DeclaredType | None = None) -> None:
        self.words = words
        self.declared = declared
        self.numbers = array("d")
        self.codes = array("i")
        self.types: set[str] = set()

    def extend(self, values: Sequence[Any], positions: Ints) -> dict[int, str]:
        """Append the value of each row, `values[positions]`, MISSING where it has none.

        Returns what is wrong with the values that are no labels, numbers or rankings; their rows have none.
        """
        problems: dict[int, str] = {}
        numbers = np.full(len(values) + 1, math.nan)
        codes = np.full(len(values) + 1, MISSING, dtype=np.int32)
        if set(map(type, values)) == {float} and np.isfinite(values).all():  # often all distinct
            numbers[:-1], codes[:-1] = values, NUMERIC
            self.types.add("float")
            values = ()
        for place, value in enumerate(values):
            try:
                numbers[place], codes[place] = self._read(value)
            except ValueError as error:
                problems[place] = str(error)
        self.numbers.frombytes(numbers[positions].tobytes())
        self.codes.frombytes(codes[positions].tobytes())
        return problems

    def _read(self, value: Any) -> tuple[float, int]:
        """The number and the code of a value. ValueError says what it is instead of one."""
        if value is None:
            raise ValueError("is null")
        if isinstance(value, str) or (isinstance(value, int) and abs(value) > EXACT):
            self.types.add("str")
            return math.nan, self.words.setdefault(str(value), len(self.words))
        if isinstance(value, list | tuple):
            self.types.add("list")
            return math.nan, self.words.setdefault(_frozen(value), len(self.words))
        if not isinstance(value, bool | int | float):
            raise ValueError(f"is a {type(value).__name__}, not a label, a number or a ranking")
        if not math.isfinite(value):
            raise ValueError(f"is {value}, which is not a finite number")
        self.types.add(type(value).__name__)
        return float(value), NUMERIC

    def column(self) -> Column:
        words = tuple(list(word) if isinstance(word, tuple) else word for word in self.words)
        codes = np.array(self.codes, dtype=np.int32)
        return Column(np.array(self.numbers), codes, words, frozenset(self.types), self.declared)


def _frozen(value: list[Any] | tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_frozen(item) if isinstance(item, list | tuple) else _item(item) for item in value)


def _item(value: Any) -> Hashable:
    return (
        value
        if isinstance(value, str | int | float | bool | None)
        else json.dumps(value, sort_keys=True)
    )
