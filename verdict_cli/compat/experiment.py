"""The table of agreement with human labels that notebooks of haizelabs' library print."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

HEADERS = ("Ground Truth", "Prediction", "Acc.", "Cohen (κ)", "Kendall (τ)", "Spearman (ρ)")


@dataclass
class ExperimentConfig:
    """The columns of labels and of predictions, in pairs, and columns whose values are shown one by one."""

    ground_truth_cols: list[str]
    prediction_cols: list[str]
    pivot_cols: list[str] | None = None


def display_stats(df: pandas.DataFrame, experiment_config: ExperimentConfig) -> list[tuple[Any, ...]]:
    """Print accuracy, Cohen's kappa, Kendall's tau and Spearman's rho of each pair of columns, and return them."""
    from rich.console import Console
    from rich.table import Table

    pivoted = bool(experiment_config.pivot_cols)
    rows = [row if pivoted else row[2:] for row in _rows(df, experiment_config)]
    table = Table(title=f"Agreement (N={len(df)} samples)")
    for header in (*(("Pivot", "N") if pivoted else ()), *HEADERS):
        table.add_column(header)
    for row in rows:
        table.add_row(*(_text(value, share=place == len(row) - 4) for place, value in enumerate(row)))
    Console().print(table)
    return rows


def _text(value: Any, *, share: bool) -> str:
    if not isinstance(value, float):
        return str(value)
    return "—" if math.isnan(value) else f"{value:.2%}" if share else f"{value:.2f}"


def _rows(df: pandas.DataFrame, config: ExperimentConfig) -> Iterator[tuple[Any, ...]]:
    for truth, prediction in zip(config.ground_truth_cols, config.prediction_cols, strict=True):
        yield ("*", len(df), truth, prediction, *_agreement(list(df[truth]), list(df[prediction])))
        for column in config.pivot_cols or ():
            for value, part in df.groupby(column):
                found = _agreement(list(part[truth]), list(part[prediction]))
                yield (f"{column}={value}", len(part), truth, prediction, *found)


def _agreement(truth: Sequence[Any], prediction: Sequence[Any]) -> tuple[float, float, float, float]:
    """Accuracy, kappa, tau and rho; NaN where one is undefined."""
    import numpy as np
    import pandas

    from verdict_cli.stats.metrics.confusion import cohen_kappa

    labels = list(dict.fromkeys([*truth, *prediction]))
    counts = np.zeros((1, len(labels), len(labels)))
    for one, other in zip(truth, prediction, strict=True):
        counts[0, labels.index(one), labels.index(other)] += 1
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa = float(cohen_kappa(counts)[0])
    accuracy = sum(one == other for one, other in zip(truth, prediction, strict=True)) / max(len(truth), 1)
    if any(isinstance(label, str) for label in labels):
        return accuracy, kappa, math.nan, math.nan
    first, second = pandas.Series(truth, dtype=float), pandas.Series(prediction, dtype=float)
    if first.nunique() < 2 or second.nunique() < 2:
        return accuracy, kappa, math.nan, math.nan
    return accuracy, kappa, float(first.corr(second, method="kendall")), float(first.corr(second, method="spearman"))
