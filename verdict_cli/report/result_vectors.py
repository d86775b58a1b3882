"""Columns of a run's results as arrays: numbers, and the lengths of texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.storage.tables.arrow_vectors import floats
from verdict_cli.storage.tables.reader import read_arrow


def number_vector(results: Path, columns: Sequence[str]) -> dict[str, Floats]:
    """The columns that hold numbers or booleans, NaN where a row has none; the others are left out."""
    import pyarrow as pa

    def read(array: Any) -> Any:
        kind = array.type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            return None
        return floats(array)

    return _vectors(results, columns, read)


def lengths(results: Path, columns: Sequence[str]) -> dict[str, Floats]:
    """The lengths in characters of the columns that hold text, 0 where a row has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def read(array: Any) -> Any:
        if not pa.types.is_string(array.type):
            return None
        return np.nan_to_num(floats(pc.utf8_length(array)))

    return _vectors(results, columns, read)


def _vectors(results: Path, columns: Sequence[str], read: Any) -> dict[str, Floats]:
    found: dict[str, list[Floats]] = {column: [] for column in columns}
    for batch in read_arrow(results, list(columns)) if columns else ():
        for column in list(found):
            vector = read(batch.column(column))
            if vector is None:
                del found[column]
            else:
                found[column].append(vector)
    return {column: np.concatenate(parts) for column, parts in found.items() if parts}
