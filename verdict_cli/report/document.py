"""The document model: what every report says, as sections of parts that each renderer draws in its own format.

A run's report, a comparison, a sweep, an audit and a ranking are documents; `renderers` has a module for each format. Each part is
created on its own: a note replaces one that fails, and the other parts are complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, ClassVar, Literal, TypeVar

import orjson
from msgspec import Struct

from verdict_cli.errors import VerdictError, internal_fault
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.report import formatting, run_notes
from verdict_cli.stats.gates import GateOutcome
from verdict_cli.stats.intervals.interval_methods import MetricValue

Format = Literal["terminal", "markdown", "html", "junit"]
TEXT_FORMATS: tuple[Format, ...] = ("terminal", "markdown")
PAGE_FORMATS: tuple[Format, ...] = ("html",)
ALL_FORMATS: tuple[Format, ...] = (*TEXT_FORMATS, *PAGE_FORMATS, "junit")


class Part(Struct, frozen=True):
    """A piece of a section. A renderer draws it by its `kind`, and skips a kind that its format has no room for."""

    kind: ClassVar[str]


class Note(Part, frozen=True):
    """A paragraph; a `warning` stands out."""

    kind: ClassVar = "note"
    text: str
    warning: bool = False


class FactList(Part, frozen=True):
    """Names and their values; `details` are facts for which only a page has room."""

    kind: ClassVar = "facts"
    rows: Sequence[tuple[str, str]]
    details: Sequence[tuple[str, str]] = ()


class Tile(Struct, frozen=True):
    """One headline metric with its interval as text."""

    title: str
    value: str
    interval: str = ""
    note: str = ""
    shares: tuple[float, float, float] | None = None
    """The interval's lower end, the value and the upper end, as shares of the axis."""
    caution: str = ""
    """Why the value or its interval is missing or uncertain."""


class Tiles(Part, frozen=True):
    """The headline metrics of a page; tables repeat them elsewhere."""

    kind: ClassVar = "tiles"
    tiles: Sequence[Tile]


class Table(Part, frozen=True):
    """Cells of text, the first of each row its head. `right` are the columns of numbers, `strong` the rows that stand out.

    `heat` is a shade from 0 to 1 for each cell after the first, negative where the shade means an error. `folded` is
    the title under which the table is hidden until it is opened. Text formats print `most_rows` rows (0: all) of
    `total_rows` (0: those given), and on a terminal one paragraph a row if `records` says that the cells are long.
    """

    kind: ClassVar = "table"
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[int] = ()
    caption: str = ""
    folded: str = ""
    strong: Sequence[int] = ()
    heat: Sequence[Sequence[float]] = ()
    most_rows: int = 0
    total_rows: int = 0
    records: bool = False

    def rows_left(self, printed: int) -> int:
        """How many rows are left out where so many are printed."""
        return (self.total_rows or len(self.rows)) - printed


class MetricList(Part, frozen=True):
    """Metrics with their intervals, and why one is missing or uncertain."""

    kind: ClassVar = "metrics"
    rows: Sequence[tuple[str, MetricValue]]

    def table(self, *, with_reasons: bool) -> Table:
        """The metrics as a table."""
        rows = [
            (name, *formatting.metric_cells(metric), *([metric.reason] if with_reasons else []))
            for name, metric in self.rows
        ]
        title = formatting.interval_header(
            max((metric.level for _, metric in self.rows), default=0.95)
        )
        return Table(
            ("metric", "value", title, "n", *([""] if with_reasons else [])), rows, (1, 2, 3)
        )

    def reasons(self) -> list[str]:
        """A line for each reason, with the metrics that share it."""
        names: dict[str, list[str]] = {}
        for name, metric in self.rows:
            if metric.reason:
                names.setdefault(metric.reason, []).append(name)
        return [f"{', '.join(sharing)}: {reason}" for reason, sharing in names.items()]


class Gates(Part, frozen=True):
    """The outcomes of a run's gates."""

    kind: ClassVar = "gates"
    outcomes: Sequence[GateOutcome]

    def table(self, signs: Mapping[str, str]) -> Table:
        """The gates as a table; `signs` is what stands for passed, failed and inconclusive."""
        rows = [
            (
                gate.metric,
                signs[gate.verdict],
                *formatting.number_cells(gate),
                gate.rule,
                run_notes.gate_note(gate),
            )
            for gate in self.outcomes
        ]
        return Table(("metric", "outcome", "value", "interval", "limit", "why"), rows, (2, 3))


class Failures(Part, frozen=True):
    """Failed rows by kind, the most frequent first; `reasons` has an example of each, `tolerated` if a gate allows them."""

    kind: ClassVar = "failures"
    kinds: Sequence[tuple[str, int]]
    rows: int
    reasons: Mapping[str, str]
    tolerated: bool = False

    def table(self) -> Table:
        """The kinds as a table."""
        return Table(
            ("kind", "rows"),
            [(kind, f"{count:,}") for kind, count in self.kinds],
            (1,),
            most_rows=10,
        )


class Picture(Part, frozen=True):
    """An SVG that this package drew: it is not escaped."""

    kind: ClassVar = "picture"
    svg: str
    caption: str = ""


class CodeBlock(Part, frozen=True):
    """Preformatted text, folded under its title."""

    kind: ClassVar = "code"
    title: str
    text: str


class Links(Part, frozen=True):
    """Files in the document's directory."""

    kind: ClassVar = "links"
    files: Sequence[str]


class TableColumn(Struct, frozen=True):
    """A column of a table of rows. `kind` is `text`, `number`, `truth`, `money` or `outcome`; a `wide` one is folded, and hidden
    on a small screen."""

    key: str
    title: str
    kind: str = "text"
    wide: bool = False

    def as_json(self) -> list[Any]:
        """The column as the page's script reads it."""
        return [self.key, self.title, self.kind, self.wide]


class RowBrowser(Part, frozen=True):
    """A table of rows that can be searched and sorted, and opens a row's details.

    `rows` are packed lists of lists (one a row, in the order of `columns`, the index of its details or null at the end);
    `details` are packed lists of `per_piece` details each (see `page.compress`); `note` says what is left out.
    """

    kind: ClassVar = "browser"
    columns: Sequence[TableColumn]
    rows: Sequence[str]
    details: Sequence[str]
    per_piece: int
    count: int
    note: str = ""

    def script_data(self) -> JsonObject:
        """The data of the page's script."""
        return {
            "columns": [column.as_json() for column in self.columns],
            "rows": list(self.rows),
            "stories": list(self.details),
            "per": self.per_piece,
        }


class Group(Part, frozen=True):
    """Parts side by side where there is room, or folded under a `title`."""

    kind: ClassVar = "group"
    parts: Sequence[Part]
    title: str = ""


class Only(Part, frozen=True):
    """Parts for some of the formats."""

    kind: ClassVar = "only"
    formats: Sequence[Format]
    parts: Sequence[Part]


class Section(Struct, frozen=True):
    """A heading and its parts; the navigation names one with a title. `essential`: a short format keeps it whole."""

    title: str
    parts: Sequence[Part]
    subtitle: str = ""
    essential: bool = False
    formats: Sequence[Format] = ALL_FORMATS


class ReportDocument(Struct, frozen=True):
    """A report of any kind. `kicker` and `lead` are a page's lines above and below the title.

    `elsewhere` says where a text format's reader finds what is left out; `data` gives the content as JSON has it.
    `conclusion` is the result in one sentence, which every format and the JSON begin with.
    """

    title: str
    sections: Sequence[Section]
    kicker: str = "Verdict report"
    lead: str = ""
    elsewhere: str = "in report.html"
    data: Callable[[], NamedValues] = dict
    conclusion: str = ""
    started: str = ""
    """When what is reported began, as ISO text."""
    seconds: float = 0.0
    """How long it took."""

    def as_json(self) -> JsonObject:
        """The content as JSON has it, the conclusion first."""
        return {**({"conclusion": self.conclusion} if self.conclusion else {}), **self.data()}

    def sections_for(self, target: Format) -> list[Section]:
        """The sections that this format draws."""
        return [section for section in self.sections if target in section.formats]


def parts_for(parts: Sequence[Part], target: Format) -> Iterator[Part]:
    """The parts that this format draws; only a page has groups, elsewhere their parts follow each other."""
    for part in parts:
        if isinstance(part, Only):
            if target in part.formats:
                yield from parts_for(part.parts, target)
        elif isinstance(part, Group) and target != "html":
            yield from parts_for(part.parts, target)
        else:
            yield part


Drawing = TypeVar("Drawing")


NOT_CREATED = "could not be created"


def failure_text(name: str, error: Exception) -> str:
    """The message that replaces the part `name`."""
    cause = error.message[:500] if isinstance(error, VerdictError) else internal_fault(error)
    return f"{name} {NOT_CREATED}: {cause}"


def isolated_parts(name: str, make: Callable[[], Iterable[Part]]) -> list[Part]:
    """The parts that `make` returns, or a warning in their place."""
    try:
        return list(make())
    except Exception as error:
        return [Note(failure_text(name, error), warning=True)]


def isolated_drawing(section: Section, draw: Callable[[Section], Drawing]) -> Drawing:
    """The section as `draw` draws it; if that fails, the section with a warning in place of its parts."""
    try:
        return draw(section)
    except Exception as error:
        return draw(failed_section(section.title, error))


def failed_section(title: str, error: Exception) -> Section:
    """A section of this title that says why it could not be created."""
    warning = Note(failure_text(title or "This section", error), warning=True)
    return Section(title, [warning], essential=True)


def placeholder(name: str, message: str) -> str:
    """The content of a report file that could not be created: the message, in the file's format."""
    message = formatting.visible_text(message)
    suffix = name.rpartition(".")[2]
    if suffix == "json":
        return f"{orjson.dumps({'error': message}).decode()}\n"
    if suffix == "html":
        return f'<!doctype html>\n<meta charset="utf-8">\n<title>Verdict report</title>\n<p>{escape(message)}</p>\n'
    if suffix == "xml":
        one_line = escape(message).replace("\n", "&#10;")
        case = (
            f'<testcase classname="report" name="{name}"><error message="{one_line}"/></testcase>'
        )
        suite = f'<testsuite name="report" tests="1" failures="0" errors="1" skipped="0">{case}</testsuite>'
        return f'<testsuites tests="1" failures="0" errors="1" skipped="0">{suite}</testsuites>\n'
    return f"**{escape(message)}**\n"
