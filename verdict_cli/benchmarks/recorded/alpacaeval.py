"""AlpacaEval 2: win rates from GPT-4's token log-probabilities (Li et al., 2023; Dubois et al., 2024)."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from verdict_cli.benchmarks.recorded.case import Case, Figure, Rows, lines


def cases(data: Path) -> Iterator[Case]:
    """The win rate of each model against the baseline."""
    folder = data / "alpacaeval_logprobs"
    with (folder / "published_leaderboard.csv").open(encoding="utf-8", newline="") as file:
        published = {row["model"]: row for row in csv.DictReader(file)}
    for model, row in published.items():

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

        yield Case(f"alpacaeval/{model}", "alpacaeval", inputs, _figures(row))


def _figures(row: Mapping[str, str]) -> tuple[Figure, ...]:
    count = int(row["n_total"])
    error = Figure(
        "standard error of the win rate (%)",
        "win_rate.variance",
        float(row["standard_error"]),
        6,
        made=lambda variance: math.sqrt(variance / count),
    )
    outcomes = tuple(
        Figure(what, f"{at}.mean", float(row[column]), 0, made=lambda share: share * count)
        for what, at, column in (
            ("wins", "wins", "n_wins"),
            ("wins of the baseline", "losses", "n_wins_base"),
            ("draws", "draws", "n_draws"),
        )
    )
    return (
        Figure("win rate (%)", "win_rate.mean", float(row["win_rate"]), 6),
        error,
        *outcomes,
        Figure("discrete win rate (%)", "discrete.mean", float(row["discrete_win_rate"]), 6),
    )
