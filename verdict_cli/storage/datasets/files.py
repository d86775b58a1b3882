"""Find a dataset's files and their formats, and open their bytes, decompressed while they stream."""

from __future__ import annotations

import codecs
import difflib
import glob
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from verdict_cli.errors import DataError, Problem

ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".xlsx": "xlsx",
}
"""Ending -> format. All but Parquet and Excel may be followed by an ending of `COMPRESSIONS`."""

SPREADSHEET = "save the sheet as CSV (UTF-8) from the spreadsheet program"

COMPRESSIONS = (".gz", ".zst")


def format_of(path: Path) -> str | None:
    """The format by the file's name (a value of `ENDINGS`), None for an unknown ending."""
    name = path.name.lower()
    stem = name.removesuffix(compression_of(path))
    kind = ENDINGS.get(Path(stem).suffix)
    return None if kind in ("parquet", "xlsx") and stem != name else kind


def compression_of(path: Path) -> str:
    """``.gz``, ``.zst`` or an empty string."""
    suffix = path.suffix.lower()
    return suffix if suffix in COMPRESSIONS else ""


def find_files(data: str) -> tuple[Path, ...]:
    """The files that ``data`` names: a file, a directory's datasets (not those of subdirectories) or a glob pattern.

    Sorted by name. Raises DataError if there is none, or if a named file's ending is unknown.
    """
    path = Path(data)
    try:
        if path.is_dir():
            return _in_directory(path)
        if path.is_file():
            return (_with_known_ending(path),)
        if glob.has_magic(data):
            paths = sorted(Path(match) for match in glob.glob(data, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
            files = tuple(_with_known_ending(match) for match in paths if match.is_file())
            if files:
                return files
    except OSError as error:
        raise DataError(Problem("not-readable", error.strerror or str(error), "check the permissions", data)) from error
    raise DataError(_missing(data))


def _in_directory(directory: Path) -> tuple[Path, ...]:
    files = tuple(
        sorted(
            entry
            for entry in directory.iterdir()
            if not entry.name.startswith(".") and format_of(entry) and entry.is_file()
        )
    )
    if not files:
        raise DataError(Problem("file-not-found", "the directory holds no dataset", _endings(), str(directory)))
    return files


def _with_known_ending(path: Path) -> Path:
    if format_of(path) is None:
        message = "this is not the ending of a dataset"
        if ".parquet" in path.name.lower():
            message = "a Parquet file is compressed inside; one that is compressed again cannot be read"
        hint = _endings()
        if path.suffix.lower() in (".xls", ".ods", ".numbers"):
            message, hint = "a spreadsheet is not a dataset", SPREADSHEET
        raise DataError(Problem("unknown-format", message, hint, str(path)))
    return path


def _endings() -> str:
    return f"known endings: {', '.join(ENDINGS)}; all but .parquet and .xlsx also with {' or '.join(COMPRESSIONS)} after it"


def _missing(data: str) -> Problem:
    path = Path(data)
    what = "no file matches this pattern" if glob.has_magic(data) else "there is no such file"
    folder = path.parent
    if not folder.is_dir():
        return Problem("file-not-found", what, f"there is no directory {folder} either", data)
    names = [
        entry.name
        for entry in folder.iterdir()
        if not entry.name.startswith(".") and (entry.is_dir() or format_of(entry))
    ]
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.4)
    hint = f"did you mean {folder / near[0]}?" if near else _endings()
    return Problem("file-not-found", what, hint, data)


BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20
_COMPRESSED_CHUNK = 1 << 16


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The decompressed bytes of ``path``, without a byte order mark. Raises DataError for what cannot be read."""
    try:
        with io.BufferedReader(path.open("rb", buffering=0), _CHUNK) as raw, _decompressed(path, raw) as stream:
            start = stream.peek(3)[:3]
            if start == BOM:
                stream.read(3)
            if start[:2] in _UTF16:
                yield io.BufferedReader(_Utf16(stream), _CHUNK)
            else:
                yield stream
    except UnicodeDecodeError as error:
        problem = Problem("bad-encoding", f"not valid UTF-16: {error.reason}", "save the file as UTF-8", str(path))
        raise DataError(problem) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            Problem("broken-gzip", f"the gzip file is damaged or cut off: {error}", _COPY_AGAIN, str(path))
        ) from error
    except OSError as error:
        raise DataError(unreadable(path, error)) from error


_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How "Unicode text" of spreadsheet programs begins."""


class _Utf16(io.RawIOBase):
    """The UTF-8 bytes of a stream of UTF-16."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._text = io.TextIOWrapper(stream, encoding="utf-16", newline="")
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or self._text.read(_COMPRESSED_CHUNK).encode("utf-8", "surrogatepass")
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


LONGEST_LINE = 64 << 20
"""Bytes of a line, decompressed: a compressed file of 1 MB can hold a line of 1 GB."""
MOST_BLANK_LINES = 1_000_000
"""Blank lines in succession: half a megabyte of compressed ones takes a minute to skip."""


def bounded_lines(path: Path, stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of the stream of ``path``. Raises DataError for one that is too long, and for too many blank ones."""
    number = blank = 0
    readline, most = stream.readline, LONGEST_LINE + 1
    while line := readline(most):
        number += 1
        if len(line) > LONGEST_LINE:
            message = f"the line is longer than {LONGEST_LINE:,} bytes"
            raise DataError(
                Problem("too-long", message, "put large values in files, or shorten them", str(path), number)
            )
        if not line.isspace():
            blank = 0
        elif (blank := blank + 1) > MOST_BLANK_LINES:
            message = f"more than {MOST_BLANK_LINES:,} blank lines in succession"
            raise DataError(Problem("too-long", message, "remove them", str(path), number))
        yield line


def unreadable(path: Path, error: OSError) -> Problem:
    """The problem for an error of the operating system."""
    if isinstance(error, FileNotFoundError):
        return Problem("file-not-found", "there is no such file", "", str(path))
    return Problem("not-readable", f"cannot be read: {error.strerror or error}", "check the permissions", str(path))


_COPY_AGAIN = "copy or download the file again"


def _decompressed(path: Path, raw: io.BufferedReader[Any]) -> io.BufferedReader[Any]:
    match compression_of(path):
        case ".gz":
            return io.BufferedReader(gzip.GzipFile(fileobj=raw, mode="rb"), _CHUNK)
        case ".zst":
            return io.BufferedReader(_ZstdReader(path, raw), _CHUNK)
        case _:
            return raw


class _ZstdReader(io.RawIOBase):
    """Reads consecutive Zstandard frames. Raises DataError where they are damaged or cut off."""

    def __init__(self, path: Path, raw: IO[bytes]) -> None:
        import pyarrow

        self._path = path
        self._stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, "r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._stream.read(len(buffer))
        except OSError as error:
            message = f"the Zstandard file is damaged or cut off: {error}"
            raise DataError(Problem("broken-zst", message, _COPY_AGAIN, str(self._path))) from error
        buffer[: len(content)] = content
        return len(content)
