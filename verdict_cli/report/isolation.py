"""Each part of a report is created on its own: a note replaces one that fails, and the other parts are complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import TypeVar
from xml.sax.saxutils import quoteattr

import orjson

from verdict_cli.errors import VerdictError
from verdict_cli.report import formatting
from verdict_cli.report.document import Note, Part, Section

Drawing = TypeVar("Drawing")


def failure_text(name: str, error: Exception) -> str:
    """The message that replaces the part `name`."""
    if isinstance(error, VerdictError):
        return f"{name} could not be created: {error.message[:500]}"
    cause = f"{type(error).__name__}: {error}"[:500]
    return f"{name} could not be created: internal error in verdict (please report it): {cause}"


def isolated_parts(name: str, make: Callable[[], Iterable[Part]]) -> list[Part]:
    """The parts that `make` returns, or a warning in their place."""
    try:
        return list(make())
    except Exception as error:
        return [Note(failure_text(name, error), warning=True)]


def isolated_sections(title: str, make: Callable[[], Iterable[Section]]) -> list[Section]:
    """The sections that `make` returns, or one of this title with a warning."""
    try:
        return list(make())
    except Exception as error:
        return [failed_section(title, error)]


def isolated_drawing(section: Section, draw: Callable[[Section], Drawing]) -> Drawing:
    """The section as `draw` draws it; if that fails, the section with a warning in place of its parts."""
    try:
        return draw(section)
    except Exception as error:
        return draw(failed_section(section.title, error))


def failed_section(title: str, error: Exception) -> Section:
    """A section of this title that says why it could not be created."""
    warning = Note(failure_text(title or "This section", error), warning=True)
    return Section(title, [warning], listed=bool(title), essential=True)


def placeholder(name: str, message: str) -> str:
    """The content of a report file that could not be created: the message, in the file's format."""
    message = formatting.visible_text(message)
    suffix = name.rpartition(".")[2]
    if suffix == "json":
        return f"{orjson.dumps({'error': message}).decode()}\n"
    if suffix == "html":
        return f'<!doctype html>\n<meta charset="utf-8">\n<title>Verdict report</title>\n<p>{escape(message)}</p>\n'
    if suffix == "xml":
        case = f'<testcase classname="report" name="{name}"><error message={quoteattr(message)}/></testcase>'
        suite = f'<testsuite name="report" tests="1" failures="0" errors="1" skipped="0">{case}</testsuite>'
        return f'<testsuites tests="1" failures="0" errors="1" skipped="0">{suite}</testsuites>\n'
    return f"**{escape(message)}**\n"
