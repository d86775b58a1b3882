"""What makes two datasets the same."""

from __future__ import annotations

import hashlib

import orjson

from verdict_cli.data.dataset import Dataset, Selection
from verdict_cli.data.files import compression_of, format_of
from verdict_cli.data.opened import unreadable
from verdict_cli.errors import DataError


def fingerprint(dataset: Dataset, selection: Selection) -> str:
    """32 hex digits (BLAKE2b) over the files' bytes and formats and all settings that select or change rows.

    Names, places and times of the files do not count, nor does the seed where no sample is drawn.
    """
    drawn = None if selection.sample is None else [selection.sample, selection.seed]
    settings = [
        sorted(dataset.columns.items()),
        dataset.id,
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
