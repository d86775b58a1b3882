"""Arrow arrays as NumPy arrays, from their buffers: without pandas, and without `pyarrow.compute`, whose import takes 28 ms."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def floats(array: Any) -> npt.NDArray[np.float64]:
    """An array of numbers or booleans, NaN where a value is null."""
    if array.null_count == len(array):
        return np.full(len(array), np.nan)
    numbers = _numbers(array).astype(np.float64)
    numbers[~present(array)] = np.nan
    return numbers


def integers(array: Any) -> npt.NDArray[np.int64]:
    """An array of integers without nulls."""
    return _numbers(array).astype(np.int64)


def truths(array: Any) -> npt.NDArray[np.bool_]:
    """An array of booleans, false where a value is null."""
    if array.null_count == len(array):
        return np.zeros(len(array), dtype=bool)
    return _numbers(array).astype(bool) & present(array)


def characters(array: Any) -> npt.NDArray[np.int64]:
    """The characters of each text of an array, 0 where a value is null."""
    if not len(array) or array.null_count == len(array):
        return np.zeros(len(array), np.int64)
    _, ends_buffer, text_buffer = array.buffers()
    ends = np.frombuffer(ends_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    text = np.frombuffer(text_buffer or b"", np.uint8)[: ends[-1]]
    begins_character = np.append(text & 0xC0 != 0x80, False)
    lengths = np.add.reduceat(begins_character, ends[:-1], dtype=np.int64)
    lengths[ends[1:] == ends[:-1]] = 0  # reduceat takes the byte behind an empty text
    return lengths


def present(array: Any) -> npt.NDArray[np.bool_]:
    """Where an array of any type has a value."""
    if array.null_count in (0, len(array)):
        return np.full(len(array), array.null_count == 0)
    return _bits(array, 0).astype(bool)


def _numbers(array: Any) -> npt.NDArray[Any]:
    """The numbers or bits of an array, with anything in place of a null."""
    import pyarrow as pa

    if not len(array):
        return np.zeros(0)
    if pa.types.is_boolean(array.type):
        return _bits(array, 1)
    numbers = np.frombuffer(array.buffers()[1], array.type.to_pandas_dtype())
    return numbers[array.offset : array.offset + len(array)]


def _bits(array: Any, buffer: int) -> npt.NDArray[np.uint8]:
    """The bits in a buffer of the array: the first says where it has a value, the second has booleans."""
    bits = np.unpackbits(np.frombuffer(array.buffers()[buffer], np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)]
