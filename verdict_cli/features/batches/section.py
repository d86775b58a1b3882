"""The report's section of the batches that a run was answered by."""

from __future__ import annotations

from collections.abc import Iterator

from verdict_cli.features.batches.batch_facts import BatchFacts, batches_of
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.report.document import PAGE_FORMATS, Note, Only, Section, Table
from verdict_cli.report.report import Report
from verdict_cli.report.report_context import ReportContext

_MOST_ROWS = 20


def batch_sections(report: Report, context: ReportContext | None) -> Iterator[Section]:
    """How many batches and waves there were, what they saved, and a table; no section for a run of ordinary calls."""
    batches = batches_of(report.facts)
    if not batches:
        return
    rows = [_cells(batch) for batch in batches]
    headers = (
        "wave",
        "provider",
        "model",
        "requests",
        "answered",
        "status",
        "submitted",
        "ended",
        "cost",
    )
    table = Table(headers, rows, (3, 4, 8), most_rows=_MOST_ROWS, total_rows=len(rows))
    yield Section("Batches", [Note(_sentence(batches)), Only(PAGE_FORMATS, [table])])


def _sentence(batches: tuple[BatchFacts, ...]) -> str:
    waves = max(batch.wave for batch in batches)
    requests = sum(batch.requests for batch in batches)
    answered = sum(batch.answered for batch in batches)
    saved = [batch.saved_usd for batch in batches if batch.ended]
    known = [amount for amount in saved if amount is not None]
    text = (
        f"{plural(len(batches), 'batch|batches')} in {plural(waves, 'wave')}: "
        f"{requests:,} requests, {answered:,} answered"
    )
    if known and len(known) == len(saved):
        text += f"; {formatting.money(sum(known))} less than ordinary calls cost"
    return text


def _cells(batch: BatchFacts) -> tuple[str, ...]:
    return (
        str(batch.wave),
        batch.provider,
        batch.model,
        f"{batch.requests:,}",
        f"{batch.answered:,}",
        batch.status,
        _time(batch.submitted),
        _time(batch.ended),
        formatting.money(batch.cost_usd) if batch.ended else "–",
    )


def _time(text: str) -> str:
    return text.replace("T", " ").replace("+00:00", " UTC") or "–"
