"""FactCC explanations: free-text answers that were all read as "no, it is not consistent" (Laban et al., 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from verdict_cli.benchmarks.recorded.case import Case, Figure, Rows, lines

UNCLEAR = "in the other answers the first clear word is a yes"


def cases(data: Path) -> Iterator[Case]:
    """The share of answers that a pattern reads as "no"."""

    def inputs() -> tuple[Rows, Rows]:
        found = lines(data / "factcc_explanations" / "explanations.jsonl.gz")
        rows = [
            {"place": str(place), "doc_id": row["doc_id"], "summary": row["summary"]}
            for place, row in enumerate(found)
        ]
        return rows, [
            {"id": str(place), "unit": "judge", "reply": row["explanation"]}
            for place, row in enumerate(found)
        ]

    figures = (Figure("answers read as no (%)", "read_as_no.mean", 100.0, 2, UNCLEAR),)
    yield Case("factcc/explanations", "factcc", inputs, figures)
