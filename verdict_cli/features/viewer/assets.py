"""The page of `verdict view`, its script and its style sheet."""

from __future__ import annotations

from pathlib import Path

from verdict_cli.report.renderers.html import PAGE_FOLDER, page_environment

FOLDER = Path(__file__).parent
SHARED = ("data.js", "theme.js", "cells.js", "story.js")
VIEWER_FILES = (
    "address.js", "list.js", "trends.js", "table.js", "labels.js", "queue.js", "leaderboard.js", "overview.js", "corrected.js",
    "run.js", "compare.js", "view.js",
)  # fmt: skip


def viewer_page() -> str:
    """The page. Its script reads from the URL what to show."""
    return page_environment().from_string((FOLDER / "view.html").read_text("utf-8")).render(kicker="Verdict")


def viewer_script() -> str:
    """The scripts, in the order of their dependencies, inside one function."""
    files = [*(PAGE_FOLDER / name for name in SHARED), *(FOLDER / name for name in VIEWER_FILES)]
    text = "\n".join(file.read_text("utf-8") for file in files)
    return f"(() => {{\n'use strict';\n{text}\n}})();\n"


def viewer_style() -> str:
    """The style sheet of the report, followed by that of the viewer."""
    return (PAGE_FOLDER / "style.css").read_text("utf-8") + (FOLDER / "view.css").read_text("utf-8")
