"""A document as JSON: the data behind it, not its layout."""

from __future__ import annotations

import orjson

from verdict_cli.report.document import ReportDocument


def render_json(document: ReportDocument) -> str:
    """The indented text of a `.json` file."""
    return f"{orjson.dumps(document.as_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()}\n"
