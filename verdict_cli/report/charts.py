"""Charts of a document. Each has the data that the page's script draws, and a table with the same numbers.

- `Dots`: values of named items, one a line, with intervals (groups, published rows, differences by slice).
- `Scatter`: points in a plane (a reliability diagram, a frontier of accuracy against cost).
- `Bars`: counts or sums (histograms, cost by unit).
- `Matrix`: rows by target and prediction (a confusion matrix).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import astuple

from verdict_cli.messages import JsonObject
from verdict_cli.report import formatting
from verdict_cli.report.document import Part, Table

MOST_LABEL = 200
"""Characters of a point's label: the page breaks long ones into lines."""
Range = tuple[float | None, float | None]
"""The ends of an axis; None lets the data decide."""


class ChartPoint(Struct, frozen=True):
    """A named value with the ends of its interval and a note; a `strong` one stands out.

    `texts` are the value and the interval as the chart's table shows them; by default with three decimals.
    """

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""
    strong: bool = False
    texts: tuple[str, str] | None = None

    @staticmethod
    def of(
        label: str,
        estimate: formatting.Estimate,
        note: str = "",
        strong: bool = False,
        texts: tuple[str, str] | None = None,
    ) -> ChartPoint:
        """The point of an estimate."""
        return ChartPoint(label, estimate.value, estimate.low, estimate.high, note, strong, texts)

    def as_texts(self) -> tuple[str, str]:
        """The value and the interval as texts."""
        return self.texts or formatting.number_cells(self)


class Dots(Part, frozen=True):
    """One line a point; `reference` draws a line across all, such as 0 under differences."""

    kind: ClassVar = "chart"
    title: str
    points: Sequence[ChartPoint]
    x: str
    x_range: Range = (None, None)
    reference: float | None = None
    caption: str = ""

    @property
    def height(self) -> int:
        """In pixels."""
        return 64 + 26 * len(self.points)

    def script_data(self) -> JsonObject:
        """The data of the page's script."""
        return {
            "type": "dots",
            "labels": [formatting.visible_text(point.label, MOST_LABEL) for point in self.points],
            "spots": [
                [point.value, point.low, point.high, int(point.strong)] for point in self.points
            ],
            "x": self.x,
            "xRange": self.x_range,
            "reference": self.reference,
        }

    def table(self, *, folded: bool = True, most_rows: int = 0) -> Table:
        """The numbers as a table."""
        rows = [(point.label, *point.as_texts(), point.note) for point in self.points]
        strong = [index for index, point in enumerate(self.points) if point.strong]
        title = "Values of this chart" if folded else ""
        return Table(
            ("", self.x, "interval", ""),
            rows,
            (1, 2),
            folded=title,
            strong=strong,
            most_rows=most_rows,
        )


class PlanePoint(Struct, frozen=True):
    """A point with the ends of its vertical interval."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    label: str = ""


class Series(Struct, frozen=True):
    """Points that belong together; `joined` ones are connected in their order, `named` ones show their labels."""

    name: str
    points: Sequence[PlanePoint]
    joined: bool = False
    named: bool = False


class Scatter(Part, frozen=True):
    """Points in a plane; `diagonal` draws y = x, `logarithmic` applies to the x axis."""

    kind: ClassVar = "chart"
    height: ClassVar[int] = 320  # pixels
    title: str
    series: Sequence[Series]
    x: str
    y: str
    x_range: Range = (None, None)
    y_range: Range = (None, None)
    diagonal: bool = False
    logarithmic: bool = False
    caption: str = ""

    def script_data(self) -> JsonObject:
        """The data of the page's script."""
        return {
            "type": "scatter",
            "series": [
                {
                    "name": formatting.visible_text(series.name, 60),
                    "joined": series.joined,
                    "named": series.named,
                    "places": [
                        [*astuple(point)[:-1], formatting.visible_text(point.label, MOST_LABEL)]
                        for point in series.points
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

    def table(self) -> Table:
        """The numbers as a table."""
        rows = [
            (
                f"{series.name} {point.label}".strip(),
                formatting.format_number(point.x),
                formatting.format_number(point.y),
                formatting.interval(point),
            )
            for series in self.series
            for point in series.points
        ]
        return Table(
            ("", self.x, self.y, "interval"), rows, (1, 2, 3), folded="Values of this chart"
        )


class Bars(Part, frozen=True):
    """A bar for each label; more than one series is stacked. `joined` bars touch, as those of a histogram do."""

    kind: ClassVar = "chart"
    height: ClassVar[int] = 280
    title: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[float]]
    x: str
    y: str
    joined: bool = False
    caption: str = ""

    def script_data(self) -> JsonObject:
        """The data of the page's script."""
        return {
            "type": "bars",
            "labels": [formatting.visible_text(label, 60) for label in self.labels],
            "series": [
                [formatting.visible_text(name, 60), list(values)]
                for name, values in self.series.items()
            ],
            "x": self.x,
            "y": self.y,
            "joined": self.joined,
        }

    def table(self) -> Table:
        """The numbers as a table."""
        names = [name or self.y for name in self.series]
        rows = [
            (label, *(formatting.format_number(values[index]) for values in self.series.values()))
            for index, label in enumerate(self.labels)
        ]
        return Table(
            (self.x, *names), rows, tuple(range(1, len(names) + 1)), folded="Values of this chart"
        )


class Matrix(Part, frozen=True):
    """Rows by target and prediction: a square in each cell, whose area is its share of the rows with that target."""

    kind: ClassVar = "chart"
    title: str
    labels: Sequence[str]
    counts: Sequence[Sequence[int]]
    caption: str = ""

    @property
    def height(self) -> int:
        """In pixels."""
        return 76 + min(52, 420 // len(self.labels)) * len(self.labels)

    def script_data(self) -> JsonObject:
        """The data of the page's script."""
        labels = [formatting.visible_text(label, 60) for label in self.labels]
        return {"type": "matrix", "labels": labels, "counts": [list(row) for row in self.counts]}

    def table(self, *, caption: str = "") -> Table:
        """The numbers as a table, shaded by their shares of the row, negative off the diagonal."""
        heat = [
            [
                (count / sum(row) if sum(row) else 0.0) * (1 if column == index else -1)
                for column, count in enumerate(row)
            ]
            for index, row in enumerate(self.counts)
        ]
        rows = [
            (name, *(f"{count:,}" for count in row))
            for name, row in zip(self.labels, self.counts, strict=True)
        ]
        right = tuple(range(1, len(self.labels) + 1))
        return Table(("target ↓  prediction →", *self.labels), rows, right, caption, heat=heat)


Chart = Dots | Scatter | Bars | Matrix
