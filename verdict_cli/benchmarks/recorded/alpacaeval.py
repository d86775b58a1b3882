"""AlpacaEval 2: win rates from GPT-4's token log-probabilities (Li et al., 2023; Dubois et al., 2024)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from verdict_cli.benchmarks.recorded.case import Case, Figure, Rows, lines


def cases(data: Path) -> Iterator[Case]:
    """The win rate of each model against the baseline."""
    folder = data / "alpacaeval_logprobs"
    with (folder / "published_leaderboard.csv").open(encoding="utf-8", newline="") as file:
        published = {row["model"]: float(row["win_rate"]) for row in csv.DictReader(file)}
    for model, rate in published.items():

        def inputs(model: str = model) -> tuple[Rows, Rows]:
            rows = lines(folder / f"{model}.jsonl.gz")
            replies = [
                {
                    "id": row["index"],
                    "unit": "judge",
                    "reply": row["text"],
                    "logprobs": [
                        [{"token": token, "logprob": value} for token, value in row["top_logprobs"]]
                    ],
                }
                for row in rows
                if not row["identical_outputs"]
            ]
            kept = ("index", "switched", "identical_outputs")
            return [{key: row[key] for key in kept} for row in rows], replies

        yield Case(
            f"alpacaeval/{model}", "alpacaeval", inputs, (Figure("win rate (%)", "win_rate.mean", rate, 6),)
        )
