"""The requests of one batch on disk: the file that is sent, and beside it what each request's reply is for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import orjson
from msgspec import Struct, convert
from msgspec.structs import astuple

from verdict_cli.errors import OutputError
from verdict_cli.storage.journal.entry import CallKey


class RequestKey(Struct, frozen=True):
    """What a request's reply is for: its call in the journal, and how it is read.

    ``content`` is the digest of an entry inside `each`, ``cache_key`` the hex of the reply's key in the cache ("": not
    cached), ``top_logprobs`` the alternatives requested, ``mode`` the form of a request for JSON ("": none), ``sent`` the
    parameters as JSON, ``tokens`` about how many the prompt has.
    """

    custom_id: str
    row: str
    node: str
    fingerprint: str
    call: int
    attempt: int
    item: str = ""
    content: str = ""
    cache_key: str = ""
    top_logprobs: int = 0
    mode: str = ""
    sent: str = ""
    tokens: int = 0


def custom_id(key: CallKey) -> str:
    """32 hex digits that follow from the call's name in the journal: row, node, fingerprint, call, attempt, item."""
    text = "\0".join(map(str, key))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class RequestFile:
    """A request file that is written, and then sent. ``tokens`` are the prompt's, as estimated."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = self.size = self.tokens = 0
        self._digest = hashlib.sha256()
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lines, self._keys = _create(path), _create(key_path(path))

    def add(self, line: bytes, key: RequestKey) -> None:
        """Append a request."""
        with disk_errors(self.path):
            self._lines.write(line)
            self._keys.write(orjson.dumps(astuple(key)) + b"\n")
        self._digest.update(line)
        self.count += 1
        self.size += len(line)
        self.tokens += key.tokens

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def close(self) -> None:
        """Bring both files to the disk."""
        with disk_errors(self.path):
            for file in (self._lines, self._keys):
                if not file.closed:
                    file.flush()
                    os.fsync(file.fileno())
                    file.close()

    def discard(self) -> None:
        """Remove both files."""
        for file in (self._lines, self._keys):
            with suppress(OSError):  # a full disk, which something else reports
                file.close()
        self.path.unlink(missing_ok=True)
        key_path(self.path).unlink(missing_ok=True)

    def move(self, path: Path) -> None:
        """Give both files, which are closed, their final name."""
        with disk_errors(path):
            self.path.rename(path)
            key_path(self.path).rename(key_path(path))
        self.path = path

    def split(self, first: int) -> tuple[RequestFile, RequestFile]:
        """Two files, the first with so many requests, in place of this one."""
        halves = RequestFile(self.path.with_suffix(".a.jsonl")), RequestFile(self.path.with_suffix(".b.jsonl"))
        with self.path.open("rb") as lines:
            for place, (line, key) in enumerate(zip(lines, read_keys(self.path), strict=True)):
                halves[place >= first].add(line, key)
        for half in halves:
            half.close()
        self.discard()
        return halves


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raise an OSError of the disk as an OutputError."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}",
            hint="free some space; the same command resumes the run",
        ) from error


def key_path(path: Path) -> Path:
    """Where the keys of a request file are."""
    return path.with_suffix(".keys")


def result_path(path: Path) -> Path:
    """Where the results of a request file's batch are kept while they are read."""
    return path.with_suffix(".results")


def read_keys(path: Path) -> Iterator[RequestKey]:
    """The keys of a request file, in its order."""
    with key_path(path).open("rb") as keys:
        for line in keys:
            values = orjson.loads(line)
            yield convert(dict(zip(RequestKey.__struct_fields__, values, strict=True)), RequestKey)


def reopened(path: Path) -> RequestFile:
    """A copy of a request file that can be split or sent as another batch."""
    copy = RequestFile(path.with_suffix(".again.jsonl"))
    with path.open("rb") as lines:
        for line, key in zip(lines, read_keys(path), strict=True):
            copy.add(line, key)
    copy.close()
    return copy


def _create(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
    return os.fdopen(descriptor, "wb")
