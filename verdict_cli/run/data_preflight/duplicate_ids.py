"""Ids that stand in several rows, found in a bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_BITS = 25
"""A filter of 2^25 bits is 4 MB; of a million ids it suspects some 150 that stand in one row only."""
_MASK = (1 << _BITS) - 1
_PROBES = 4
_MOST_SUSPECTS = 10_000


class RepeatedIds:
    """A Bloom filter suspects ids that it may have seen; a second reading of the rows counts the suspects alone."""

    def __init__(self) -> None:
        self._bits = bytearray(1 << (_BITS - 3))
        self._suspects: set[str | int] = set()

    def watch(self, identity: str | int) -> None:
        """Take in a row's id."""
        code = hash((identity, type(identity)))
        place, step, known = code & _MASK, (code >> _BITS) | 1, True
        for _ in range(_PROBES):
            byte, bit = place >> 3, 1 << (place & 7)
            if not self._bits[byte] & bit:
                known = False
                self._bits[byte] |= bit
            place = (place + step) & _MASK
        if known and len(self._suspects) < _MOST_SUSPECTS:
            self._suspects.add(identity)

    @property
    def suspects(self) -> bool:
        """Whether a second reading is needed."""
        return bool(self._suspects)

    def repeated(self, ids: Iterable[str | int]) -> Counter[str | int]:
        """The ids that stand in several of the rows, and in how many, by the second reading."""
        counts = Counter(identity for identity in ids if identity in self._suspects)
        return Counter({identity: count for identity, count in counts.items() if count > 1})
