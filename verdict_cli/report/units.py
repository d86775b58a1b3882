"""What each unit's calls cost, and how long they took."""

from __future__ import annotations

from collections.abc import Iterator

from verdict_cli.evaluate import UnitCalls, by_unit
from verdict_cli.report import words
from verdict_cli.report.behind import Behind
from verdict_cli.report.page import Bars, Group, Section, Table


def units(behind: Behind) -> Iterator[Section]:
    found = by_unit(behind.calls)
    if not found:
        return
    rows = [(name, *_unit(one)) for name, one in found.items()]
    headers = ("unit", "calls", "failed", "tokens in", "tokens out", "cost", "median", "95%")
    charts = [*_unit_charts(found)]
    yield Section(
        "Cost and time", [Table(headers, rows, (1, 2, 3, 4, 5, 6, 7)), *([Group(charts)] if charts else [])]
    )


def _unit(one: UnitCalls) -> tuple[str, ...]:
    seconds = ["–" if value is None else f"{value:.3g} s" for value in (one.median_s, one.p95_s)]
    counts = (one.calls, one.failed, one.prompt_tokens, one.completion_tokens)
    return (*(f"{count:,}" for count in counts), words.money(one.cost_usd), *seconds)


def _unit_charts(units: dict[str, UnitCalls]) -> Iterator[Bars]:
    names = list(units)
    if any(one.cost_usd for one in units.values()):
        yield Bars(
            "Cost by unit", names, {"": [one.cost_usd or 0.0 for one in units.values()]}, "unit", "US dollars"
        )
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
