"""Find numbers by a digest in two arrays, and number rows of equal content."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec.structs import replace

from verdict_cli.messages import Row
from verdict_cli.storage.journal.entry import CallKey

_64_BITS = (1 << 64) - 1


def digest_bytes(key: CallKey) -> int:
    """64 bits that stand for the key in this process."""
    return hash(key) & _64_BITS


class DigestIndex:
    """Digest -> number, by open addressing: a later number replaces an earlier one of the same digest.

    ``kind`` is the array's code of the numbers: ``Q`` of 8 bytes, ``I`` of 4. A third to two thirds of the slots are in
    use: an entry of 8 bytes takes 24 to 48 (measured: 36 at a million), one of 4 bytes 18 to 36.

    Two keys can share a digest (by chance in one of 4 * 10^7 journals of a million calls), so whoever reads the
    line at an offset compares the key.
    """

    def __init__(self, kind: Literal["Q", "I"] = "Q") -> None:
        self._kind = kind
        self._digests = self._numbers = array("Q")
        self._count = 0
        self._make(1024)

    def _make(self, slots: int) -> None:
        self._digests = array("Q", bytes(8 * slots))
        free = array(self._kind)
        self._numbers = array(self._kind, bytes(free.itemsize * slots))  # number + 1; 0 is a free slot

    def __len__(self) -> int:
        return self._count

    def put(self, digest: int, number: int) -> None:
        """Remembers the number."""
        self._store(self._slot(digest), digest, number + 1)

    def count(self, digest: int) -> int:
        """Counts the digest, in an index without other numbers: how often it was counted before."""
        slot = self._slot(digest)
        before = self._numbers[slot]
        self._store(slot, digest, before + 1)
        return before

    def get(self, digest: int) -> int | None:
        """The number, None for a digest that was never put."""
        number = self._numbers[self._slot(digest)]
        return number - 1 if number else None

    def _slot(self, digest: int) -> int:
        mask = len(self._numbers) - 1
        slot = digest & mask
        while self._numbers[slot] and self._digests[slot] != digest:
            slot = (slot + 1) & mask
        return slot

    def _store(self, slot: int, digest: int, above: int) -> None:
        new = not self._numbers[slot]
        self._digests[slot], self._numbers[slot] = digest, above
        if new:
            self._count += 1
            if 3 * self._count >= 2 * len(self._numbers):
                self._double()

    def _double(self) -> None:
        digests, numbers = self._digests, self._numbers
        self._make(2 * len(digests))
        for digest, number in zip(digests, numbers, strict=True):
            if number:
                slot = self._slot(digest)
                self._digests[slot], self._numbers[slot] = digest, number


def number_duplicates(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows, each copy of an earlier one with its number behind its key: `.1` the first copy, `.2` the next.

    Copies are interchangeable: whichever of them moves or goes, the others keep all calls but those of the last
    number. A row takes 18 to 36 bytes of memory.
    """
    seen = DigestIndex("I")
    for row in rows:
        short = int(row.key[:16], 16)
        copies = seen.count(short)
        yield replace(row, key=f"{row.key}.{copies}") if copies else row
