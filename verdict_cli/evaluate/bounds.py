"""What the missing rows could change: the worst and the best value of a figure."""

from __future__ import annotations

import numpy as np

from verdict_cli.evaluate.column import MISSING, Ints
from verdict_cli.evaluate.families import Mask
from verdict_cli.evaluate.rows import Data


def bounds(metrics: tuple[str, ...], data: Data, missing: Mask) -> dict[str, tuple[float, float]]:
    """Worst and best values if the missing rows had predictions, for the figures that are shares of right rows."""
    if "mean" in metrics and data.value.types == {"bool"}:
        trues, rows = float(np.nansum(data.value.numbers)), len(missing)
        return {"mean": (trues / rows, (trues + int((~data.value.present).sum())) / rows)}
    labelled = data.target != MISSING
    right = (data.target == data.prediction) & labelled
    found: dict[str, tuple[float, float]] = {}
    if "accuracy" in metrics:
        found["accuracy"] = _share(right, missing, labelled)
    if "recall" in metrics and data.positive is not None and (data.target == data.positive).any():
        found["recall"] = _share(right, missing, data.target == data.positive)
    if "balanced_accuracy" in metrics:
        found["balanced_accuracy"] = _mean_share(right, missing, data.target)
    return found


def _share(right: Mask, missing: Mask, among: Mask) -> tuple[float, float]:
    total = int(among.sum())
    hits, open_rows = int((right & among).sum()), int((missing & among).sum())
    return hits / total, (hits + open_rows) / total


def _mean_share(right: Mask, missing: Mask, target: Ints) -> tuple[float, float]:
    ends = [_share(right, missing, target == code) for code in np.unique(target[target != MISSING])]
    return float(np.mean([low for low, _ in ends])), float(np.mean([high for _, high in ends]))
