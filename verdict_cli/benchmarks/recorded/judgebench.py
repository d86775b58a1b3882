"""JudgeBench: o1-mini on GPT-4o's pairs, each pair in both orders (Tan et al., 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from verdict_cli.benchmarks.recorded.case import Case, Figure, Rows, lines

PUBLISHED = {"overall": 65.71, "knowledge": 58.44, "reasoning": 62.24, "math": 82.14, "coding": 78.57}
RECOMPUTED = {
    "first game alone right": ("first_game", 248),
    "second game alone right": ("second_game", 261),
    "games agree": ("agreement", 240),
    "pairs wrong": ("wrong", 39),
    "pairs tied": ("tied", 81),
}


def cases(data: Path) -> Iterator[Case]:
    """Accuracy overall and by category, and how the two orders differ."""
    folder = data / "judgebench"

    def inputs() -> tuple[Rows, Rows]:
        outputs = lines(folder / "outputs_gpt-4o__arena_hard__o1-mini-2024-09-12.jsonl")
        replies = [
            {"id": output["pair_id"], "unit": f"game[{place}]", "reply": game["response"]}
            for output in outputs
            for place, game in enumerate(output["games"])
        ]
        return lines(folder / "pairs_gpt-4o.jsonl"), replies

    published = tuple(
        Figure(f"o1-mini, {name}: accuracy (%)", f"{name}.mean", value, 2)
        for name, value in PUBLISHED.items()
    )
    yield Case("judgebench/o1-mini", "judgebench", inputs, published)
    recomputed = tuple(
        Figure(f"o1-mini, {what} (% of 350)", f"{at}.mean", 100 * count / 350, 2)
        for what, (at, count) in RECOMPUTED.items()
    )
    yield Case("judgebench/o1-mini/orders", "judgebench", inputs, recomputed, origin="recomputed")
