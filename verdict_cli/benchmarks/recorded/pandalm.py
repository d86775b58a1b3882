"""PandaLM's test set: three people and GPT-3.5 (Wang et al., 2024)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from verdict_cli.benchmarks.recorded.case import Case, Figure, Rows


def cases(data: Path) -> Iterator[Case]:
    """The people's agreement, the gold labels' distribution, and GPT-3.5 against them."""
    folder = data / "pandalm"

    def inputs() -> tuple[Rows, Rows]:
        rows = json.loads((folder / "testset-v1.json").read_text(encoding="utf-8"))
        outputs = json.loads((folder / "gpt-3.5-turbo-testset-v1.json").read_text(encoding="utf-8"))
        replies = [
            {"id": str(row["idx"]), "unit": "judge", "reply": str(row["gpt_result"])} for row in outputs
        ]
        return [{key: str(value) for key, value in row.items()} for row in rows], replies

    people = (
        Figure("annotators 1 and 2: Cohen's kappa", "people_12.cohen_kappa", 0.85, 2),
        Figure("annotators 1 and 3: Cohen's kappa", "people_13.cohen_kappa", 0.88, 2),
        Figure("annotators 2 and 3: Cohen's kappa", "people_23.cohen_kappa", 0.86, 2),
        Figure("gold ties (rows)", "gold_0.mean", 105, 0),
        Figure("gold response 1 (rows)", "gold_1.mean", 422, 0),
        Figure("gold response 2 (rows)", "gold_2.mean", 472, 0),
    )
    yield Case("pandalm/people", "pandalm", inputs, people)
    judge = (
        Figure("GPT-3.5: accuracy", "judge.accuracy", 0.6977, 4),
        Figure("GPT-3.5: Cohen's kappa", "judge.cohen_kappa", 0.4755, 4),
    )
    yield Case("pandalm/gpt-3.5", "pandalm", inputs, judge, origin="recomputed")
    table = (
        Figure(
            "GPT-3.5, the paper's table: accuracy",
            "judge.accuracy",
            0.6296,
            4,
            "the table has another run of GPT-3.5 than the recorded one",
        ),
    )
    yield Case("pandalm/gpt-3.5/table", "pandalm", inputs, table)
