"""One self-contained HTML file from sections: no network, nothing from data ever read as markup or script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verdict_cli.report import formatting
from verdict_cli.report.page import chartjs
from verdict_cli.report.page.chart_values import Bars, Dots, Scatter
from verdict_cli.report.page.components import Group, PagePart, Section
from verdict_cli.report.page.compress import island, packed_bytes

if TYPE_CHECKING:
    from jinja2 import Environment, Template

PAGE_FOLDER = Path(__file__).parent
SCRIPTS = ("data.js", "theme.js", "intervals.js", "charts.js", "cells.js", "story.js", "rows.js", "start.js")
"""The page's own script, in the order in which its files build on each other."""


def assemble_page(title: str, sections: Sequence[Section], *, kicker: str = "Verdict report", lead: str = "") -> str:
    """The file's text; `kicker` stands above the title and `lead`, one line, under it.

    It opens from anywhere, asks nothing of any network, and shows its tables where scripts are off.
    """
    parts = list(_parts(sections))
    charts = [part for part in parts if isinstance(part, Dots | Scatter | Bars)]
    own = page_script()
    drawing = chartjs.chart_script() if charts else ""
    hashes = " ".join(_hash(text) for text in (own, drawing) if text)
    return template().render(
        title=title,
        kicker=kicker,
        lead=lead,
        sections=sections,
        policy=f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        style=_markup((PAGE_FOLDER / "style.css").read_text("utf-8")),
        script=_markup(own),
        charts=_markup(island([chart.drawn() for chart in charts])),
        number={id(chart): place for place, chart in enumerate(charts)},
        id=id,
        library=packed_bytes(drawing.encode()) if charts else "",
        licences=_lines(chartjs.licences()) if charts else "",
        island=lambda value: _markup(island(value)),
        lines=_lines,
        visible=formatting.visible_text,
        breakable=_breakable,
        svg=_markup,
    )


@cache
def template() -> Template:
    """The page's template, which takes longer to compile than to fill."""
    return page_environment().from_string((PAGE_FOLDER / "page.html").read_text("utf-8"))


def page_environment() -> Environment:
    """Jinja2 that escapes whatever it is given."""
    from jinja2 import Environment, StrictUndefined

    return Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_visible
    )


def page_script() -> str:
    """The page's own script: one function around all of its files."""
    text = "\n".join((PAGE_FOLDER / name).read_text("utf-8") for name in SCRIPTS)
    return f"(() => {{\n'use strict';\n{text}\n}})();\n"


def _parts(sections: Sequence[Section]) -> Iterator[PagePart]:
    for section in sections:
        for part in section.parts:
            if isinstance(part, Group):
                yield from part.parts
            else:
                yield part


def _hash(text: str) -> str:
    """How a policy names a script by its content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


def _visible(value: Any) -> Any:
    return formatting.visible_text(value) if type(value) is str else value


def _breakable(text: str) -> Any:
    """The text escaped; a long name may break after its underscores."""
    from markupsafe import Markup, escape

    return Markup("_<wbr>").join(escape(formatting.visible_text(piece)) for piece in text.split("_"))


def _lines(text: str) -> Any:
    """The text escaped, with its line ends and tabs."""
    from markupsafe import Markup, escape

    return Markup("\n").join(
        Markup("\t").join(escape(formatting.visible_text(piece)) for piece in line.split("\t"))
        for line in text.split("\n")
    )
