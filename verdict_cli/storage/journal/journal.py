"""The file of completed calls that a run writes, and reads again when it is resumed."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from verdict_cli.errors import JournalError, OutputError, VerdictError
from verdict_cli.storage.file_reads import report_read
from verdict_cli.storage.journal.digest_index import DigestIndex, digest_bytes
from verdict_cli.storage.journal.entry import CallKey, JournalEntry, decode_entry, encode_entry, keys_of
from verdict_cli.storage.stores import JournalSegments

JOURNAL = "journal.jsonl"
"""The name of the file in a run's directory."""
SENT = "journal.sent"
"""Next to a journal that is also in a store: how many of its bytes are there."""
_SEGMENT_BYTES = 8 << 20
"""The size of an object in the store, at most."""
_REPORTED_BYTES = 1 << 20
"""How often it is reported how much of an earlier run's journal is read."""


class Journal:
    """Entries appended to a file, one JSON line each, and found by their key when another run opens it.

    ``nodes`` is node -> fingerprint. The fingerprint is part of an entry's key, so that a node whose prompt or model
    changed finds none of its former calls, and finds them again when the change is undone. ``append``, ``recall`` and
    ``flush`` are for one thread, that of the event loop. The file is locked for one writer while the journal is open.

    With ``segments`` the journal is in a store, and the file is its copy on this machine.
    """

    def __init__(
        self, path: Path, descriptor: int, nodes: Mapping[str, str], segments: JournalSegments | None = None
    ) -> None:
        self._path, self._descriptor, self._nodes, self._segments = path, descriptor, nodes, segments
        self._reader = path.open("rb")
        self._index = DigestIndex()
        self._end = self._on_disk = self._opened_at = 0
        self.damaged = 0  # lines of earlier runs that cannot be read: their calls are made again
        self.finds_own = False  # whether calls of this run are found as those of earlier runs are
        self._thread = ThreadPoolExecutor(1, "journal")
        self._syncing: asyncio.Task[None] | None = None
        self._broken: OutputError | None = None
        self._unsent: VerdictError | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        nodes: Mapping[str, str] | None = None,
        *,
        fresh: bool = False,
        segments: JournalSegments | None = None,
    ) -> Journal:
        """Open the journal at ``path``, which is created for its owner only; ``fresh`` empties it.

        The file is truncated after the last complete entry: a crash may leave half a line. With ``segments``, what the
        store lacks is sent, and then the file is replaced by the store's lines. Raises JournalError while another run
        writes to it, OutputError when the disk or the store refuses.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            new = not path.exists()
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
            with ExitStack() as failed:
                failed.callback(os.close, descriptor)
                if not lock_file(descriptor):
                    raise JournalError(
                        f"another run is writing to {path.parent}",
                        hint="wait until it has ended, or choose another --out",
                    )
                if new:
                    sync_directory(path.parent)
                if fresh:
                    os.ftruncate(descriptor, 0)
                journal = cls(path, descriptor, nodes or {}, segments)
                failed.callback(journal._reader.close)
                journal._index_lines()
                if segments is not None:
                    journal._replace_by(segments, fresh=fresh)
                failed.pop_all()
        except OSError as error:
            raise _refused(path, error) from error
        return journal

    def __len__(self) -> int:
        """The number of calls of earlier runs."""
        return len(self._index)

    @property
    def resumed(self) -> bool:
        """Whether it has calls of earlier runs."""
        return len(self._index) > 0

    def recall(
        self, row: str, node: str, call: int = 0, attempt: int = 0, item: str = "", content: str = ""
    ) -> JournalEntry | None:
        """The last entry of earlier runs with that key, None where there is none. ``row`` is the row's key, ``item`` the
        number of the entry inside `each`; or, without them, ``content`` that entry's digest."""
        if not self._index:
            return None
        key = self._key(content or row, node, call, attempt, item)
        offset = self._index.get(digest_bytes(key))
        if offset is None:
            return None
        self._reader.seek(offset)
        try:
            entry = decode_entry(self._reader.readline())
        except ValueError:
            return None
        return entry if key in (entry.key, entry.content_key) else None

    def has(
        self, row: str, node: str, call: int = 0, attempt: int = 0, item: str = "", *, opened: bool = False
    ) -> bool:
        """Whether earlier runs have an entry with that key; with ``opened``, an entry that `include` did not add."""
        offset = self._index.get(digest_bytes(self._key(row, node, call, attempt, item)))
        return offset is not None and not (opened and offset >= self._opened_at)

    def append(self, entry: JournalEntry) -> None:
        """Hand an entry to the operating system, which keeps it even if this process is killed.

        `flush` brings it to the disk. Raises OutputError when the disk has no room for it, and from then on. Entries
        that a store refuses stay in the file.
        """
        if self._broken:
            raise self._broken
        line = encode_entry(entry, self._nodes.get(entry.node, ""))
        if self.finds_own:
            self.include([line])
        else:
            self._write(line)

    def include(self, lines: Iterable[bytes]) -> None:
        """Append lines of other journals unchanged. They count as calls of an earlier run.

        Lines that are not a complete entry are left out. One without its line end counts as incomplete even where it
        parses: a crash may have cut it, and the next entry would be glued to it.
        """
        for line in lines:
            if not line.endswith(b"\n"):
                continue
            try:
                keys = keys_of(line)
            except ValueError:
                continue
            start = self._end
            self._write(line)
            for key in keys:
                self._index.put(digest_bytes(key), start)

    def _write(self, line: bytes) -> None:
        try:
            written = os.write(self._descriptor, line)
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError as error:
            self._broken = _refused(self._path, error)
            raise self._broken from error
        self._end += len(line)

    async def flush(self) -> None:
        """Wait until everything appended before is on disk. Raises OutputError when the disk or the store refuses.

        One fsync, in the journal's own thread, serves all that wait at a moment.
        """
        end = self._end
        while (error := self._broken or self._unsent) or self._on_disk < end:
            if error:
                raise error
            if self._syncing is None or self._syncing.done():
                self._syncing = asyncio.create_task(self._sync_in_thread())
            await asyncio.shield(self._syncing)

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        try:
            if not (self._broken or self._unsent):
                self._sync()
        finally:
            self._reader.close()
            os.close(self._descriptor)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _key(self, row: str, node: str, call: int, attempt: int, item: str) -> CallKey:
        return row, node, self._nodes.get(node, ""), call, attempt, item

    async def _sync_in_thread(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._sync)

    def _sync(self) -> None:
        if self._on_disk == self._end:
            return
        if self._segments is not None:
            self._segments.wait()
        written = self._end
        try:
            os.fsync(self._descriptor)
            # A write to a file that was removed or moved meanwhile still succeeds, and is lost.
            if not os.path.samestat(os.fstat(self._descriptor), self._path.stat()):
                raise FileNotFoundError(errno.ENOENT, "another file is in its place")
        except OSError as error:
            self._broken = _refused(self._path, error)
            raise self._broken from error
        if self._segments is not None:
            try:
                self._send(self._segments, self._on_disk, written)
            except VerdictError as error:
                self._unsent = error
                raise
        self._on_disk = written

    def _send(self, segments: JournalSegments, start: int, end: int) -> None:
        """Put the lines between two offsets of the file into the store."""
        with self._path.open("rb") as file:
            file.seek(start)
            while start < end:
                lines = file.read(min(_SEGMENT_BYTES, end - start))
                lines += b"" if lines.endswith(b"\n") else file.readline()
                segments.put(lines)
                start += len(lines)
                with suppress(OSError):  # without the file they are sent twice, which is harmless
                    self._path.with_name(SENT).write_text(str(start), encoding="utf-8")

    def _replace_by(self, segments: JournalSegments, *, fresh: bool) -> None:
        """Send what only the file has, then replace the file by what the store has."""
        sent = self._path.with_name(SENT)
        if fresh:
            segments.clear()
        else:
            count = sent.read_text(encoding="utf-8") if sent.exists() else ""
            self._send(segments, int(count) if count.isdigit() else 0, self._end)
        sent.unlink(missing_ok=True)
        os.ftruncate(self._descriptor, 0)
        with self._path.open("r+b") as file:
            segments.copy_to(file)
        self._reader.seek(0)
        self._index = DigestIndex()
        self._index_lines()
        sent.write_text(str(self._end), encoding="utf-8")

    def _index_lines(self) -> None:
        """Fill the index and truncate the file after its last entry. A damaged line before an entry is skipped."""
        offset = end = damaged = reported = 0
        size = os.fstat(self._descriptor).st_size
        for line in self._reader:
            start, offset = offset, offset + len(line)
            if offset - reported >= _REPORTED_BYTES:
                report_read(self._path, "bytes", offset, size)
                reported = offset
            if not line.endswith(b"\n"):
                break
            try:
                keys = keys_of(line)
            except ValueError:
                damaged += 1
                continue
            for key in keys:
                self._index.put(digest_bytes(key), start)
            end = offset
        self.damaged = damaged
        os.ftruncate(self._descriptor, end)
        os.lseek(self._descriptor, end, os.SEEK_SET)
        self._end = self._on_disk = self._opened_at = end


def sync_directory(path: Path) -> None:
    """Bring the names of new files to the disk. Windows cannot sync directories."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refused(path: Path, error: OSError) -> OutputError:
    if isinstance(error, FileNotFoundError):
        return OutputError(
            f"{path} was removed or moved while the run was writing to it",
            hint="move its directory back and run the same command, or run it with another --out",
        )
    return OutputError(
        f"{path}: the journal cannot be written: {error.strerror or error}",
        hint="free some space, check the permissions, or choose another --out; the same command resumes the run",
    )


_LOCKED_ERRNOS = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}


def lock_file(descriptor: int) -> bool:
    """Lock the open file until it is closed; False where another process has locked it. OSError where files have no locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            here = os.lseek(descriptor, 0, os.SEEK_CUR)
            os.lseek(descriptor, 1 << 62, os.SEEK_SET)  # Windows hides locked bytes from readers
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(descriptor, here, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _LOCKED_ERRNOS:
            return False
        raise
    return True
