"""The labels that predictions and targets, or the judges of a panel, share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from verdict_cli.evaluate.column import MISSING, NUMBER, Column, Floats, Ints
from verdict_cli.evaluate.keyed import key_text


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels that columns share: numbers in order, then words in order."""

    values: tuple[Any, ...]
    numbers: Floats
    words: dict[int, int]

    @staticmethod
    def of(*columns: Column, also: Sequence[Any] = ()) -> Labels:
        """The labels of all columns, and `also` (the positive label, whether it occurs or not)."""
        found = np.unique(np.concatenate([column.numbers for column in columns]))
        extra = [float(value) for value in also if isinstance(value, bool | int | float)]
        numbers = np.unique(np.concatenate([found[~np.isnan(found)], np.array(extra, dtype=np.float64)]))
        places = np.unique(np.concatenate([column.codes[column.codes >= 0] for column in columns]))
        shared: tuple[Any, ...] = next((column.words for column in columns if column.words), ())
        known = {int(place): shared[place] for place in places}
        ordered = sorted(known, key=lambda place: key_text(known[place]))
        words = {place: len(numbers) + index for index, place in enumerate(ordered)}
        values = [_spelled(number, *(column.types for column in columns)) for number in numbers.tolist()]
        values += [known[place] for place in ordered]
        values += [word for word in also if isinstance(word, str) and word not in known.values()]
        return Labels(tuple(values), numbers, words)

    def codes(self, column: Column) -> Ints:
        """The place of each row's label, MISSING where it has none."""
        if self.words:
            table = np.full(max(self.words) + 2, MISSING, dtype=np.int64)
            for place, label in self.words.items():
                table[place] = label
            codes = table[np.maximum(column.codes, MISSING)]
        else:
            codes = np.full(len(column.codes), MISSING, dtype=np.int64)
        is_number = column.codes == NUMBER
        codes[column.codes == MISSING] = MISSING
        codes[is_number] = np.searchsorted(self.numbers, column.numbers[is_number])
        return codes

    def place(self, value: Any) -> int | None:
        """The place of a label (1, 1.0 and true are one label), None where it is none of these."""
        return self.values.index(value) if value in self.values else None


def _spelled(number: float, *types: frozenset[str]) -> Any:
    kinds = frozenset().union(*types)
    if "bool" in types[0] and number in (0.0, 1.0) and not types[0] & {"int", "float"}:
        return bool(number)
    if "float" not in kinds and number.is_integer():
        return bool(number) if kinds & {"bool", "int", "float"} == {"bool"} else int(number)
    return number
