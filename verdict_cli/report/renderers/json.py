"""The data of a document as indented JSON."""

from __future__ import annotations

import orjson

from verdict_cli.report.document import ReportDocument


def render_json(document: ReportDocument) -> str:
    """The indented text of a `.json` file: the data of a document, not its layout."""
    content = orjson.dumps(document.as_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
    return f"{content.decode()}\n"
