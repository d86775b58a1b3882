"""Each part of a report is made on its own: where one fails, its place names the failure, and the rest is complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TypeVar
from xml.sax.saxutils import quoteattr

import orjson

from verdict_cli.errors import VerdictError
from verdict_cli.report import formatting
from verdict_cli.report.page.assemble import assemble_page
from verdict_cli.report.page.components import Note, Section

Part = TypeVar("Part")


def failure(what: str, error: Exception) -> str:
    """What is said where `what` would be."""
    if isinstance(error, VerdictError):
        return f"{what} could not be made: {error.message[:500]}"
    said = f"{type(error).__name__}: {error}"[:500]
    return f"{what} could not be made: internal error in verdict (please report it): {said}"


def isolated_parts(what: str, make: Callable[[], Iterable[Part]]) -> list[Part | Note]:
    """What `make` gives, or a warning in its place."""
    try:
        return list(make())
    except Exception as error:
        return [Note(failure(what, error), warning=True)]


def sections(title: str, make: Callable[[], Iterable[Section]]) -> list[Section]:
    """What `make` gives, or a section of this title with a warning in its place."""
    try:
        return list(make())
    except Exception as error:
        return [_failed(title, error)]


def laid_out(title: str, wanted: Sequence[Section], *, lead: str) -> str:
    """The page; a section that cannot be laid out is replaced by a warning."""
    try:
        return assemble_page(title, wanted, lead=lead)
    except Exception:
        return assemble_page(title, [_checked(section) for section in wanted], lead=lead)


def _checked(section: Section) -> Section:
    try:
        assemble_page("", [section])
    except Exception as error:
        return _failed(section.title, error)
    return section


def _failed(title: str, error: Exception) -> Section:
    return Section(title, [Note(failure(title or "This part", error), warning=True)], listed=bool(title))


def instead(name: str, said: str) -> str:
    """A report file that holds only why it could not be made."""
    said = formatting.visible_text(said)
    kind = name.rpartition(".")[2]
    if kind == "json":
        return f"{orjson.dumps({'error': said}).decode()}\n"
    if kind == "html":
        return f'<!doctype html>\n<meta charset="utf-8">\n<title>Verdict report</title>\n<p>{escape(said)}</p>\n'
    if kind == "xml":
        case = f'<testcase classname="report" name="{name}"><error message={quoteattr(said)}/></testcase>'
        suite = f'<testsuite name="report" tests="1" failures="0" errors="1" skipped="0">{case}</testsuite>'
        return f'<testsuites tests="1" failures="0" errors="1" skipped="0">{suite}</testsuites>\n'
    return f"**{escape(said)}**\n"
