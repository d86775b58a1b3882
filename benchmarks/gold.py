"""Coverage of the intervals of corrected metrics with few labels: `python benchmarks/gold.py [SUBSETS]`.

The judges of TriviaQA answers (Thakur et al., 2024), each on all rows that it and people judged. Random subsets of the
rows keep their label. The table counts how often the interval contains the share of all rows that people call right. For
`of: rows` the rows are fixed; for `of: population` as many rows are drawn from them with replacement, so that the set is
the population. Prints a Markdown table. The recordings are read from the folder `shared` next to the project, or from
$VERDICT_SHARED.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np

from verdict_cli.benchmarks.recorded.case import read_jsonl
from verdict_cli.language.evaluations import GoldScope
from verdict_cli.stats.intervals.intervals import Draw
from verdict_cli.stats.prediction_powered import GoldPairs, corrected

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared")) / "data"
JUDGES = ("GPT-4", "JudgeLM", "EM", "Gemma-2B")
FIGURES = ("ppi", "rogan_gladen", "labelled")


def judged(judge: str) -> tuple[np.ndarray, np.ndarray]:
    """The judge's verdicts and the human ones, 1 for right."""
    rows = read_jsonl(DATA / "triviaqa_judges" / "judgements_v1.jsonl.gz")
    both = [(row["judges"][judge], row["human"]) for row in rows]
    found = np.array([pair for pair in both if None not in pair], dtype=np.float64)
    return found[:, 0], found[:, 1]


def covered(subsets: int, of: GoldScope) -> Iterator[tuple[str, ...]]:
    """One table line per judge and number of labels."""
    for judge in JUDGES:
        said, human = judged(judge)
        whole, every = human.mean(), np.arange(len(human))
        for labels in (100, 200, 400):
            rng = np.random.default_rng(labels)
            held, width = dict.fromkeys(FIGURES, 0), dict.fromkeys(FIGURES, 0.0)
            for _ in range(subsets):
                rows = every if of == "rows" else rng.choice(every, len(every))
                kept = rng.choice(len(rows), labels, replace=False)
                truth = np.full(len(rows), np.nan)
                truth[kept] = human[rows][kept]
                found, _facts = corrected(GoldPairs(said[rows], truth, True), Draw(rng), of=of)
                for name in FIGURES:
                    one = found[name]
                    held[name] += one.low <= whole <= one.high
                    width[name] += (one.high - one.low) / 2 / subsets
            cells = [f"{held[name] / subsets:.1%} (±{width[name]:.3f})" for name in FIGURES]
            yield of, judge, f"{said.mean():.3f}", f"{whole:.3f}", str(labels), *cells


if __name__ == "__main__":
    head = ("Of", "Judge", "Judge's value", "Human value", "Labels", *(f"`{name}`" for name in FIGURES))
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for kind in get_args(GoldScope):
        for row in covered(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000, kind):
            print(f"| {' | '.join(row)} |", flush=True)
