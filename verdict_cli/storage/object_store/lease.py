"""One writer a place, where there are no locks of files."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from time import sleep
from typing import Any

import orjson

from verdict_cli.errors import JournalError, OutputError
from verdict_cli.storage.object_store.folder import RemoteFolder

BEAT_S = 5.0
"""How often the owner of a lease says that it is there."""
LAPSE_S = 20.0
"""A lease that says nothing for so long may be taken over."""
LEASE_FOLDER = "lease"


@dataclass
class Lease:
    """A place held by one process, as long as it says so: an object of `FOLDER` that it writes again and again.

    Who takes over an abandoned one makes the object of the next number, which only one can. No clocks are compared: an
    abandoned lease is one that was not written while somebody looked on. ``owner`` names the copy of the
    place on this machine, which one process at a time has locked: its own lease is abandoned at once.
    """

    place: RemoteFolder
    owner: str
    name: str = ""
    _mark: str = field(default_factory=lambda: os.urandom(8).hex())
    _beats: int = 0
    _lost: JournalError | None = None
    _over: Event = field(default_factory=Event)
    _beating: Thread | None = None

    @classmethod
    def take(cls, place: RemoteFolder, owner: str) -> Lease:
        """The lease. JournalError while another process holds it, which takes up to `LAPSE_S` to find out."""
        lease = cls(place, owner)
        names = place.names(LEASE_FOLDER)
        if names and not _abandoned(place, names[-1], owner):
            raise _held(place, names[-1])
        number = int(names[-1].rpartition("/")[2]) + 1 if names else 1
        lease.name = f"{LEASE_FOLDER}/{number:08}"
        if not place.create(lease.name, lease._said()):
            raise _held(place, lease.name)
        place.remove(names)
        lease._beating = Thread(target=lease._go_on, name="lease", daemon=True)
        lease._beating.start()
        return lease

    def check(self) -> None:
        """JournalError once another process has taken over."""
        if self._lost is not None:
            raise self._lost

    def release(self) -> None:
        """Lets others have the place."""
        self._over.set()
        if self._beating is not None:
            self._beating.join(BEAT_S)
        if self._lost is None:
            self.place.remove([self.name])

    def _said(self) -> bytes:
        self._beats += 1
        said = {"owner": self.owner, "mark": self._mark, "beat": self._beats}
        return orjson.dumps(said | {"machine": platform.node(), "process": os.getpid()})

    def _go_on(self) -> None:
        while not self._over.wait(BEAT_S):
            with suppress(OutputError):  # a store that cannot be reached is told by whoever writes to it
                self._beat()

    def _beat(self) -> None:
        found = self.place.read(self.name)
        if _fields(found).get("mark") != self._mark or self.place.names(LEASE_FOLDER)[-1:] != [self.name]:
            self._lost = JournalError(
                f"another run has taken over {self.place.url}, as this one said nothing for {LAPSE_S:.0f} s",
                hint="wait until it has ended; what this one has asked is kept for it",
            )
            self._over.set()
        elif not self._over.is_set():
            self.place.write(self.name, self._said())


def _abandoned(place: RemoteFolder, name: str, owner: str) -> bool:
    before = place.read(name)
    if before is None or _fields(before).get("owner") == owner:
        return True
    waited = 0.0
    while waited < LAPSE_S:
        sleep(BEAT_S / 5)
        waited += BEAT_S / 5
        now = place.read(name)
        if now != before:
            return now is None
    return True


def _held(place: RemoteFolder, name: str) -> JournalError:
    by = _fields(place.read(name))
    who = f" (process {by['process']} of {by['machine']})" if {"process", "machine"} <= by.keys() else ""
    return JournalError(
        f"another run is writing to {place.url}{who}", hint="wait until it has ended, or choose another --out"
    )


def _fields(content: bytes | None) -> dict[str, Any]:
    try:
        found = orjson.loads(content or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
