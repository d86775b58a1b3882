"""Two runs beside each other: one JSON document, or a text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from verdict_cli.messages import RunFacts
from verdict_cli.report import formatting
from verdict_cli.stats.call_stats import Latency
from verdict_cli.stats.compare import ComparedMetric, Flip, RunComparison, Significance, Slice
from verdict_cli.stats.paired import Difference

MOST_FLIPS_LISTED = 10
"""Rows that flipped shown in a terminal; the JSON document has all."""
MOST_SLICES_LISTED = 12


@dataclass(frozen=True, slots=True)
class ComparisonContext:
    """One of the two runs: its directory as given, its facts, and how long its calls took."""

    run: str
    facts: RunFacts
    latency: Latency | None


def comparison_json(sides: tuple[ComparisonContext, ComparisonContext], comparison: RunComparison) -> dict[str, Any]:
    """The document of `verdict compare --json`; differences are `b` minus `a`."""
    return {
        "a": _run(sides[0]),
        "b": _run(sides[1]),
        "paired_by": comparison.by,
        "evaluations": {name: _evaluation(one) for name, one in comparison.evaluations.items()},
    }


def _run(side: ComparisonContext) -> dict[str, Any]:
    facts, took = side.facts, side.latency
    return {
        "run": side.run,
        "name": facts.name,
        "status": facts.status,
        "rows": facts.rows,
        "failed": facts.failed,
        "calls": facts.calls,
        "cost_usd": facts.cost_usd,
        "wall_s": facts.wall_s,
        "models": dict(facts.models),
        "floors": list(facts.floors),
        "latency_s": None if took is None else {"mean": took.mean_s, "median": took.median_s, "p95": took.p95_s},
    }


def _evaluation(one: ComparedMetric) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "reason": one.reason,
        "only_a": one.alone[0],
        "only_b": one.alone[1],
        **_slice(one.whole),
        "by": {
            expression: {value: _slice(each) for value, each in slices.items()}
            for expression, slices in one.slices.items()
        },
        "flipped": [_flip(flip) for flip in one.flips],
    }


def _slice(one: Slice) -> dict[str, Any]:
    return {
        "n": one.n,
        "figures": {metric: _difference(each) for metric, each in one.differences.items()},
        "test": None if one.test is None else _test(one.test),
    }


def _difference(one: Difference) -> dict[str, Any]:
    change = one.change
    return {
        "a": one.first,
        "b": one.second,
        "difference": change.value,
        "low": change.low,
        "high": change.high,
        "n": change.n,
        "reason": change.reason,
    }


def _test(test: Significance) -> dict[str, Any]:
    return {
        "name": test.name,
        "n": test.n,
        "better": test.better,
        "worse": test.worse,
        "p": test.p,
        "p_holm": test.p_holm,
        "effect": {"name": test.effect_name, "value": test.effect},
    }


def _flip(flip: Flip) -> dict[str, Any]:
    return {"id": flip.id, "a": flip.first, "b": flip.second, "target": flip.target, "gain": flip.gain}


def comparison_terminal(sides: tuple[ComparisonContext, ComparisonContext], comparison: RunComparison) -> Group:
    """What `rich` prints; data is never read as markup."""
    parts: list[RenderableType] = [_runs(sides)]
    parts += [
        Text(f"! {formatting.visible_text(floor)} is a floor to beat, not a judge", style="yellow")
        for floor in dict.fromkeys((*sides[0].facts.floors, *sides[1].facts.floors))
    ]
    parts += [
        Text(f"! {name}: {notice}", style="yellow")
        for name, side in zip("ab", sides, strict=True)
        for notice in formatting.replayed(side.facts)
    ]
    for name, one in comparison.evaluations.items():
        parts += [Text(), *_shown(name, one, comparison.by)]
    return Group(*parts)


def _runs(sides: tuple[ComparisonContext, ComparisonContext]) -> RenderableType:
    grid = _grid("", "a", "b", right=(1, 2))
    facts = [dict(formatting.facts(side.facts)) | latency_facts(side.latency) for side in sides]
    grid.add_row(Text("run"), *(Text(formatting.visible_text(side.run, 60)) for side in sides))
    for key in dict.fromkeys((*facts[0], *facts[1])):
        grid.add_row(Text(key), *(Text(each.get(key, "–")) for each in facts))
    return grid


def latency_facts(took: Latency | None) -> dict[str, str]:
    """How long the calls of a run took, as a fact of it."""
    if took is None:
        return {}
    return {"latency": f"{took.median_s:.3g} s median, {took.p95_s:.3g} s p95"}


def _shown(name: str, one: ComparedMetric, by: str) -> list[RenderableType]:
    kind = f" ({one.kind})" if one.kind else ""
    parts: list[RenderableType] = [Text(f"{formatting.visible_text(name, 60)}{kind}", style="bold")]
    if one.reason:
        return [*parts, _line(f"not compared: {one.reason}")]
    paired = f"{one.whole.n:,} rows paired by {by}"
    if any(one.alone):
        paired += f"; {one.alone[0]:,} only in a, {one.alone[1]:,} only in b"
    parts += [_line(paired), _figures(one.whole)]
    if one.whole.test is not None:
        parts.append(_line(significance(one.whole.test)))
    for expression, slices in one.slices.items():
        parts += [_line(f"by {formatting.visible_text(expression, 60)}"), _slices(slices)]
    if one.flips:
        parts.append(_line(f"{len(one.flips):,} rows are scored differently"))
        parts.append(_flips(one.flips))
    return parts


def _figures(one: Slice) -> RenderableType:
    grid = _grid("", "a", "b", "b − a", "95% interval", right=(1, 2, 3))
    for metric, each in one.differences.items():
        change = each.change
        last = " ".join(filter(None, (formatting.interval(change.low, change.high), change.reason)))
        cells = (
            formatting.format_number(each.first),
            formatting.format_number(each.second),
            formatting.format_number(change.value),
            last,
        )
        grid.add_row(Text(metric), *(Text(formatting.visible_text(cell, 200)) for cell in cells))
    return Padding(grid, (0, 0, 0, 2), expand=False)


def _slices(slices: Mapping[str, Slice]) -> RenderableType:
    grid = _grid("", "n", "figure", "b − a", "95% interval", "p (Holm)", right=(1, 3, 5))
    for value, one in list(slices.items())[:MOST_SLICES_LISTED]:
        metric, each = next(iter(one.differences.items()), ("", None))
        change = None if each is None else each.change
        cells = (
            formatting.visible_text(value, 30),
            str(one.n),
            metric,
            formatting.format_number(None if change is None else change.value),
            "" if change is None else formatting.interval(change.low, change.high),
            "–" if one.test is None else f"{one.test.p_holm:.3g}",
        )
        grid.add_row(*(Text(cell) for cell in cells))
    if len(slices) > MOST_SLICES_LISTED:
        grid.add_row(Text(f"… {len(slices) - MOST_SLICES_LISTED} more with --json"))
    return Padding(grid, (0, 0, 0, 2), expand=False)


def _flips(flips: tuple[Flip, ...]) -> RenderableType:
    grid = _grid("row", "a", "b", "target", "")
    for flip in flips[:MOST_FLIPS_LISTED]:
        cells = (flip.id, flip.first, flip.second, flip.target)
        gain = "b better" if flip.gain > 0 else "a better"
        grid.add_row(*(Text(comparison_cell(each)) for each in cells), Text(gain))
    if len(flips) > MOST_FLIPS_LISTED:
        grid.add_row(Text(f"… {len(flips) - MOST_FLIPS_LISTED:,} more with --json"))
    return Padding(grid, (0, 0, 0, 2), expand=False)


def comparison_cell(value: Any) -> str:
    """What a run says of a row."""
    return formatting.format_number(value) if isinstance(value, float) else formatting.label(value)


def significance(test: Significance) -> str:
    """`mcnemar: b better on 12 rows, worse on 3; p 0.035, by Holm 0.07; cohen_g 0.3`."""
    effect = "" if test.effect is None else f"; {test.effect_name} {formatting.format_number(test.effect)}"
    p = f"p {test.p:.3g}, by Holm {test.p_holm:.3g}"
    return f"{test.name}: b better on {test.better:,} rows, worse on {test.worse:,}; {p}{effect}"


def _line(text: str) -> RenderableType:
    return Padding(Text(formatting.visible_text(text, 300)), (0, 0, 0, 2), expand=False)


def _grid(*headers: str, right: tuple[int, ...] = ()) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for index, header in enumerate(headers):
        table.add_column(header, justify="right" if index in right else "left", overflow="fold")
    return table
