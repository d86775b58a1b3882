"""The report as Markdown that fits a comment on a pull request (GitHub takes 65,536 characters; bytes are counted here)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from verdict_cli.report import formatting
from verdict_cli.report.report import PublishedComparison, Report
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.measure import Measures

MOST_COMMENT_BYTES = 60_000
MOST_OF_GATES = 20_000
"""Bytes of the table of gates."""
MOST_KINDS = 10
MOST_NOTICES = 5
MOST_MARKDOWN_LABELS = 12
MOST_MARKDOWN_GROUPS = 20

_PLAIN = re.compile(r"[^\w .,:/()=+%–…≥≤-]|_|(?<=:)/")
MARKDOWN_SIGNS = {"passed": "✅ passed", "failed": "❌ failed", "inconclusive": "❔ inconclusive"}


def safe(text: str) -> str:
    """Text from data as plain characters: whatever Markdown or HTML would read is an entity."""
    return _PLAIN.sub(lambda match: f"&#{ord(match.group())};", formatting.visible_text(text, 300))


def code(text: str) -> str:
    """Text from data in a code element, where no name is a mention and no address a link."""
    return f"<code>{safe(text)}</code>"


def markdown(report: Report) -> str:
    """The report; the least important parts are left out where it would not fit, saying so."""
    head = [*_head(report), *_gates(report)]
    parts = [
        part
        for name, measures in report.measures.items()
        for part in _evaluation(name, measures, report.comparisons.get(name))
    ]
    tail = [*_failures(report), *_files(report)]
    room = MOST_COMMENT_BYTES - sum(_size(part) for part in (*head, *tail))
    kept: list[str] = []
    for part in parts:
        room -= _size(part)
        if room < 200:
            kept.append("The rest stands in `report.html`.")
            break
        kept.append(part)
    return "\n\n".join((*head, *kept, *tail)) + "\n"


def _size(part: str) -> int:
    return len(part.encode()) + 2


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    rule = ["---:" if index in right else "---" for index in range(len(headers))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, rule, *rows))


def _head(report: Report) -> list[str]:
    parts = [f"## {safe(report.facts.name)}"]
    parts += [f"> **{safe(notice)}**" for notice in formatting.notices(report)[:MOST_NOTICES]]
    parts.append(" · ".join(f"{name} {safe(text)}" for name, text in formatting.summary_line(report)))
    return parts


def _gates(report: Report) -> list[str]:
    if not report.gates:
        return []
    rows = [
        (
            MARKDOWN_SIGNS[gate.verdict],
            code(gate.metric),
            formatting.format_number(gate.value),
            safe(gate.rule),
            safe(formatting.why(gate)),
        )
        for gate in report.gates
    ]
    shown, room = [], MOST_OF_GATES
    for row in rows:
        room -= sum(map(_size, row))
        if room < 0:
            break
        shown.append(row)
    parts = ["### Gates", _table(("", "figure", "value", "limit", "why"), shown, (2,))]
    return parts if len(shown) == len(rows) else [*parts, f"{len(rows) - len(shown)} more in `report.html`."]


def _evaluation(name: str, measures: Measures, comparison: PublishedComparison | None) -> list[str]:
    kind = f" ({measures.kind})" if measures.kind else ""
    rows = [_row(metric, figure) for metric, figure in formatting.plain_text(measures.values.items())]
    headers = ("figure", "value", "95% interval", "n", "")
    parts = [f"### {safe(name)}{kind}", _table(headers, rows, (1, 3))]
    parts += [safe(line) for line in formatting.coverage(measures)]
    parts += [f"> {code(line)}" for line in measures.warnings]
    if comparison is not None:
        parts += _comparison(comparison)
    confusion = measures.values.get("confusion")
    if confusion is not None and confusion.value is not None:
        parts.append(_confusion(confusion))
    for expression, groups in measures.groups.items():
        shown = list(groups.items())[:MOST_MARKDOWN_GROUPS]
        grouped = [
            (code(value), *_row(metric, figure)[:4])
            for value, figures in shown
            for metric, figure in formatting.plain_text(figures.items())
        ]
        more = f" ({len(groups) - len(shown)} more in `report.html`)" if len(groups) > len(shown) else ""
        table = _table((code(expression), *headers[:4]), grouped, (2, 4))
        parts.append(f"<details><summary>by {code(expression)}{more}</summary>\n\n{table}\n\n</details>")
    return parts


def _row(metric: str, figure: MetricValue) -> tuple[str, str, str, str, str]:
    interval = formatting.interval(figure.low, figure.high)
    return metric, formatting.format_number(figure.value), interval, str(figure.n), safe(figure.reason)


def _comparison(comparison: PublishedComparison) -> list[str]:
    rows = [
        (
            f"**{code(row.judge)}**" if row.ours else code(row.judge),
            formatting.format_number(row.value),
            formatting.interval(row.low, row.high),
            formatting.standing(row),
        )
        for row in comparison.standings
    ]
    return [
        f"Beside {safe(comparison.source)}, {safe(comparison.place)}:",
        *([f"> **{safe(comparison.caveat)}**"] if comparison.caveat else []),
        _table(("judge", comparison.metric, "95% interval", ""), rows, (1,)),
    ]


def _confusion(figure: MetricValue) -> str:
    labels, counts = figure.value["labels"], figure.value["counts"]
    if len(labels) > MOST_MARKDOWN_LABELS:
        return f"The confusion matrix of {len(labels)} labels stands in `report.html`."
    names = [code(formatting.label(name)) for name in labels]
    rows = [(name, *map(str, row)) for name, row in zip(names, counts, strict=True)]
    return _table(("target ↓ prediction →", *names), rows, range(1, len(names) + 1))


def _failures(report: Report) -> list[str]:
    kinds = formatting.failures(report.facts)
    rows = [(code(kind), str(count)) for kind, count in kinds[:MOST_KINDS]]
    if len(kinds) > MOST_KINDS:
        rows.append((f"{len(kinds) - MOST_KINDS} more kinds", str(sum(count for _, count in kinds[MOST_KINDS:]))))
    return ["### Failed rows", _table(("kind", "rows"), rows, (1,))] if rows else []


def _files(report: Report) -> list[str]:
    files = ", ".join(code(file) for file in report.files)
    return [f"Files in {code(report.run)}: {files}" if files else f"Files in {code(report.run)}"]
