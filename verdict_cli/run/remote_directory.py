"""A run's directory in a store: it is made in a copy on this machine, and what counts is in the store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from verdict_cli.errors import JournalError, OutputError
from verdict_cli.llm.middleware.cache_store import cache_directory as cache
from verdict_cli.storage.journal.journal import SENT
from verdict_cli.storage.journal.segments import Segments, lock_file
from verdict_cli.storage.object_store.folder import RemoteFolder
from verdict_cli.storage.object_store.lease import Lease

JOURNAL = "journal.jsonl"
LOCK, OWNER = "copy.lock", "owner"
_OURS = frozenset({JOURNAL, SENT, LOCK, OWNER})
"""What a copy keeps beyond the process that made it: calls that it may not have sent."""
_FINISHED = ("results.parquet", "calls.parquet")


@dataclass
class RemoteRunDirectory:
    """The directory in the store, and its copy in `VERDICT_CACHE_DIR`: the same one each time on this machine, so that
    it still has what a killed process had not sent. The copy goes when everything is in the store.
    """

    place: RemoteFolder
    lease: Lease | None = None
    journalled: bool = False

    @property
    def copy(self) -> Path:
        """The folder on this machine."""
        return cache() / "runs" / blake2b(self.place.url.encode(), digest_size=12).hexdigest()

    def segments(self) -> Segments:
        """The journal in the store, which the copy's is about to become equal to."""
        self.journalled = True
        return Segments(self.place, self.lease.check if self.lease else lambda: None)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within, this process alone writes there, and the copy has what stands there. JournalError while another does."""
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
                    f"another run is writing to {self.place.url}",
                    hint="wait until it has ended, or choose another --out",
                )
            self.lease = Lease.take(self.place, self._owner())
            try:
                self._bring()
                yield
                if self.journalled:
                    Segments(self.place, self.lease.check).put_whole(self.copy / JOURNAL)
            finally:
                self.clear()
                with suppress(OutputError):  # it lapses
                    self.lease.release()
        finally:
            os.close(descriptor)

    def clear(self) -> None:
        """Removes the copy, unless it has calls that were not sent."""
        journal, sent = self.copy / JOURNAL, self.copy / SENT
        with suppress(OSError):
            if not journal.exists() or (sent.exists() and sent.read_text() == str(journal.stat().st_size)):
                shutil.rmtree(self.copy)

    def _owner(self) -> str:
        path = self.copy / OWNER
        if not path.exists():
            path.write_text(os.urandom(16).hex(), encoding="utf-8")
        return path.read_text(encoding="utf-8")

    def _bring(self) -> None:
        for path in self.copy.iterdir():
            if path.name not in _OURS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name in ("run.json", *_FINISHED):
            if self.place.names(name):
                self.place.fetch(name, self.copy / name)
