"""A ranking of candidates for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from verdict_cli.report.formatting import money

if TYPE_CHECKING:
    from rich.console import RenderableType


def ranking_terminal(ranking: Mapping[str, Any]) -> RenderableType:
    """The table, what cannot be told apart, and how consistent the judge was; from the document of `verdict rank --json`."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    compared = ranking["kind"] != "scores"
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (
        ("rank", "right"),
        ("candidate", "left"),
        ("rating" if compared else "score", "right"),
        ("95% interval", "left"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    if compared:
        table.add_column("won", justify="right")
    table.add_column("")
    for one in ranking["ranking"]:
        cells = [
            "–" if one["rank"] is None else str(one["rank"]),
            one["label"],
            "unknown" if one["value"] is None else f"{one['value']:.3f}",
            "" if one["low"] is None else f"[{one['low']:.3f}, {one['high']:.3f}]",
        ]
        if compared:
            cells.append(f"{one['wins']:g}/{one['contests']}")
        notes = ["not told from the first"] if one["tied_with_first"] else []
        notes += [f"{one['failed']} failed"] if one["failed"] else []
        table.add_row(*map(Text, cells), Text(", ".join(notes)))
    return Group(table, Text(""), *map(Text, _last_lines(ranking)))


def _last_lines(ranking: Mapping[str, Any]) -> list[str]:
    found = ranking["consistency"]
    lines = []
    if ranking["kind"] == "pairs":
        lines.append(
            f"consistency: {found['intransitive']} of {found['triples']} triples go round in a circle · "
            f"{found['ties']} of {found['pairs']} pairs tied · "
            f"the first place won {found['first_place_wins']} of {found['decided']}"
        )
        if found["flips"] is not None:
            lines.append(f"order: {found['flips']} of {found['pairs_in_both_orders']} pairs changed with it")
    if ranking["kind"] == "groups":
        lines.append(f"wins by place: {', '.join(map(str, found['wins_by_place']))}")
    lines.append(
        f"{ranking['judgements']} judgements · failed {ranking['failed']} · calls {ranking['calls']} · {money(ranking['cost_usd'])}"
    )
    return lines
