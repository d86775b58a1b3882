"""Find a dataset's files and their formats, and open their bytes, decompressed while they stream."""

from __future__ import annotations

import difflib
import glob
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from verdict_cli.errors import DataError, Problem
from verdict_cli.storage.file_reads import open_observed

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


class Reading(Struct):
    """One reading of a file of a dataset: what of it is needed, and what its reader tells."""

    check_header: Callable[[tuple[str, ...]], None] = lambda _: None
    """Receives the names of the columns before the rows are read, and may raise."""
    used: frozenset[str] = frozenset()
    """The columns whose every value must be readable."""
    delimiter: str = ""
    """That of CSV; "" for that of the header."""
    unread: int = 0
    """Rows at the start that an earlier reading checked and that are not needed. A reader that leaves them out counts down."""
    blank: int = 0
    """Rows that were left out because all of their cells are empty."""
    notes: list[Problem] = []
    """What the user is told of a file that can be read."""

    def note(self, path: Path, code: str, message: str, hint: str = "") -> None:
        """Tell something of the file once."""
        problem = Problem(code, message, hint, str(path))
        if problem not in self.notes:
            self.notes.append(problem)


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
        raise DataError(
            Problem("not-readable", error.strerror or str(error), "check the permissions", data)
        ) from error
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
        raise DataError(
            Problem("file-not-found", "the directory holds no dataset", _endings(), str(directory))
        )
    return files


def _with_known_ending(path: Path) -> Path:
    if format_of(path) is None:
        message = "this is not the ending of a dataset"
        if ".parquet" in path.name.lower():
            message = (
                "a Parquet file is compressed inside; one that is compressed again cannot be read"
            )
        hint = _endings()
        if path.suffix.lower() in (".xls", ".ods", ".numbers"):
            message, hint = "a spreadsheet is not a dataset", SPREADSHEET
        raise DataError(Problem("unknown-format", message, hint, str(path)))
    return path


def _endings() -> str:
    return f"known endings: {', '.join(ENDINGS)}; all but .parquet and .xlsx also with {' or '.join(COMPRESSIONS)} after it"


def _missing(data: str) -> Problem:
    path = Path(data)
    if path.exists():
        hint = "give a file, or - for JSON lines on standard input"
        return Problem("file-not-found", "this is a device, not a file of rows", hint, data)
    what = "no file matches this pattern" if glob.has_magic(data) else "there is no such file"
    folder = path.parent
    if not folder.is_dir():
        return Problem("file-not-found", what, f"there is no directory {folder} either", data)
    names = [
        entry.name
        for entry in folder.iterdir()
        if not entry.name.startswith(".") and (entry.is_dir() or format_of(entry))
    ]
    if path.is_symlink():
        return Problem(
            "file-not-found",
            f"this is a link to a file that is not there: {path.readlink()}",
            "",
            data,
        )
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.4)
    hint = f"did you mean {folder / near[0]}?" if near else _endings()
    return Problem("file-not-found", what, hint, data)


BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The decompressed bytes of ``path``, without a byte order mark. Raises DataError for what cannot be read."""
    try:
        with open_observed(path, _CHUNK) as raw, _decompressed(path, raw) as stream:
            if stream.peek(3)[:3] == BOM:
                stream.read(3)
            _refuse_other_format(path, stream)
            yield stream
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            Problem(
                "broken-gzip",
                f"the gzip file is damaged or cut off: {error}",
                _COPY_AGAIN,
                str(path),
            )
        ) from error
    except OSError as error:
        if (
            compression_of(path) == ".zst" and error.errno is None
        ):  # no error of the system, but of Zstandard
            message = f"the Zstandard file is damaged or cut off: {error}"
            raise DataError(Problem("broken-zst", message, _COPY_AGAIN, str(path))) from error
        raise DataError(unreadable(path, error)) from error


_MAGIC = {
    b"PK\x03\x04": ("a spreadsheet or another zip archive", SPREADSHEET),
    b"\xd0\xcf\x11\xe0": ("a spreadsheet or another file of an old office program", SPREADSHEET),
    b"\x1f\x8b": ("compressed by gzip", "let its name end in {name}.gz"),
    b"\x28\xb5\x2f\xfd": ("compressed by Zstandard", "let its name end in {name}.zst"),
    b"PAR1": ("a Parquet file", "let its name end in .parquet"),
    b"%PDF": ("a PDF document", "give a dataset"),
    b"SQLite format 3": ("an SQLite database", "export the table as CSV or JSON lines"),
    b"\x93NUMPY": ("a NumPy array", "save it as CSV or JSON lines"),
    b"ARROW1": ("an Arrow file", "write it as Parquet"),
    b"version https://git-lfs": ("a pointer of Git LFS", "fetch the file itself: git lfs pull"),
}
"""How files that are no text begin -> what they are, and what to do."""


def _refuse_other_format(path: Path, stream: io.BufferedReader[Any]) -> None:
    """DataError for a file that is not the text that its name promises."""
    start = stream.peek(512)[:512]
    if not start.strip(b"\0") and start:
        raise DataError(
            Problem("bad-encoding", "the file holds zero bytes, no text", _COPY_AGAIN, str(path))
        )
    for magic, (what, hint) in _MAGIC.items():
        if start.startswith(magic):
            text = f"this is {what}, named {path.suffix}"
            raise DataError(
                Problem("unknown-format", text, hint.format(name=path.suffix), str(path))
            )
    if start.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html", b"<?xml")):
        hint = "look at it: a site answers so where the address is wrong or needs a login"
        raise DataError(
            Problem(
                "unknown-format",
                f"this is a page of HTML or XML, named {path.suffix}",
                hint,
                str(path),
            )
        )


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
                Problem(
                    "too-long",
                    message,
                    "put large values in files, or shorten them",
                    str(path),
                    number,
                )
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
        is_link = path.is_symlink()
        message = (
            f"this is a link to a file that is not there: {path.readlink()}"
            if is_link
            else "there is no such file"
        )
        return Problem("file-not-found", message, "", str(path))
    return Problem(
        "not-readable",
        f"cannot be read: {error.strerror or error}",
        "check the permissions",
        str(path),
    )


_COPY_AGAIN = "copy or download the file again"


def _decompressed(path: Path, raw: io.BufferedReader[Any]) -> io.BufferedReader[Any]:
    match compression_of(path):
        case ".gz":
            return io.BufferedReader(gzip.GzipFile(fileobj=raw, mode="rb"), _CHUNK)
        case ".zst":
            import pyarrow

            return io.BufferedReader(
                pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, "r"), "zstd"), _CHUNK
            )
        case _:
            return raw
