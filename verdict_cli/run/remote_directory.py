"""A run's directory in a store, which is authoritative, and its copy on this machine."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from verdict_cli.errors import JournalError, OutputError
from verdict_cli.llm.middleware.cache_store import cache_directory
from verdict_cli.storage.journal.journal import SENT
from verdict_cli.storage.journal.segments import Segments, lock_file
from verdict_cli.storage.object_store.folder import RemoteFolder
from verdict_cli.storage.object_store.lease import Lease

JOURNAL = "journal.jsonl"
LOCK, OWNER = "copy.lock", "owner"
_KEPT = frozenset({JOURNAL, SENT, LOCK, OWNER})
"""Files of a copy that outlive the process: the journal may have calls that were not sent."""
_FINISHED = ("results.parquet", "calls.parquet")


@dataclass
class RemoteRunDirectory:
    """The directory in the store, and its copy in `VERDICT_CACHE_DIR`.

    The copy's path depends on the URL alone, so that the next process finds what a killed one had not sent. The copy
    is removed when everything is in the store.
    """

    folder: RemoteFolder
    lease: Lease | None = None
    journalled: bool = False

    @property
    def copy(self) -> Path:
        """The path of the copy."""
        return cache_directory() / "runs" / blake2b(self.folder.url.encode(), digest_size=12).hexdigest()

    def segments(self) -> Segments:
        """The journal in the store, for the copy's journal to be opened with."""
        self.journalled = True
        return Segments(self.folder, self.lease.check) if self.lease else Segments(self.folder)

    def deliver(self, name: str) -> None:
        """Send a file of the copy to the store. Raises OutputError, and JournalError where the lease was lost."""
        if self.lease is not None:
            self.lease.check()
        self.folder.send(self.copy / name, name)

    async def confirm_lease(self) -> None:
        """Return once this process certainly has the directory. Raises JournalError where another has taken it over."""
        if self.lease is not None and self.lease.expired:
            await asyncio.to_thread(self.lease.check)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out, with the store's files in the copy. JournalError while another process writes."""
        try:
            self.copy.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.copy / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as fault:
            raise OutputError(
                f"{self.copy} cannot be written: {fault.strerror}", hint="set VERDICT_CACHE_DIR to another directory"
            ) from None
        try:
            if not lock_file(descriptor):
                raise JournalError(
                    f"another run is writing to {self.folder.url}",
                    hint="wait until it has ended, or choose another --out",
                )
            self.lease = Lease.take(self.folder, self._owner())
            try:
                self._fetch()
                yield
                if self.journalled:
                    Segments(self.folder, self.lease.check).put_whole(self.copy / JOURNAL)
            finally:
                self.clear()
                with suppress(OutputError):  # the lease expires by itself
                    self.lease.release()
        finally:
            os.close(descriptor)

    def clear(self) -> None:
        """Remove the copy, unless it has calls that were not sent."""
        journal, sent = self.copy / JOURNAL, self.copy / SENT
        with suppress(OSError):
            if not journal.exists() or (sent.exists() and sent.read_text() == str(journal.stat().st_size)):
                shutil.rmtree(self.copy)

    def _owner(self) -> str:
        path = self.copy / OWNER
        if not path.exists():
            path.write_text(os.urandom(16).hex(), encoding="utf-8")
        return path.read_text(encoding="utf-8")

    def _fetch(self) -> None:
        for path in self.copy.iterdir():
            if path.name not in _KEPT:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name in ("run.json", *_FINISHED):
            if self.folder.names(name):
                self.folder.fetch(name, self.copy / name)
