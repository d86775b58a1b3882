"""The report's section of the batches that a run was answered by."""

from __future__ import annotations

from collections.abc import Iterator

from verdict_cli.features.batches.batch_facts import batches_of
from verdict_cli.messages import sum_usd
from verdict_cli.plural import plural
from verdict_cli.report.document import Note, Section
from verdict_cli.report.formatting import money
from verdict_cli.report.report import Report
from verdict_cli.report.report_context import ReportContext


def batch_sections(report: Report, context: ReportContext | None) -> Iterator[Section]:
    """How many batches and waves there were, and what they cost; no section for a run of ordinary calls."""
    batches = batches_of(report.facts)
    if not batches:
        return
    waves = max(batch.wave for batch in batches)
    requests = sum(batch.requests for batch in batches)
    answered = sum(batch.answered for batch in batches)
    cost = sum_usd(*[batch.cost_usd for batch in batches])
    text = (
        f"{plural(len(batches), 'batch|batches')} in {plural(waves, 'wave')}: {requests:,} requests, "
        f"{answered:,} answered, {money(cost)}"
    )
    yield Section("Batches", [Note(text)])
