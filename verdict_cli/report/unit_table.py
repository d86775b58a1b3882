"""What each unit's calls cost, and how long they took."""

from __future__ import annotations

from collections.abc import Iterator

from verdict_cli.report import formatting
from verdict_cli.report.page.chart_values import Bars
from verdict_cli.report.page.components import Group, Section
from verdict_cli.report.page.page_table import PageTable
from verdict_cli.report.report_context import ReportContext
from verdict_cli.stats.call_stats import UnitCalls, by_unit


def unit_table(behind: ReportContext) -> Iterator[Section]:
    found = by_unit(behind.calls)
    if not found:
        return
    rows = [(name, *_unit(one)) for name, one in found.items()]
    headers = ("unit", "calls", "failed", "tokens in", "tokens out", "cost", "median", "95%")
    charts = [*_unit_charts(found)]
    yield Section(
        "Cost and time", [PageTable(headers, rows, (1, 2, 3, 4, 5, 6, 7)), *([Group(charts)] if charts else [])]
    )


def _unit(one: UnitCalls) -> tuple[str, ...]:
    seconds = ["–" if value is None else f"{value:.3g} s" for value in (one.median_s, one.p95_s)]
    counts = (one.calls, one.failed, one.prompt_tokens, one.completion_tokens)
    return (*(f"{count:,}" for count in counts), formatting.money(one.cost_usd), *seconds)


def _unit_charts(units: dict[str, UnitCalls]) -> Iterator[Bars]:
    names = list(units)
    if any(one.cost_usd for one in units.values()):
        yield Bars("Cost by unit", names, {"": [one.cost_usd or 0.0 for one in units.values()]}, "unit", "US dollars")
    elif any(one.prompt_tokens for one in units.values()):
        tokens = {
            "in": [float(one.prompt_tokens) for one in units.values()],
            "out": [float(one.completion_tokens) for one in units.values()],
        }
        yield Bars("Tokens by unit", names, tokens, "unit", "tokens")
    if any(one.median_s for one in units.values()):
        yield Bars(
            "Time of a call by unit",
            names,
            {
                "median": [one.median_s or 0.0 for one in units.values()],
                "from there to 95%": [(one.p95_s or 0.0) - (one.median_s or 0.0) for one in units.values()],
            },
            "unit",
            "seconds",
        )
