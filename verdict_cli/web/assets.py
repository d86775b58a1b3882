"""The viewer's page, script and style: those of the report, and its own beside them."""

from __future__ import annotations

from pathlib import Path

from verdict_cli.report.page.assemble import HERE as REPORT
from verdict_cli.report.page.assemble import environment

HERE = Path(__file__).parent
SHARED = ("data.js", "theme.js", "cells.js", "story.js")
OWN = ("address.js", "list.js", "table.js", "labels.js", "run.js", "compare.js", "view.js")


def page() -> str:
    """The one page: what it shows is in its address."""
    return environment().from_string((HERE / "view.html").read_text("utf-8")).render(kicker="Verdict")


def script() -> str:
    """One function around all files, in the order in which they build on each other."""
    files = [*(REPORT / name for name in SHARED), *(HERE / name for name in OWN)]
    text = "\n".join(file.read_text("utf-8") for file in files)
    return f"(() => {{\n'use strict';\n{text}\n}})();\n"


def style() -> str:
    """The report's style, and what only the viewer has."""
    return (REPORT / "style.css").read_text("utf-8") + (HERE / "view.css").read_text("utf-8")
