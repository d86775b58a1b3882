"""Pages: sections of notes, tables, charts and rows, laid out as one self-contained HTML file by `page`."""

from verdict_cli.report.page.assemble import page, template
from verdict_cli.report.page.charts import Bars, Dots, Place, Scatter, Series, Spot
from verdict_cli.report.page.parts import (
    Browser,
    Code,
    Column,
    Facts,
    Group,
    Links,
    Note,
    Part,
    Picture,
    Section,
    Tile,
    Tiles,
)
from verdict_cli.report.page.table import Table

__all__ = [
    "Bars",
    "Browser",
    "Code",
    "Column",
    "Dots",
    "Facts",
    "Group",
    "Links",
    "Note",
    "Part",
    "Picture",
    "Place",
    "Scatter",
    "Section",
    "Series",
    "Spot",
    "Table",
    "Tile",
    "Tiles",
    "page",
    "template",
]
