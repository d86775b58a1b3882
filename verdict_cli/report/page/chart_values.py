"""Charts as values. Each says what the script is to draw, and gives a table with the same numbers.

`Dots` holds values of named things, one a line, with intervals: groups, published rows, differences by slice.
`Scatter` holds points in a plane: a reliability diagram, a frontier of accuracy against cost.
`Bars` holds counts or sums: histograms, cost by unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from verdict_cli.report import formatting
from verdict_cli.report.page.page_table import PageTable

Range = tuple[float | None, float | None]
"""The ends of an axis; None lets the data decide."""


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A named value with the ends of its interval; a `strong` one stands out. `note` is shown beside it."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Dots:
    """One line a spot; `reference` draws a line across all, such as 0 under differences."""

    title: str
    spots: Sequence[ChartPoint]
    x: str
    x_range: Range = (None, None)
    reference: float | None = None
    caption: str = ""
    kind: ClassVar[str] = "chart"

    @property
    def height(self) -> int:
        """Pixels."""
        return 64 + 26 * len(self.spots)

    def drawn(self) -> dict[str, Any]:
        """What the script draws."""
        return {
            "type": "dots",
            "labels": [formatting.visible_text(spot.label, 60) for spot in self.spots],
            "spots": [[spot.value, spot.low, spot.high, int(spot.strong)] for spot in self.spots],
            "x": self.x,
            "xRange": self.x_range,
            "reference": self.reference,
        }

    def table(self) -> PageTable:
        """The same as a table."""
        rows = [
            (spot.label, formatting.format_number(spot.value), formatting.interval(spot.low, spot.high), spot.note)
            for spot in self.spots
        ]
        return PageTable(("", self.x, "95% interval", ""), rows, (1, 2), folded="The numbers of this chart")


@dataclass(frozen=True, slots=True)
class ChartPlace:
    """A point with the ends of its interval upwards (`low`, `high`) and, where `x` is an estimate too, sideways."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    x_low: float | None = None
    x_high: float | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together; `joined` ones are connected in their order, `named` ones bear their labels."""

    name: str
    places: Sequence[ChartPlace]
    joined: bool = False
    named: bool = False


@dataclass(frozen=True, slots=True)
class Scatter:
    """Points in a plane; `diagonal` draws y = x, `logarithmic` makes the x axis so."""

    title: str
    series: Sequence[Series]
    x: str
    y: str
    x_range: Range = (None, None)
    y_range: Range = (None, None)
    diagonal: bool = False
    logarithmic: bool = False
    caption: str = ""
    kind: ClassVar[str] = "chart"

    @property
    def height(self) -> int:
        """Pixels."""
        return 320

    def drawn(self) -> dict[str, Any]:
        """What the script draws."""
        return {
            "type": "scatter",
            "series": [
                {
                    "name": formatting.visible_text(series.name, 60),
                    "joined": series.joined,
                    "named": series.named,
                    "places": [
                        [one.x, one.y, one.low, one.high, one.x_low, one.x_high, formatting.visible_text(one.label, 60)]
                        for one in series.places
                    ],
                }
                for series in self.series
            ],
            "x": self.x,
            "y": self.y,
            "xRange": self.x_range,
            "yRange": self.y_range,
            "diagonal": self.diagonal,
            "logarithmic": self.logarithmic,
        }

    def table(self) -> PageTable:
        """The same as a table."""
        rows = [
            (
                " ".join(part for part in (series.name, one.label) if part),
                " ".join(
                    part
                    for part in (formatting.format_number(one.x), formatting.interval(one.x_low, one.x_high))
                    if part
                ),
                formatting.format_number(one.y),
                formatting.interval(one.low, one.high),
            )
            for series in self.series
            for one in series.places
        ]
        return PageTable(("", self.x, self.y, "95% interval"), rows, (1, 2, 3), folded="The numbers of this chart")


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for each label; more than one series is stacked. `joined` bars touch, as those of a histogram do."""

    title: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[float]]
    x: str
    y: str
    joined: bool = False
    caption: str = ""
    kind: ClassVar[str] = "chart"

    @property
    def height(self) -> int:
        """Pixels."""
        return 280

    def drawn(self) -> dict[str, Any]:
        """What the script draws."""
        return {
            "type": "bars",
            "labels": [formatting.visible_text(label, 60) for label in self.labels],
            "series": [[formatting.visible_text(name, 60), list(values)] for name, values in self.series.items()],
            "x": self.x,
            "y": self.y,
            "joined": self.joined,
        }

    def table(self) -> PageTable:
        """The same as a table."""
        names = [name or self.y for name in self.series]
        rows = [
            (label, *(formatting.format_number(values[place]) for values in self.series.values()))
            for place, label in enumerate(self.labels)
        ]
        return PageTable((self.x, *names), rows, tuple(range(1, len(names) + 1)), folded="The numbers of this chart")
