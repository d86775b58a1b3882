"""The section of what each unit's calls cost, and how long they took."""

from __future__ import annotations

from collections.abc import Iterator

from verdict_cli.report import formatting
from verdict_cli.report.charts import Bars
from verdict_cli.report.document import PAGE, Group, Section, Table
from verdict_cli.report.report import Report
from verdict_cli.report.report_context import ReportContext
from verdict_cli.stats.unit_calls import UnitCalls, by_unit


def unit_costs(report: Report, context: ReportContext | None) -> Iterator[Section]:
    """A table and charts of the run's units; no section for a run without calls."""
    units = {} if context is None else by_unit(context.calls)
    if not units:
        return
    headers = ("unit", "calls", "failed", "tokens in", "tokens out", "cost", "median", "95%")
    table = Table(headers, [(name, *_cells(unit)) for name, unit in units.items()], (1, 2, 3, 4, 5, 6, 7))
    charts = [*_unit_charts(units)]
    yield Section("Cost and time", [table, *([Group(charts)] if charts else [])], formats=PAGE)


def _cells(unit: UnitCalls) -> tuple[str, ...]:
    seconds = ["–" if value is None else f"{value:.3g} s" for value in (unit.median_s, unit.p95_s)]
    counts = (unit.calls, unit.failed, unit.prompt_tokens, unit.completion_tokens)
    return (*(f"{count:,}" for count in counts), formatting.money(unit.cost_usd), *seconds)


def _unit_charts(units: dict[str, UnitCalls]) -> Iterator[Bars]:
    names = list(units)
    if any(unit.cost_usd for unit in units.values()):
        yield Bars("Cost by unit", names, {"": [unit.cost_usd or 0.0 for unit in units.values()]}, "unit", "US dollars")
    elif any(unit.prompt_tokens for unit in units.values()):
        tokens = {
            "in": [float(unit.prompt_tokens) for unit in units.values()],
            "out": [float(unit.completion_tokens) for unit in units.values()],
        }
        yield Bars("Tokens by unit", names, tokens, "unit", "tokens")
    if any(unit.median_s for unit in units.values()):
        yield Bars(
            "Time of a call by unit",
            names,
            {
                "median": [unit.median_s or 0.0 for unit in units.values()],
                "median to 95%": [(unit.p95_s or 0.0) - (unit.median_s or 0.0) for unit in units.values()],
            },
            "unit",
            "seconds",
        )
