"""The files of a sweep or an audit: its document as JSON, Markdown and a page."""

from __future__ import annotations

from verdict_cli.report.document import ReportDocument
from verdict_cli.report.renderers.html import render_html
from verdict_cli.report.renderers.json import render_json
from verdict_cli.report.renderers.markdown import render_markdown
from verdict_cli.run.run_directory import RunDirectory


def write_study(directory: RunDirectory, name: str, document: ReportDocument) -> None:
    """Write `NAME.json`, `NAME.md` and `NAME.html` into the study's directory."""
    directory.write(f"{name}.json", render_json(document))
    directory.write(f"{name}.md", render_markdown(document))
    directory.write(f"{name}.html", render_html(document))
