"""The files that a dataset's name stands for, and the format that each file's ending tells."""

from __future__ import annotations

import difflib
import glob
from pathlib import Path

from verdict_cli.errors import DataError, Problem

ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
"""Ending -> format. Each but Parquet may be followed by an ending of `COMPRESSIONS`."""

SPREADSHEET = "save the sheet as CSV (UTF-8) from the spreadsheet program"

COMPRESSIONS = (".gz", ".zst")


def format_of(path: Path) -> str | None:
    """The format that the name tells (a value of `ENDINGS`), None for a name that tells none."""
    name = path.name.lower()
    stem = name.removesuffix(compression_of(path))
    kind = ENDINGS.get(Path(stem).suffix)
    return None if kind == "parquet" and stem != name else kind


def compression_of(path: Path) -> str:
    """``.gz``, ``.zst`` or an empty string."""
    suffix = path.suffix.lower()
    return suffix if suffix in COMPRESSIONS else ""


def locate(data: str) -> tuple[Path, ...]:
    """The files behind ``data``: a file, a directory (its readable files, not those of subdirectories) or a glob.

    Sorted by name. Raises DataError when nothing is there, or when a named file's ending is not known.
    """
    path = Path(data)
    try:
        if path.is_dir():
            return _inside(path)
        if path.is_file():
            return (_known(path),)
        if glob.has_magic(data):
            found = sorted(Path(match) for match in glob.glob(data, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
            files = tuple(_known(match) for match in found if match.is_file())
            if files:
                return files
    except OSError as error:
        raise DataError(
            Problem("not-readable", error.strerror or str(error), "check the permissions", data)
        ) from error
    raise DataError(_missing(data))


def _inside(directory: Path) -> tuple[Path, ...]:
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


def _known(path: Path) -> Path:
    if format_of(path) is None:
        message = "this ending is not that of a dataset"
        if ".parquet" in path.name.lower():
            message = "a Parquet file is compressed inside; one that is compressed again cannot be read"
        hint = _endings()
        if path.suffix.lower() in (".xlsx", ".xls", ".ods", ".numbers"):
            message, hint = "a spreadsheet is no dataset", SPREADSHEET
        raise DataError(Problem("unknown-format", message, hint, str(path)))
    return path


def _endings() -> str:
    return (
        f"known endings: {', '.join(ENDINGS)}; all but .parquet also with {' or '.join(COMPRESSIONS)} behind"
    )


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
