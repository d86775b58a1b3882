"""A file's bytes, decompressed as they stream, with every failure told as the file's own."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from verdict_cli.data.files import compression_of
from verdict_cli.errors import DataError, Problem

BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20
_PACKED = 1 << 16


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The decompressed bytes of ``path``, without a byte order mark. Raises DataError for what cannot be read."""
    try:
        with io.BufferedReader(path.open("rb", buffering=0), _CHUNK) as raw, _unpacked(path, raw) as stream:
            if stream.peek(3)[:3] == BOM:
                stream.read(3)
            yield stream
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            Problem("broken-gzip", f"the gzip file is damaged or cut off: {error}", _AGAIN, str(path))
        ) from error
    except OSError as error:
        raise DataError(unreadable(path, error)) from error


def unreadable(path: Path, error: OSError) -> Problem:
    """The problem that the operating system's error is."""
    if isinstance(error, FileNotFoundError):
        return Problem("file-not-found", "there is no such file", "", str(path))
    return Problem(
        "not-readable", f"cannot be read: {error.strerror or error}", "check the permissions", str(path)
    )


_AGAIN = "copy or download the file again"


def _unpacked(path: Path, raw: io.BufferedReader[Any]) -> io.BufferedReader[Any]:
    match compression_of(path):
        case ".gz":
            return io.BufferedReader(gzip.GzipFile(fileobj=raw, mode="rb"), _CHUNK)
        case ".zst":
            return io.BufferedReader(_Zst(path, raw), _CHUNK)
        case _:
            return raw


class _Zst(io.RawIOBase):
    """Zstandard frames one after another; unlike the library's own reader it tells a cut-off file from a whole one."""

    def __init__(self, path: Path, raw: IO[bytes]) -> None:
        self._path, self._raw = path, raw
        self._frame: Any = None
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            packed = (self._frame.unused_data if self._frame and self._frame.eof else b"") or self._raw.read(
                _PACKED
            )
            if not packed:
                if self._frame and not self._frame.eof:
                    raise DataError(self._broken("it is cut off"))
                return 0
            self._ready = memoryview(self._unpack(packed))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _unpack(self, packed: bytes) -> bytes:
        import zstandard

        if self._frame is None or self._frame.eof:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            return bytes(self._frame.decompress(packed))
        except zstandard.ZstdError as error:
            raise DataError(self._broken(str(error))) from error

    def _broken(self, reason: str) -> Problem:
        return Problem(
            "broken-zst", f"the Zstandard file is damaged or cut off: {reason}", _AGAIN, str(self._path)
        )
