"""report.page.parts"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from verdict_cli.report.page.chart_values import Bars, Dots, Scatter
from verdict_cli.report.page.page_table import PageTable


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph; a `warning` stands out."""

    text: str
    warning: bool = False
    kind: ClassVar[str] = "note"


@dataclass(frozen=True, slots=True)
class FactList:
    """Names and what is known under them."""

    rows: Sequence[tuple[str, str]]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True, slots=True)
class Tile:
    """One headline figure. `low` and `high` are its interval, drawn from `least` to `most` where those are known."""

    title: str
    value: str
    interval: str = ""
    note: str = ""
    at: tuple[float, float, float] | None = None
    """The interval's lower end, the value and the upper end, as shares of the axis."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The headline."""

    tiles: Sequence[Tile]
    kind: ClassVar[str] = "tiles"


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG drawing of the program's own making: it is not escaped."""

    svg: str
    caption: str = ""
    kind: ClassVar[str] = "picture"


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Text as it is, line by line, folded under its title."""

    title: str
    text: str
    kind: ClassVar[str] = "code"


@dataclass(frozen=True, slots=True)
class Links:
    """Files beside the page."""

    files: Sequence[str]
    kind: ClassVar[str] = "links"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table of rows. `kind` is `text`, `number` or `outcome`; a `wide` one gives way on a small screen."""

    key: str
    title: str
    kind: str = "text"
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Browser:
    """A table of rows that can be searched and sorted, and opens a row's story.

    `rows` are packed lists of lists (one a row, in the order of `columns`, the place of its story or null at the end);
    `stories` are packed lists of `per` stories each (see `packing`); `note` says what is left out.
    """

    columns: Sequence[TableColumn]
    rows: Sequence[str]
    stories: Sequence[str]
    per: int
    count: int
    note: str = ""
    kind: ClassVar[str] = "browser"

    def drawn(self) -> dict[str, Any]:
        """What the script shows."""
        return {
            "columns": [[one.key, one.title, one.kind, one.wide] for one in self.columns],
            "rows": list(self.rows),
            "stories": list(self.stories),
            "per": self.per,
        }


PagePart = Note | FactList | Tiles | PageTable | Picture | CodeBlock | Links | Browser | Dots | Scatter | Bars


@dataclass(frozen=True, slots=True)
class Group:
    """Parts beside each other where there is room, or folded under a `title`."""

    parts: Sequence[PagePart]
    title: str = ""
    kind: ClassVar[str] = "group"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, its parts, and whether the navigation names it."""

    title: str
    parts: Sequence[PagePart | Group]
    listed: bool = True
