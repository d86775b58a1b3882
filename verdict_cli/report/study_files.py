"""Files that commands write beside runs: rows, and the document of a sweep or an audit; a document as JSON is its data, not its layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.report.document import ReportDocument
from verdict_cli.report.renderers.html import render_html
from verdict_cli.report.renderers.markdown import render_markdown
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.paths import replacing


def write_study(directory: RunDirectory, name: str, document: ReportDocument) -> None:
    """Write `NAME.json`, `NAME.md` and `NAME.html` into the study's directory."""
    directory.write(f"{name}.json", render_json(document))
    directory.write(f"{name}.md", render_markdown(document))
    directory.write(f"{name}.html", render_html(document))


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows as a JSONL file, atomically, and return their number. Raises OutputError if that fails."""
    count = 0
    with replacing(path) as part, part.open("wb") as file:
        for row in rows:
            file.write(orjson.dumps(row) + b"\n")
            count += 1
    return count


def render_json(document: ReportDocument) -> str:
    """The indented text of a `.json` file."""
    return f"{orjson.dumps(document.as_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()}\n"
