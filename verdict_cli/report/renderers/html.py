"""A document as one self-contained HTML file: no network, and nothing from data is ever read as markup or script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs
from msgspec.structs import replace

from verdict_cli.report import formatting
from verdict_cli.report.charts import Chart
from verdict_cli.report.compress import island, packed_bytes
from verdict_cli.report.document import (
    Gates,
    Group,
    Part,
    ReportDocument,
    Section,
    failed_section,
    parts_for,
)

if TYPE_CHECKING:
    from jinja2 import Environment, Template

PAGE_FOLDER = Path(__file__).parent.parent / "page"
VENDOR_FOLDER = PAGE_FOLDER / "vendor"
SCRIPTS = (
    "data.js",
    "theme.js",
    "intervals.js",
    "charts.js",
    "cells.js",
    "markdown.js",
    "story.js",
    "rows.js",
    "embedded.js",
    "start.js",
)
"""The page's own script, in the order in which its files build on each other."""
PAGE_SIGNS = {"passed": "✓ passed", "failed": "✗ failed", "inconclusive": "? inconclusive"}


def render_html(document: ReportDocument) -> str:
    """The text of the file. A section that cannot be drawn is replaced by a warning that names it."""
    try:
        return _assemble(document)
    except Exception:
        sections = [_checked(section) for section in document.sections_for("html")]
        return _assemble(structs.replace(document, sections=sections))


def _checked(section: Section) -> Section:
    try:
        _assemble(ReportDocument("", [section]))
    except Exception as error:
        return failed_section(section.title, error)
    return section


def _assemble(document: ReportDocument) -> str:
    charts: list[Chart] = []
    sections = [
        structs.replace(section, parts=_page_parts(section.parts, charts))
        for section in document.sections_for("html")
    ]
    own = page_script()
    library, licences = chart_library() if charts else ("", "")
    hashes = " ".join(_hash(text) for text in (own, library) if text)
    return template().render(
        title=document.title,
        kicker=document.kicker,
        lead=document.lead,
        conclusion=document.conclusion,
        sections=sections,
        policy=f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        style=_markup((PAGE_FOLDER / "style.css").read_text("utf-8")),
        script=_markup(own),
        charts=_markup(island([chart.script_data() for chart in charts])),
        number={id(chart): index for index, chart in enumerate(charts)},
        id=id,
        library=packed_bytes(library.encode()) if library else "",
        without_library=bool(charts) and not library,
        licences=_lines(licences) if licences else "",
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
    """A Jinja2 environment that escapes every value."""
    from jinja2 import Environment, StrictUndefined

    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )


def _finalize(value: Any) -> Any:
    is_hidden = type(value) is str and not value.isprintable()
    return formatting.visible_text(value) if is_hidden else value


def page_script() -> str:
    """The page's own script: one function around all of its files."""
    text = "\n".join((PAGE_FOLDER / name).read_text("utf-8") for name in SCRIPTS)
    return f"(() => {{\n'use strict';\n{text}\n}})();\n"


def chart_library() -> tuple[str, str]:
    """Chart.js and its licences; empty texts if a file is missing, so that the page shows tables instead of charts."""
    try:
        script = (VENDOR_FOLDER / "chart.umd.min.js").read_text("utf-8")
        licences = [
            file.read_text("utf-8").strip() for file in sorted(VENDOR_FOLDER.glob("LICENSE-*"))
        ]
    except (OSError, UnicodeDecodeError):
        return "", ""
    # The link to the source map would make developer tools request a file that is not there.
    return script.partition("\n//# sourceMappingURL")[0] + "\n", "\n\n".join(licences)


def _page_parts(parts: Sequence[Part], charts: list[Chart]) -> list[Part]:
    """The parts of a page, each in a form that the template draws. The charts among them are added to ``charts``."""
    drawn: list[Part] = []
    for part in parts_for(parts, "html"):
        if isinstance(part, Chart):
            charts.append(part)
        if isinstance(part, Gates):
            drawn.append(part.table(PAGE_SIGNS))
        elif isinstance(part, Group):
            drawn.append(replace(part, parts=_page_parts(part.parts, charts)))
        else:
            drawn.append(part)
    return drawn


def _hash(text: str) -> str:
    """The hash by which a content security policy allows a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


def _breakable(text: str) -> Any:
    """The text escaped; a long name may break after its underscores."""
    from markupsafe import Markup, escape

    return Markup("_<wbr>").join(escape(formatting.visible_text(text)).split("_"))


def _lines(text: str) -> Any:
    """The text escaped, with its line ends and tabs."""
    from markupsafe import escape

    return escape(formatting.visible_lines(text))
