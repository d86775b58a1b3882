"""What measuring gives: figures with their intervals, and what stands behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One figure of `n` rows with the ends of its 95% interval.

    `value` is None where the figure is undefined, and `reason` says why; `low` and `high` are None where there is
    no interval, or are both the value where no resample differs from it (`reason` says so). `reason` also says where
    the interval may be too narrow. The value of
    `confusion` is `{"labels": […], "counts": [[…]]}`, rows by target and columns by prediction.
    """

    value: Any
    low: float | None
    high: float | None
    n: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GoldFacts:
    """What corrected figures rest on: how many of the rows have a label, the weight of the judge's answers in `ppi`, and
    how many labels the `half_width` needs with the judge (None: more than there are rows) and `alone`."""

    labels: int
    rows: int
    weight: float | None = None
    half_width: float | None = None
    needed: int | None = None
    alone: int | None = None


@dataclass(frozen=True, slots=True)
class Measures:
    """The figures of one evaluation.

    `groups` is expression -> value as text -> metric -> figure. `rows` counts the rows (groups, under `group:`)
    that `where` selects; of these `unlabelled` have no target and leave every figure, and `missing` have a target
    but no prediction. `coverage` is the rest over the labelled ones, None where there are none. `bounds` is the
    worst and best value that each figure could have if the missing rows had predictions; `unreadable` counts, for
    each expression, the rows that did not fail but whose value could not be computed.
    """

    figures: Mapping[str, MetricValue]
    groups: Mapping[str, Mapping[str, Mapping[str, MetricValue]]] = field(default_factory=dict)
    coverage: float | None = None
    rows: int = 0
    unlabelled: int = 0
    missing: int = 0
    kind: str = ""
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    unreadable: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    published: str | None = None
    gold: GoldFacts | None = None
