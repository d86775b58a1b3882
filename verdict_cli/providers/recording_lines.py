"""Recorded calls in a JSONL file, ``.gz`` or not."""

from __future__ import annotations

import gzip
import mmap
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.providers.json_values import loads

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


class Lines:
    """The records of a file, found by the byte at which their line starts.

    A plain file stays on disk and is mapped; a compressed one is held unpacked, as bytes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes: bytes | mmap.mmap = _content(path)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Each record with its place; raises DataError at a line that is not JSON."""
        content = self._bytes
        start = len(_BOM) if content[:3] == _BOM else 0
        size = len(content)
        line = 0
        while start < size:
            end = content.find(b"\n", start)
            end = size if end < 0 else end
            line += 1
            text = content[start:end]
            if text.strip():
                yield start, _parse(text, self._path, line)
            start = end + 1

    def read(self, place: int) -> Any:
        """The record at a place that iterating gave."""
        end = self._bytes.find(b"\n", place)
        return loads(self._bytes[place : None if end < 0 else end])

    def where(self, place: int) -> Problem:
        """The place in words: file and line."""
        return Problem("recording", "", file=str(self._path), line=self._bytes[:place].count(b"\n") + 1)

    def close(self) -> None:
        if isinstance(self._bytes, mmap.mmap):
            self._bytes.close()


def _content(path: Path) -> bytes | mmap.mmap:
    with path.open("rb") as file:
        head = file.read(2)
        if head == _GZIP:
            file.seek(0)
            try:
                return gzip.GzipFile(fileobj=file).read()
            except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
                raise DataError(
                    Problem(
                        "broken-gzip",
                        f"the compressed recording cannot be unpacked: {problem}",
                        "the file is cut off or damaged: copy or record it again",
                        file=str(path),
                    )
                ) from None
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if head else b""


def _parse(text: bytes, path: Path, line: int) -> Any:
    try:
        return loads(text)
    except ValueError as problem:
        hint = "a recording has one JSON object a line"
        raise DataError(
            Problem("not-json", f"not JSON: {problem}", hint, file=str(path), line=line)
        ) from None
