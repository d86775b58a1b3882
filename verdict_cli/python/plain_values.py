"""Values of NumPy, pandas and the standard library as a file of data has them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def plain_value(value: Any) -> Any:
    """The value as JSON has it, as of a Parquet file: arrays are lists, decimals numbers, times ISO text, durations seconds.

    NaN, NaT and NA are missing. Raises TypeError for what has no such form.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if value != value else value  # noqa: PLR0124 - NaN
    if isinstance(value, Mapping):
        return {_key(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    return _foreign_value(value)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key is {key!r:.80}, expected a text")
    return key


def _foreign_value(value: Any) -> Any:
    if type(value).__name__ in (
        "NaTType",
        "NAType",
    ):  # both of pandas, which is not imported for it
        return None
    if isinstance(value, Decimal):
        has_places = value.as_tuple().exponent != 0
        return plain_value(float(value) if has_places else int(value))
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if type(value).__module__ == "numpy":
        plain = value.tolist()
        if type(plain) is not type(value):
            return plain_value(plain)
    raise TypeError(f"{type(value).__name__} {value!r:.80}")
