"""Debates and consultancies on stories, judged by people who cannot read them (Michael et al., 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from verdict_cli.benchmarks.recorded.case import Case, Figure, Rows, lines

ACCURACY = {
    "human_debate": (46, 55, 84),
    "human_consultancy": (31, 44, 74),
    "ai_debate": (25, 30, 78),
    "ai_consultancy": (21, 25, 80),
}
THIRD = "published over 413 transcripts, of which every third one is recorded here"


def cases(data: Path) -> Iterator[Case]:
    """How often the judges' last probability is on the right answer."""

    def inputs() -> tuple[Rows, Rows]:
        rows = [
            {**row, "key": str(place)}
            for place, row in enumerate(lines(data / "debates_quality" / "debates.jsonl.gz"))
        ]
        return rows, [{"id": row["key"], "unit": "judge", "reply": repr(_last(row))} for row in rows]

    here = tuple(
        Figure(f"{name.replace('_', ' ')}: accuracy (%)", f"{name}.mean", 100 * right / count, 4)
        for name, (right, count, _) in ACCURACY.items()
    )
    yield Case("debates/here", "debates", inputs, here, origin="recomputed")
    paper = tuple(
        Figure(f"{name.replace('_', ' ')}: accuracy (%)", f"{name}.mean", value, 0, THIRD)
        for name, (_, _, value) in ACCURACY.items()
    )
    yield Case("debates/paper", "debates", inputs, paper)


def _last(row: dict[str, object]) -> float:
    """The judge's last probability of the first answer."""
    turns = row["turns"]
    assert isinstance(turns, list)
    return float(next(turn["distribution"][0] for turn in reversed(turns) if turn.get("distribution")))
