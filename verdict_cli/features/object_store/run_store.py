"""A run's directory in an object store, which is authoritative, its copy on this machine, and the lease of its one writer,
because there are no file locks.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from threading import Event, Lock, Thread
from time import sleep
from typing import Any

import orjson
from msgspec import Struct

from verdict_cli.errors import JournalError, OutputError, UsageError
from verdict_cli.features.object_store import segments
from verdict_cli.llm.middleware.cache_store import cache_directory
from verdict_cli.storage.database.database import RUN_DB
from verdict_cli.storage.file_lock import lock_file

_FLAT = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"})
"""Stores without folders. Creating one there creates the bucket, which a mistyped name must not."""


class RemoteFolder(Struct, frozen=True):
    """A `StoreFolder`, through fsspec's filesystem for its URL."""

    url: str
    _files: Any
    _root: str

    @classmethod
    def at(cls, url: str) -> RemoteFolder:
        """The folder at a URL. Raises UsageError if no installed package supports the URL."""
        scheme = url.partition(":")[0]
        if any(letter in url for letter in "*?["):
            raise UsageError(
                f"{url} has one of * ? [, which stand for several names", hint="name one folder"
            )
        try:
            import fsspec

            files, root = fsspec.url_to_fs(url, use_listings_cache=False)
        except ImportError as error:
            hint = (
                "pip install s3fs"
                if scheme in {"s3", "s3a"}
                else "install the package in which fsspec finds it"
            )
            raise UsageError(f"{url} cannot be reached: {error}", hint=hint) from None
        except ValueError as error:
            raise UsageError(
                f"{url} is not a URL that fsspec supports: {error}",
                hint="give a path, or a URL such as s3://bucket/folder",
            ) from None
        # Errors of broken connections reach their callers; the loop would print them a second time.
        if getattr(files, "loop", None) is not None:
            files.loop.call_soon_threadsafe(files.loop.set_exception_handler, lambda *_: None)
        return cls(url.rstrip("/"), files, root.rstrip("/"))

    def names(self, folder: str = "") -> list[str]:
        with self._translated_errors(folder):
            self._files.invalidate_cache()
            try:
                listed = self._files.find(f"{self._root}/{folder}".rstrip("/"))
            except FileNotFoundError:
                return []
            return sorted(str(name)[len(self._root) + 1 :] for name in listed)

    def read(self, name: str) -> bytes | None:
        with self._translated_errors(name):
            try:
                return bytes(self._files.cat_file(f"{self._root}/{name}"))
            except FileNotFoundError:
                return None

    def write(self, name: str, content: bytes) -> None:
        """Write an object, replacing any of that name."""
        with self._translated_errors(name):
            self._create_parent(name)
            self._files.pipe_file(f"{self._root}/{name}", content)

    def create(self, name: str, content: bytes) -> bool:
        """Create the object; False if it exists. In a store without conditional writes two processes can race here."""
        path = f"{self._root}/{name}"
        with self._translated_errors(name):
            self._create_parent(name)
            try:
                self._files.pipe_file(path, content, mode="create")
            except FileExistsError:
                return False
            except (NotImplementedError, TypeError, ValueError):
                if self._files.exists(path):
                    return False
                self._files.pipe_file(path, content)
        return True

    def put(self, path: Path, name: str) -> None:
        with self._translated_errors(name):
            self._create_parent(name)
            self._files.put_file(str(path), f"{self._root}/{name}")

    def get(self, name: str, path: Path) -> None:
        with self._translated_errors(name):
            self._files.get_file(f"{self._root}/{name}", str(path))

    def get_all(self, names: Sequence[str], folder: Path) -> None:
        for parent in {(folder / name).parent for name in names}:
            parent.mkdir(parents=True, exist_ok=True)
        with self._translated_errors():
            if names:
                self._files.get(
                    [f"{self._root}/{name}" for name in names],
                    [str(folder / name) for name in names],
                )

    def remove(self, names: Iterable[str]) -> None:
        paths = [f"{self._root}/{name}" for name in names]
        with self._translated_errors():
            try:
                if paths:
                    self._files.rm(paths)
            except FileNotFoundError:
                for path in filter(self._files.exists, paths):
                    self._files.rm(path)

    def _create_parent(self, name: str) -> None:
        """Create the object's folder, in stores that have folders."""
        protocols = self._files.protocol
        if _FLAT.isdisjoint((protocols,) if isinstance(protocols, str) else protocols):
            self._files.makedirs(f"{self._root}/{name}".rpartition("/")[0], exist_ok=True)

    @contextmanager
    def _translated_errors(self, name: str = "") -> Iterator[None]:
        """Turn errors of the filesystem's library, which may be of any class, into an OutputError with the URL."""
        try:
            yield
        except (OutputError, UsageError):
            raise
        except Exception as error:
            url = f"{self.url}/{name}" if name else self.url
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise OutputError(
                f"{url}: the store refuses, or cannot be reached: {lines[0]}",
                hint="check the URL, the keys (for S3: AWS_ACCESS_KEY_ID … or a profile) and the network",
            ) from error


HEARTBEAT_S = 5.0
"""How often the owner of a lease renews it."""
LAPSE_S = 20.0
"""A lease that was not renewed for so long may be taken over."""
LEASE_FOLDER = "lease"


def _clock() -> float:
    """Seconds that include those for which the machine was suspended, where the system counts them."""
    # Linux's monotonic clock stands still while a laptop sleeps, and another process may take over meanwhile.
    return (
        time.clock_gettime(time.CLOCK_BOOTTIME)
        if hasattr(time, "CLOCK_BOOTTIME")
        else time.monotonic()
    )


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
            with (
                suppress(OutputError),
                self._renewing,
            ):  # whoever writes to the store reports that it cannot be reached
                self._renew()

    def _renew(self) -> None:
        if self._lost is not None or self._released.is_set():
            return
        expired, now = self.expired, _clock()
        content = self.folder.read(self.name)
        is_holder = segments.json_object(content).get("mark") == self._mark and self.folder.names(
            LEASE_FOLDER
        )[-1:] == [self.name]
        if is_holder and expired:
            # Rewriting the object could cross with another process that takes over; only one creates the next number.
            former, self.name = self.name, f"{LEASE_FOLDER}/{self.token + 1:08}"
            is_holder = self.folder.create(self.name, self._content())
            self.folder.remove([former])
        elif is_holder:
            self.folder.write(self.name, self._content())
        if is_holder:
            self._renewed = now
            return
        self._lost = JournalError(
            f"another run has taken over {self.folder.url}, because this one did not renew its lease for {LAPSE_S:.0f} s",
            hint="wait until it has ended; it has the calls of this run",
        )
        self._released.set()


def _abandoned(folder: RemoteFolder, name: str, owner: str) -> bool:
    before = folder.read(name)
    if before is None or segments.json_object(before).get("owner") == owner:
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
    by = segments.json_object(folder.read(name))
    who = (
        f" (process {by['process']} of {by['machine']})"
        if {"process", "machine"} <= by.keys()
        else ""
    )
    return JournalError(
        f"another run is writing to {folder.url}{who}",
        hint="wait until it has ended, or choose another --out",
    )


LOCK, OWNER = "copy.lock", "owner"
_DATABASE = (RUN_DB, f"{RUN_DB}-wal", f"{RUN_DB}-shm")
_KEPT = frozenset({*_DATABASE, LOCK, OWNER})
"""Files of a copy that outlive the process: the database may have calls that were not sent."""
_NEEDED = ("run.json", "spec.yaml")
"""Files in the store that a copy needs from the start."""


@dataclass
class RemoteRunDirectory:
    """A `RunStore`: the directory in the store, and its copy in `VERDICT_CACHE_DIR`.

    The copy's path depends on the URL alone, so that the next process finds what a killed one had not sent. The copy
    is removed when everything is in the store.
    """

    folder: RemoteFolder
    lease: Lease | None = None

    @property
    def copy(self) -> Path:
        return (
            cache_directory()
            / "runs"
            / blake2b(self.folder.url.encode(), digest_size=12).hexdigest()
        )

    def put(self, name: str) -> None:
        self._check()
        self.folder.put(self.copy / name, name)

    def remove(self, names: Iterable[str]) -> None:
        self._check()
        self.folder.remove(names)

    def get(self, names: Iterable[str]) -> None:
        self.folder.get_all([name for name in names if not (self.copy / name).exists()], self.copy)

    def _check(self) -> None:
        if self.lease is not None:
            self.lease.check()

    async def confirm_lease(self) -> None:
        if self.lease is not None and self.lease.expired:
            await asyncio.to_thread(self.lease.check)

    @contextmanager
    def lock(self) -> Iterator[None]:
        try:
            self.copy.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.copy / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as fault:
            raise OutputError(
                f"{self.copy} cannot be written: {fault.strerror}",
                hint="set VERDICT_CACHE_DIR to another directory",
            ) from None
        try:
            if not lock_file(descriptor):
                raise JournalError(
                    f"another run is writing to {self.folder.url}",
                    hint="wait until it has ended, or choose another --out",
                )
            self.lease = Lease.take(self.folder, self._owner())
            sender = segments.SegmentSender(self, self._owner())
            try:
                self._restore()
                self.refresh()
                sender.start()
                yield
            finally:
                sender.stop()
                self._send_database()
                with suppress(OutputError):  # the lease expires by itself
                    self.lease.release()
        finally:
            os.close(descriptor)

    def _send_database(self) -> None:
        """Send the database, and remove the copy, which is then not needed. Where the store refuses, the copy stays."""
        if (self.copy / RUN_DB).exists():
            self.put(RUN_DB)
        segments.remove(self)
        with suppress(OSError):
            shutil.rmtree(self.copy)

    def _owner(self) -> str:
        path = self.copy / OWNER
        if not path.exists():
            path.write_text(os.urandom(16).hex(), encoding="utf-8")
        return path.read_text(encoding="utf-8")

    def _restore(self) -> None:
        """Have the database of a run that did not end: this machine's, unless another one has written since."""
        writer = segments.writer_of(self)
        series = writer.get("series", "")
        is_elsewhere = writer.get("owner") != self._owner()
        is_whole = not series and bool(self.folder.names(RUN_DB))
        if is_elsewhere and (writer or is_whole):
            for name in _DATABASE:
                (self.copy / name).unlink(missing_ok=True)
            if not is_whole:
                segments.fetch(self, series)
        segments.announce(self, self._owner(), series)

    def refresh(self) -> None:
        # The database stays: it may have calls that were not sent.
        for path in self.copy.iterdir():
            if path.name not in _KEPT:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.get(name for name in (*_NEEDED, RUN_DB) if self.folder.names(name))
