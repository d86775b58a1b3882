"""How often corrected figures hold the truth with few labels: `python benchmarks/gold.py [SUBSETS]`.

The judges of TriviaQA answers (Thakur et al., 2024), each on all rows that it and people judged. Random subsets of the
rows keep their label; what is counted is how often the interval holds the share that people call right among all rows.
Prints a Markdown table. The recordings are read from the folder `shared` beside the project, or from $VERDICT_SHARED.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from verdict_cli.benchmarks.recorded.case import lines
from verdict_cli.evaluate.gold import Pairs, corrected
from verdict_cli.evaluate.intervals import Draw

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared")) / "data"
JUDGES = ("GPT-4", "JudgeLM", "EM", "Gemma-2B")
FIGURES = ("ppi", "rogan_gladen", "labelled")


def judged(judge: str) -> tuple[np.ndarray, np.ndarray]:
    """The judge's verdicts and people's, 1 for right."""
    rows = lines(DATA / "triviaqa_judges" / "judgements_v1.jsonl.gz")
    both = [(row["judges"][judge], row["human"]) for row in rows]
    found = np.array([pair for pair in both if None not in pair], dtype=np.float64)
    return found[:, 0], found[:, 1]


def covered(subsets: int) -> Iterator[tuple[str, ...]]:
    """A table line for each judge and number of labels."""
    for judge in JUDGES:
        said, human = judged(judge)
        whole = human.mean()
        for labels in (100, 200, 400):
            rng = np.random.default_rng(labels)
            held, width = dict.fromkeys(FIGURES, 0), dict.fromkeys(FIGURES, 0.0)
            for _ in range(subsets):
                truth = np.full(len(human), np.nan)
                kept = rng.choice(len(human), labels, replace=False)
                truth[kept] = human[kept]
                found, _facts = corrected(Pairs(said, truth, True), Draw(rng), None)
                for name in FIGURES:
                    one = found[name]
                    held[name] += one.low <= whole <= one.high
                    width[name] += (one.high - one.low) / 2 / subsets
            cells = [f"{held[name] / subsets:.1%} (±{width[name]:.3f})" for name in FIGURES]
            yield judge, f"{said.mean():.3f}", f"{whole:.3f}", str(labels), *cells


if __name__ == "__main__":
    head = ("judge", "it says", "people say", "labels", *(f"`{name}`" for name in FIGURES))
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in covered(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000):
        print(f"| {' | '.join(row)} |", flush=True)
