"""Leases: one writer for a remote folder, where there are no file locks."""

from __future__ import annotations

import os
import platform
import time
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from time import sleep
from typing import Any

import orjson

from verdict_cli.errors import JournalError, OutputError
from verdict_cli.features.object_store.folder import RemoteFolder

HEARTBEAT_S = 5.0
"""How often the owner of a lease renews it."""
LAPSE_S = 20.0
"""A lease that was not renewed for so long may be taken over."""
LEASE_FOLDER = "lease"


def _clock() -> float:
    """Seconds that include those for which the machine was suspended, where the system counts them."""
    # Linux's monotonic clock stands still while a laptop sleeps, and another process may take over meanwhile.
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass
class Lease:
    """A remote folder held by one process: an object in `LEASE_FOLDER` that the process rewrites at every heartbeat.

    A process takes over an abandoned lease by creating the object of the next number, which only one can. No clocks are
    compared: a lease is abandoned if it was not rewritten while another process watched it. ``owner`` names the local copy of
    the folder, which one process at a time has locked, so a lease of the same owner is abandoned already.

    A process that was stopped (by a signal, or with its machine) knows from its own clock that its lease may have been taken
    over. Before it works on, it competes for the next number like any other process.
    """

    folder: RemoteFolder
    owner: str
    name: str = ""
    _mark: str = field(default_factory=lambda: os.urandom(8).hex())
    _count: int = 0
    _renewed: float = field(default_factory=_clock)
    _lost: JournalError | None = None
    _renewing: Lock = field(default_factory=Lock)
    _released: Event = field(default_factory=Event)
    _thread: Thread | None = None

    @classmethod
    def take(cls, folder: RemoteFolder, owner: str) -> Lease:
        """Acquire the lease. Raises JournalError if another process holds it, which takes up to `LAPSE_S` to find out."""
        lease = cls(folder, owner)
        names = folder.names(LEASE_FOLDER)
        if names and not _abandoned(folder, names[-1], owner):
            raise _held_error(folder, names[-1])
        number = int(names[-1].rpartition("/")[2]) + 1 if names else 1
        lease.name = f"{LEASE_FOLDER}/{number:08}"
        lease._renewed = _clock()
        if not folder.create(lease.name, lease._content()):
            raise _held_error(folder, lease.name)
        folder.remove(names)
        lease._thread = Thread(target=lease._heartbeat_loop, name="lease", daemon=True)
        lease._thread.start()
        return lease

    @property
    def token(self) -> int:
        """The fencing token: greater than that of every process that had the folder before."""
        return int(self.name.rpartition("/")[2])

    @property
    def expired(self) -> bool:
        """Whether the lease was lost, or not renewed for so long that another process may have it; `check` finds out."""
        return self._lost is not None or _clock() - self._renewed > LAPSE_S - HEARTBEAT_S

    def check(self) -> int:
        """The fencing token. Raises JournalError once another process has taken the lease over, OutputError where an
        expired lease cannot be renewed."""
        if self.expired:
            with self._renewing:
                if self.expired:
                    self._renew()
        if self._lost is not None:
            raise self._lost
        return self.token

    def release(self) -> None:
        """Release the lease."""
        self._released.set()
        if self._thread is not None:
            self._thread.join(HEARTBEAT_S)
        if self._lost is None:
            self.folder.remove([self.name])

    def _content(self) -> bytes:
        self._count += 1
        fields = {"owner": self.owner, "mark": self._mark, "beat": self._count}
        return orjson.dumps(fields | {"machine": platform.node(), "process": os.getpid()})

    def _heartbeat_loop(self) -> None:
        while not self._released.wait(HEARTBEAT_S):
            with suppress(OutputError):  # whoever writes to the store reports that it cannot be reached
                self._heartbeat()

    def _heartbeat(self) -> None:
        with self._renewing:
            self._renew()

    def _renew(self) -> None:
        if self._lost is not None or self._released.is_set():
            return
        expired, now = self.expired, _clock()
        content = self.folder.read(self.name)
        held = _fields(content).get("mark") == self._mark and self.folder.names(LEASE_FOLDER)[-1:] == [self.name]
        if held and expired:
            # Rewriting the object could cross with another process that takes over; only one creates the next number.
            former, self.name = self.name, f"{LEASE_FOLDER}/{self.token + 1:08}"
            held = self.folder.create(self.name, self._content())
            self.folder.remove([former])
        elif held:
            self.folder.write(self.name, self._content())
        if held:
            self._renewed = now
            return
        self._lost = JournalError(
            f"another run has taken over {self.folder.url}, because this one did not renew its lease for {LAPSE_S:.0f} s",
            hint="wait until it has ended; it has the calls of this run",
        )
        self._released.set()


def _abandoned(folder: RemoteFolder, name: str, owner: str) -> bool:
    before = folder.read(name)
    if before is None or _fields(before).get("owner") == owner:
        return True
    waited = 0.0
    while waited < LAPSE_S:
        sleep(HEARTBEAT_S / 5)
        waited += HEARTBEAT_S / 5
        now = folder.read(name)
        if now != before:
            return now is None
    return True


def _held_error(folder: RemoteFolder, name: str) -> JournalError:
    by = _fields(folder.read(name))
    who = f" (process {by['process']} of {by['machine']})" if {"process", "machine"} <= by.keys() else ""
    return JournalError(
        f"another run is writing to {folder.url}{who}", hint="wait until it has ended, or choose another --out"
    )


def _fields(content: bytes | None) -> dict[str, Any]:
    try:
        content = orjson.loads(content or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return content if isinstance(content, dict) else {}
