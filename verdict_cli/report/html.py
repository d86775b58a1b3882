"""The report as one HTML file that needs no script, no network and no other file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from verdict_cli.report import words
from verdict_cli.report.report import Report

PAGE = Path(__file__).with_name("page.html")


def html(report: Report) -> str:
    """The page; everything that comes from data is escaped."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_visible
    )
    return environment.from_string(PAGE.read_text("utf-8")).render(report=report, words=words)


def _visible(value: Any) -> Any:
    return words.visible(value) if type(value) is str else value
