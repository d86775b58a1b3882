"""How each row of an evaluation comes out: how well it is scored, and what was said of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from verdict_cli.evaluate.column import MISSING, NUMBER, Column, Floats
from verdict_cli.evaluate.families import OF_LABELS, family
from verdict_cli.evaluate.rows import Data


def scores_of(data: Data, metrics: Sequence[str]) -> Floats:
    """How well each row is scored, more is better: 1 right and 0 wrong, minus the distance, or the value itself."""
    of = {family(metric, data) for metric in metrics}
    if "numbers" in of and data.kind in ("ordinal", "numeric") and not set(metrics) <= OF_LABELS:
        return -np.abs(data.predictions.numbers - data.targets.numbers)
    if of & {"labels", "ranking", "numbers"}:
        scores = (data.target == data.prediction).astype(np.float64)
        known = data.target != MISSING
        return np.where(known if data.wrong else known & (data.prediction != MISSING), scores, np.nan)
    positive = data.is_positive
    if "probability" in of and positive is not None:
        return np.where(data.target == MISSING, np.nan, -((data.probability.numbers - positive) ** 2))
    return data.value.numbers


def said(data: Data) -> Column:
    """What the run says of each row: its predictions, else its probabilities, else its values."""
    for column in (data.predictions, data.probability):
        if column.types:
            return column
    return data.value


def cell(column: Column, row: int) -> Any:
    """One value of a column as it was given; None where there is none."""
    code = column.codes[row]
    if code == MISSING:
        return None
    if code != NUMBER:
        return column.words[code]
    number = float(column.numbers[row])
    if column.types == {"bool"}:
        return bool(number)
    return int(number) if number.is_integer() and "float" not in column.types else number
