"""Judging the Judges: eleven judges of TriviaQA answers against people (Thakur et al., 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from verdict_cli.benchmarks.recorded.case import Case, Figure, Rows, lines

RECOMPUTED = {
    "GPT-4": (0.9115, 0.7876),
    "Llama3-70B": (0.9266, 0.8179),
    "JudgeLM": (0.8017, 0.5917),
    "Contains": (0.8478, 0.6832),
    "EM": (0.7088, 0.4578),
    "Gemma-2B": (0.7803, 0.4220),
}


def cases(data: Path) -> Iterator[Case]:
    """Agreement and Cohen's kappa of six judges with people."""

    def inputs() -> tuple[Rows, Rows]:
        rows = [
            {**row, "key": f"{row['exam_taker']}-{row['index']}"}
            for row in lines(data / "triviaqa_judges" / "judgements_v1.jsonl.gz")
        ]
        replies = [
            {"id": row["key"], "unit": judge, "reply": "true" if said else "false"}
            for row in rows
            for judge, said in row["judges"].items()
            if said is not None
        ]
        return rows, replies

    figures = tuple(
        Figure(f"{judge}: {what}", f"{judge}.{metric}", value, 4)
        for judge, values in RECOMPUTED.items()
        for what, metric, value in zip(
            ("agreement", "Cohen's kappa"), ("accuracy", "cohen_kappa"), values, strict=True
        )
    )
    yield Case("triviaqa/v1", "triviaqa", inputs, figures, origin="recomputed")
