"""The mark of a finished part: what it was made of, its counts, and the digests of its files."""

from __future__ import annotations

import hashlib
import os
from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import Struct

from verdict_cli.errors import OutputError
from verdict_cli.messages import Row, Stage
from verdict_cli.run.progress import RunStats
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.fingerprint import reading_settings
from verdict_cli.storage.journal.journal import sync_directory
from verdict_cli.storage.tables.column_types import ColumnKind

MARK = "done.json"
Columns = Mapping[str, tuple[ColumnKind, bool]]
"""The columns of a table: the kind of each, and whether each of its integers is exactly a float."""


class PartCounts(Struct, frozen=True):
    """The counts of a part's rows, as in `RunStats`."""

    rows: int
    done: int
    failed: int
    calls: int
    recalled: int
    cached: int
    cost_usd: float | None
    prompt_tokens: int
    completion_tokens: int
    failures: dict[str, int]
    reasons: dict[str, tuple[int, str]]
    models: dict[str, int]
    saved: dict[str, int]
    stages: dict[str, tuple[Stage, ...]]
    abstained: int
    shared: int = 0
    cached_tokens: int = 0
    cache_saved_usd: float | None = 0.0
    served: tuple[tuple[str, str, int], ...] = ()
    """Each model, the version of it that answered, and how many calls."""

    @classmethod
    def of(cls, stats: RunStats) -> PartCounts:
        served = tuple((model, answered, count) for (model, answered), count in stats.served.items())
        return cls(**{name: getattr(stats, name) for name in cls.__struct_fields__[:-1]}, served=served)

    def add_to(self, stats: RunStats) -> None:
        """Add the counts to those of the run."""
        served = Counter({(model, answered): count for model, answered, count in self.served})
        counts = {name: getattr(self, name) for name in self.__struct_fields__[:-1]}
        stats.include(replace(RunStats(0), **counts, served=served))


class PartMark(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a part's ``done.json``, which is written last.

    ``first`` is the place of its first row among the selected rows. ``rows_digest`` is a `RowRange`'s. ``keys`` are the first
    64 bits of each row's key, by which copies in later parts are numbered. ``columns`` are those of the tables, ``digests``
    the SHA-256 of the journal and the tables, by their names in the run's directory.
    """

    first: int
    counts: PartCounts
    spec_fingerprint: str
    data_fingerprint: str
    rows_digest: str
    keys: str
    columns: dict[str, dict[str, tuple[ColumnKind, bool]]]
    digests: dict[str, str]

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return self.counts.rows

    def row_keys(self) -> array[int]:
        """The first 64 bits of each row's key."""
        keys = array("Q")
        keys.frombytes(b64decode(self.keys))
        return keys

    def write(self, path: Path) -> None:
        """Write the mark, completely or not at all, and bring it to the disk. OutputError if the disk refuses."""
        part = path.with_name(f"{path.name}.part")
        try:
            with part.open("wb") as file:
                file.write(msgspec.json.encode(self))
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            sync_directory(path.parent)
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written: {error.strerror or error}",
                hint="free some space, check the permissions, or choose another --out; the same command resumes the run",
            ) from error

    @classmethod
    def read(cls, path: Path) -> PartMark | None:
        """The mark at the path; None where there is none, or it is damaged: the part is then made again from its journal."""
        try:
            return cls.decode(path.read_bytes())
        except OSError:
            return None

    @classmethod
    def decode(cls, content: bytes) -> PartMark | None:
        """The mark, None for anything else."""
        try:
            mark = msgspec.json.decode(content, type=cls)
            counted = len(b64decode(mark.keys, validate=True)) == 8 * mark.rows
        except (msgspec.DecodeError, ValueError):
            return None
        return mark if counted else None


class RowRange:
    """The fingerprint of consecutive rows: the settings by which they are read, their indices and their contents."""

    def __init__(self, dataset: Dataset) -> None:
        self._digest = hashlib.blake2b(reading_settings(dataset), digest_size=16)
        self.keys = array("Q")

    def add(self, row: Row) -> int:
        """Add a row as it is in the dataset; return the first 64 bits of its key."""
        self._digest.update(f"{row.index} {row.key}\n".encode())
        key = int(row.key[:16], 16)
        self.keys.append(key)
        return key

    @property
    def digest(self) -> str:
        """32 hex digits."""
        return self._digest.hexdigest()

    def encoded_keys(self) -> str:
        """The keys for a `PartMark`."""
        return b64encode(self.keys.tobytes()).decode()
