"""What identifies a dataset: its content and its settings, and what changes when its files are written to."""

from __future__ import annotations

import hashlib

import orjson

from verdict_cli.errors import DataError
from verdict_cli.storage.datasets.dataset import Dataset, Selection
from verdict_cli.storage.datasets.files import compression_of, format_of, unreadable


def file_stamps(dataset: Dataset) -> tuple[tuple[int, ...], ...]:
    """What changes whenever a file of the dataset is written to or replaced, also if its content is as before."""
    try:
        stats = [path.stat() for path in dataset.files]
    except OSError:
        return ()
    return tuple((file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns) for file in stats)


def dataset_fingerprint(dataset: Dataset, selection: Selection) -> str:
    """32 hex digits (BLAKE2b) over the files' bytes and formats and all settings that select or change rows.

    Names, folders and times of the files do not count, nor does the seed if no sample is drawn.
    """
    drawn = None if selection.sample is None else [selection.sample, selection.seed]
    settings = [
        sorted(dataset.columns.items()),
        dataset.id,
        *([dataset.delimiter] if dataset.delimiter else []),
        dataset.rules,
        dataset.skip_bad_rows,
        selection.limit,
        drawn,
    ]
    digest = hashlib.blake2b(orjson.dumps(settings), digest_size=16)
    for path in dataset.files:
        digest.update(f"{format_of(path)}{compression_of(path)}".encode())
        try:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "blake2b").digest())
        except OSError as error:
            raise DataError(unreadable(path, error)) from error
    return digest.hexdigest()
