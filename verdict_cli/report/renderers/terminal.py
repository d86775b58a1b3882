"""A document for a terminal, 80 columns wide. Signs, not only colours, say what passed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from verdict_cli.plural import plural
from verdict_cli.report.document import (
    FactList,
    Failures,
    Gates,
    Links,
    MetricList,
    Note,
    ReportDocument,
    Section,
    Table,
    isolated_drawing,
    parts_for,
)
from verdict_cli.report.formatting import format_number, message_lines, metric_text, visible_text
from verdict_cli.report.run_notes import UNAVAILABLE_HINT, gate_note

MOST_TERMINAL_COLUMNS = 9
"""A confusion matrix of more than eight labels does not fit 80 columns."""
MOST_CELL_CHARACTERS = 200
TERMINAL_SIGNS = {
    "passed": ("✓", "bold blue"),
    "failed": ("✗", "bold red"),
    "inconclusive": ("?", "bold yellow"),
}


def render_terminal(document: ReportDocument) -> Group:
    """The document as `rich` prints it; data is never read as markup."""
    lines: list[RenderableType] = (
        [Text(visible_text(document.title), style="bold")] if document.title else []
    )
    if document.conclusion:
        lines.append(Text(visible_text(document.conclusion), style="bold"))
    for section in document.sections_for("terminal"):
        lines += isolated_drawing(
            section, lambda section: list(_section(section, document.elsewhere))
        )
    return Group(*lines)


def _section(section: Section, elsewhere: str) -> Iterator[RenderableType]:
    if section.title:
        subtitle = f" ({section.subtitle})" if section.subtitle else ""
        yield Text()
        yield Text(f"{visible_text(section.title, 60)}{subtitle}", style="bold")
    for part in parts_for(section.parts, "terminal"):
        draw = _PARTS.get(part.kind)
        for line in () if draw is None else draw(part, elsewhere):
            yield Padding(line, (0, 0, 0, 2 if section.title else 0), expand=False)


def _note(part: Note, elsewhere: str) -> Iterator[RenderableType]:
    text = visible_text(part.text, 300)
    yield Text(f"! {text}", style="yellow") if part.warning else Text(text)


def _facts(part: FactList, elsewhere: str) -> Iterator[RenderableType]:
    yield Text(" · ".join(f"{name} {text}" for name, text in part.rows))


def _metrics(part: MetricList, elsewhere: str) -> Iterator[RenderableType]:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, metric in part.rows:
        text = f"{metric_text(metric)}  {metric.reason}".rstrip()
        grid.add_row(Text(visible_text(name, 40)), Text(visible_text(text, 300)))
    yield grid


def _table(part: Table, elsewhere: str) -> Iterator[RenderableType]:
    if part.folded:
        return
    if len(part.headers) > MOST_TERMINAL_COLUMNS:
        yield Text(f"{part.caption}: {plural(len(part.headers) - 1, 'column')}, shown {elsewhere}")
        return
    rows = part.rows[: part.most_rows or None]
    if part.records:
        yield from (_record(part.headers, row) for row in rows)
    elif rows:
        if part.caption:
            yield Text(part.caption)
        yield _grid(part, rows)
    if left := part.rows_left(len(rows)):
        yield Text(f"… {left:,} more {elsewhere}")


def _grid(part: Table, rows: Sequence[Sequence[str]]) -> Grid:
    headers = [
        visible_text(header, 12 if part.heat and column else 40)
        for column, header in enumerate(part.headers)
    ]
    grid = Grid(box=None, padding=(0, 1), header_style="dim", show_header=any(headers))
    if part.strong:
        grid.add_column("")
    for index, header in enumerate(headers):
        right = index in part.right
        grid.add_column(
            Text(header), justify="right" if right else "left", overflow="fold", no_wrap=right
        )
    for index, row in enumerate(rows):
        strong = index in part.strong
        cells = [
            Text(visible_text(cell, MOST_CELL_CHARACTERS if column else 60))
            for column, cell in enumerate(row)
        ]
        if part.strong:
            cells.insert(0, Text("►" if strong else ""))
        grid.add_row(*cells, style="bold" if strong else "")
    return grid


def _record(headers: Sequence[str], row: Sequence[str]) -> Text:
    """`length of answer: n 40 · changed verdict rate 0.200 [0.105, 0.348] · …`, without the empty cells."""
    cells = [
        f"{header} {visible_text(cell, MOST_CELL_CHARACTERS)}".strip()
        for header, cell in zip(headers[1:], row[1:], strict=True)
        if cell not in ("", "–")
    ]
    return Text(visible_text(row[0], 60), style="bold").append(
        f": {' · '.join(cells)}", style="not bold"
    )


def _gates(part: Gates, elsewhere: str) -> Iterator[RenderableType]:
    for gate in part.outcomes:
        sign, style = TERMINAL_SIGNS[gate.verdict]
        text = visible_text(f"{gate.metric} {format_number(gate.value)} {gate.rule}", 300)
        yield Text(f"{sign} ", style=style).append(text, style="default")
        if note := gate_note(gate):
            yield Padding(Text(visible_text(note, 300)), (0, 0, 0, 2), expand=False)


def _failures(part: Failures, elsewhere: str) -> Iterator[RenderableType]:
    grid = Grid.grid(padding=(0, 2))
    for kind, count in part.kinds:
        grid.add_row(Text(kind), Text(str(count)))
    yield grid
    for kind, reason in part.reasons.items():
        message, *hints = message_lines(reason) or [""]
        yield Text(f"{visible_text(kind)}: {message}")
        for hint in hints or ([UNAVAILABLE_HINT] if kind == "unavailable" else []):
            yield Padding(Text(hint), (0, 0, 0, 2), expand=False)


def _links(part: Links, elsewhere: str) -> Iterator[RenderableType]:
    if part.files:
        yield Text(", ".join(visible_text(file) for file in part.files))


_PARTS: dict[str, Callable[[Any, str], Iterator[RenderableType]]] = {
    "note": _note,
    "facts": _facts,
    "metrics": _metrics,
    "table": _table,
    "gates": _gates,
    "failures": _failures,
    "links": _links,
}
