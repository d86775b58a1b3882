"""The viewer's page, script and style: those of the report, and its own beside them."""

from __future__ import annotations

from pathlib import Path

from verdict_cli.report.renderers.html import PAGE_FOLDER as REPORT
from verdict_cli.report.renderers.html import page_environment

VIEWER_FOLDER = Path(__file__).parent
SHARED = ("data.js", "theme.js", "cells.js", "story.js")
VIEWER_FILES = ("address.js", "list.js", "table.js", "labels.js", "run.js", "compare.js", "view.js")


def viewer_page() -> str:
    """The one page: what it shows is in its address."""
    return page_environment().from_string((VIEWER_FOLDER / "view.html").read_text("utf-8")).render(kicker="Verdict")


def viewer_script() -> str:
    """One function around all files, in the order in which they build on each other."""
    files = [*(REPORT / name for name in SHARED), *(VIEWER_FOLDER / name for name in VIEWER_FILES)]
    text = "\n".join(file.read_text("utf-8") for file in files)
    return f"(() => {{\n'use strict';\n{text}\n}})();\n"


def style() -> str:
    """The report's style, and what only the viewer has."""
    return (REPORT / "style.css").read_text("utf-8") + (VIEWER_FOLDER / "view.css").read_text("utf-8")
