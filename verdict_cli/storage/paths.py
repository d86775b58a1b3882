"""Paths and URLs as people write them, and files that are written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from verdict_cli.errors import OutputError
from verdict_cli.messages import NamedValues
from verdict_cli.regex import regex

_URL = regex(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")
_COLLAPSED_URL = regex(r"[a-z][a-z0-9+]+:/")


def is_remote_url(name: str) -> bool:
    """Whether the name is a URL of something other than this machine's files."""
    url = _URL.match(name)
    return url is not None and url[1].lower() != "file"


def was_url(path: Path) -> bool:
    """Whether the path is a URL that `pathlib` collapsed, such as ``s3:/bucket``."""
    return _COLLAPSED_URL.match(str(path)) is not None


def path_of(name: str) -> str:
    """The path of a ``file:`` URL; any other name unchanged."""
    if name[:7].lower() != "file://":
        return name
    from urllib.request import url2pathname  # here, because it imports an HTTP client

    return url2pathname(urlsplit(name).path)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which replaces ``path`` when the block ends, and is removed when it fails. OutputError if the disk
    refuses."""
    part = path.with_name(f"{path.name}.part")
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield part
            part.replace(path)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise


@contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Raise an OSError of the disk as an OutputError that names the path."""
    try:
        yield
    except OSError as fault:
        raise OutputError(
            f"{path} cannot be written: {fault.strerror or fault}",
            hint="free space, or choose a writable --out",
        ) from None


def write_rows(path: Path, rows: Iterable[NamedValues]) -> int:
    """Write rows as a JSONL file, atomically, and return their number. Raises OutputError if that fails."""
    count = 0
    with replacing(path) as part, part.open("wb") as file:
        for row in rows:
            file.write(orjson.dumps(row) + b"\n")
            count += 1
    return count


def sync_directory(path: Path) -> None:
    """Bring the names of new files to the disk. Windows cannot sync directories."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
