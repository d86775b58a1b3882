"""A document as Markdown that fits a comment on a pull request (GitHub takes 65,536 characters; bytes are counted here)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from verdict_cli.plural import plural
from verdict_cli.regex import regex
from verdict_cli.report.document import (
    FactList,
    Links,
    Note,
    ReportDocument,
    Section,
    Table,
    isolated_drawing,
    parts_for,
)
from verdict_cli.report.formatting import visible_text

MOST_COMMENT_BYTES = 60_000
MOST_TABLE_BYTES = 20_000
MOST_CONCLUSION = 1_000
MOST_WARNINGS = 5
"""Of a section: each can be long."""
MOST_MARKDOWN_COLUMNS = 13
MARKDOWN_SIGNS = {"passed": "✅ passed", "failed": "❌ failed", "inconclusive": "❔ inconclusive"}
_SPECIAL = regex(r"[^\w .,:/()=+%–−…≥≤±·↓→✅❌❔-]|_|(?<=:)/")
_INTERVAL = regex(r"\[-?[\d.,]+(e[+-]\d+)?, -?[\d.,]+(e[+-]\d+)?\]")
"""Brackets around numbers are no link: they stay, so that the raw text can be read."""


def safe(text: str, most: int = 300) -> str:
    """Text as plain characters, at most so many: what Markdown or HTML would interpret becomes an entity."""
    if _INTERVAL.fullmatch(text):
        return text
    return _SPECIAL.sub(lambda match: f"&#{ord(match.group())};", visible_text(text, most))


def code(text: str) -> str:
    """Text in a code element, where GitHub makes no name a mention and no address a link."""
    return f"<code>{safe(text)}</code>" if text else ""


def render_markdown(document: ReportDocument) -> str:
    """The document. If it would not fit, the last sections that are not essential are left out, with a note."""
    sections = document.sections_for("markdown")
    drawn = [
        isolated_drawing(section, lambda section: list(_section(section, document.elsewhere)))
        for section in sections
    ]
    head = [f"## {safe(document.title)}"]
    if document.conclusion:
        head.append(f"**{safe(document.conclusion, MOST_CONCLUSION)}**")
    room = MOST_COMMENT_BYTES - sum(map(_size, head))
    room -= sum(
        _size(block)
        for section, blocks in zip(sections, drawn, strict=True)
        if section.essential
        for block in blocks
    )
    kept = [*head]
    for section, blocks in zip(sections, drawn, strict=True):
        for block in blocks:
            if not section.essential:
                before, room = room, room - _size(block)
                if room < 200:
                    if before >= 200:
                        kept.append(f"The rest is {document.elsewhere}.")
                    break
            kept.append(block)
    return "\n\n".join(kept) + "\n"


def _size(block: str) -> int:
    return len(block.encode()) + 2


def _section(section: Section, elsewhere: str) -> Iterator[str]:
    if section.title:
        yield f"### {safe(section.title)}" + (f" ({section.subtitle})" if section.subtitle else "")
    warnings = 0
    for part in parts_for(section.parts, "markdown"):
        warnings += isinstance(part, Note) and part.warning
        draw = _PARTS.get(part.kind)
        if draw is not None and warnings <= MOST_WARNINGS:
            yield from draw(part, elsewhere)
    if warnings > MOST_WARNINGS:
        yield f"{warnings - MOST_WARNINGS} more warnings are {elsewhere}."


def _note(part: Note, elsewhere: str) -> Iterator[str]:
    yield f"> {code(part.text)}" if part.warning else safe(part.text)


def _facts(part: FactList, elsewhere: str) -> Iterator[str]:
    yield " · ".join(f"{name} {safe(text)}" for name, text in part.rows)


def _table(part: Table, elsewhere: str) -> Iterator[str]:
    if len(part.headers) > MOST_MARKDOWN_COLUMNS:
        yield f"{part.caption}: {plural(len(part.headers) - 1, 'column')}, shown {elsewhere}."
        return
    # The columns of a matrix are labels of the data.
    headers = [
        code(header) if part.heat and column else safe(header)
        for column, header in enumerate(part.headers)
    ]
    rule = ["---:" if column in part.right else "---" for column in range(len(headers))]
    lines = [f"| {' | '.join(cells)} |" for cells in (headers, rule)]
    room = MOST_TABLE_BYTES
    for index, row in enumerate(part.rows[: part.most_rows or None]):
        head = f"**{code(row[0])}**" if index in part.strong else code(row[0])
        line = f"| {' | '.join([head, *map(safe, row[1:])])} |"
        room -= _size(line)
        if room < 0:
            break
        lines.append(line)
    left = part.rows_left(len(lines) - 2)
    table = "\n".join(lines)
    if part.folded:
        more = f" ({left:,} more {elsewhere})" if left else ""
        yield f"<details><summary>{safe(part.folded)}{more}</summary>\n\n{table}\n\n</details>"
        return
    yield table
    if left:
        yield f"{left:,} more {elsewhere}."


def _links(part: Links, elsewhere: str) -> Iterator[str]:
    if part.files:
        yield ", ".join(map(code, part.files))


_PARTS: dict[str, Callable[[Any, str], Iterator[str]]] = {
    "note": _note,
    "facts": _facts,
    "table": _table,
    "metrics": lambda part, elsewhere: _table(part.table(with_reasons=True), elsewhere),
    "gates": lambda part, elsewhere: _table(part.table(MARKDOWN_SIGNS), elsewhere),
    "failures": lambda part, elsewhere: _table(part.table(), elsewhere),
    "links": _links,
}
