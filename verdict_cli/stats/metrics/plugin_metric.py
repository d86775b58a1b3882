"""A figure of an installed package as a statistic."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from verdict_cli.errors import UsageError
from verdict_cli.language.metric_names import Metric
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.metrics.statistic import Statistic


def from_package(metric: Metric, name: str, *columns: npt.NDArray[Any]) -> Statistic:
    """The figure of these columns, computed anew for each resample. UsageError where its function fails."""

    def at(weights: Floats) -> Floats:
        try:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.array([float(metric.figure(*columns, weight)) for weight in weights])
        except Exception as fault:
            raise UsageError(
                f"the figure {name!r} of an installed package failed: {type(fault).__name__}: {fault}",
                hint="mend its function, or leave it out of `metrics`",
            ) from None

    return Statistic(at, "its function gives no number here", least=metric.least, most=metric.most)
