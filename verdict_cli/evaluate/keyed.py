"""Columns of keys: what a row's group, cluster or id is."""

from __future__ import annotations

import json
from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from verdict_cli.evaluate.column import MISSING, Ints


@dataclass(frozen=True, slots=True)
class Keys:
    """A key a row (a group, a cluster, an id): places in `labels`, MISSING where a row has none."""

    codes: npt.NDArray[np.int32]
    labels: tuple[Any, ...]

    def take(self, rows: Ints) -> Keys:
        """The keys of these rows."""
        return Keys(self.codes[rows], self.labels)


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

    def keys(self) -> Keys:
        """The finished keys."""
        codes = np.frombuffer(self.codes, dtype=np.int32) if self.codes else np.empty(0, np.int32)
        return Keys(codes, tuple(self.labels))


def _key_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def key_text(value: Any) -> str:
    """A key as text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else _key_text(value)


def told_apart(values: Sequence[Any]) -> list[str]:
    """The values as text; text that reads like another value's, such as "1" beside 1, in quotation marks."""
    plain = [key_text(value) for value in values]
    return [
        json.dumps(value) if isinstance(value, str) and plain.count(value) > 1 else text
        for value, text in zip(values, plain, strict=True)
    ]
