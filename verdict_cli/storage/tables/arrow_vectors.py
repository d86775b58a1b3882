"""Arrow arrays as NumPy arrays, without pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from verdict_cli.storage.tables.column_types import ColumnKind
from verdict_cli.storage.tables.column_types import array as arrow


def floats(array: Any) -> npt.NDArray[np.float64]:
    """An array of numbers or booleans, NaN where a value is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    return np.from_dlpack(
        pc.fill_null(array.cast(pa.float64(), safe=False), scalar(float("nan"), "float"))
    ).astype(np.float64, copy=False)


def scalar(value: Any, kind: ColumnKind) -> Any:
    """The value as an Arrow scalar."""
    return arrow([value], kind)[0]


def integers(array: Any) -> npt.NDArray[np.int64]:
    """An array of integers without nulls."""
    import pyarrow as pa

    return np.from_dlpack(array.cast(pa.int64())).astype(np.int64, copy=False)


def truths(array: Any) -> npt.NDArray[np.bool_]:
    """An array of booleans, false where a value is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return np.from_dlpack(pc.fill_null(array, scalar(False, "bool")).cast(pa.int8())).astype(bool)
