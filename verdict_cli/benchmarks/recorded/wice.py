"""WiCE: GPT-4 on chunks of evidence, a claim takes its best chunk (Kamoi et al., 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from verdict_cli.benchmarks.recorded.case import Case, Figure, Rows, lines


def cases(data: Path) -> Iterator[Case]:
    """F1 and accuracy over claims."""

    def inputs() -> tuple[Rows, Rows]:
        rows = [{**row, "key": _key(row)} for row in lines(data / "wice" / "claims.jsonl")]
        outputs = lines(data / "wice" / "outputs_claim_gpt-4-0613.jsonl")
        return rows, [{"id": _key(row), "unit": "judge", "reply": row["response"]} for row in outputs]

    figures = (
        Figure("F1 × 100", "claim.f1", 61.0, 1, made=_percent),
        Figure("accuracy (%)", "claim.accuracy", 77.0, 1, made=_percent),
    )
    yield Case("wice/gpt-4-0613", "wice", inputs, figures)


def _key(row: dict[str, object]) -> str:
    return f"{row['id']}-{row['chunk']}"


def _percent(share: float) -> float:
    return 100 * share
