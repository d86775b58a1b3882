"""Coverage of the intervals of corrected metrics with few labels: `python benchmarks/gold.py [SUBSETS [DRAW …]]`.

The judges of TriviaQA answers (Thakur et al., 2024), each on all rows that it and people judged. Random subsets of the
rows keep their label: all as likely (`random`), or drawn as `verdict queue` does, by the judge's verdict (`stratified`) or by
how far the study's judges disagree (`uncertain`), with their weights. The table counts how often the interval contains the share of all rows that people call right. For
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
from msgspec.structs import replace
from recordings_needed import left_out_without_recordings

from verdict_cli.features.benchmarks.recorded import read_jsonl
from verdict_cli.features.labelling.draw import (
    inclusion_probabilities,
    scaled_sizes,
    stratified_probabilities,
    systematic_draw,
)
from verdict_cli.language.evaluations import GoldScope
from verdict_cli.stats.columns.row_data import GoldPairs
from verdict_cli.stats.intervals.intervals import Draw
from verdict_cli.stats.prediction_powered import corrected

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared")) / "data"
JUDGES = ("GPT-4", "JudgeLM", "EM", "Gemma-2B")
FIGURES = ("ppi", "rogan_gladen", "labelled")
DRAWS = ("random", "stratified", "uncertain")


def judged(judge: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The judge's verdicts and the human ones, 1 for right, and how far all judges disagree."""
    rows = read_jsonl(DATA / "triviaqa_judges" / "judgements_v1.jsonl.gz")
    found = []
    for row in rows:
        said = [one for one in row["judges"].values() if one is not None]
        if None not in (row["judges"][judge], row["human"]):
            found.append((row["judges"][judge], row["human"], 1 - abs(2 * np.mean(said) - 1)))
    return tuple(np.array(found, dtype=np.float64).T)


def labelled(
    said: np.ndarray, human: np.ndarray, doubt: np.ndarray, labels: int, draw: str, rng
) -> GoldPairs:
    """The rows with the labels of some, drawn this way."""
    truth, inclusion = np.full((2, len(said)), np.nan)
    if draw == "random":
        kept = rng.choice(len(said), labels, replace=False)
        truth[kept] = human[kept]
        return GoldPairs(said, truth, True)
    if draw == "stratified":
        each = stratified_probabilities(said.astype(int), labels)
    else:
        each = inclusion_probabilities(scaled_sizes(doubt), labels)
    kept = systematic_draw(each, rng)
    truth[kept], inclusion[kept] = human[kept], each[kept]
    return GoldPairs(said, truth, True, inclusion=inclusion)


def covered(subsets: int, of: GoldScope, draw: str) -> Iterator[tuple[str, ...]]:
    """One table line per judge and number of labels."""
    for judge in JUDGES:
        said, human, doubt = judged(judge)
        whole, every = human.mean(), np.arange(len(human))
        for labels in (100, 200, 400):
            rng = np.random.default_rng(labels)
            held, width = dict.fromkeys(FIGURES, 0), dict.fromkeys(FIGURES, 0.0)
            for _ in range(subsets):
                rows = every if of == "rows" else rng.choice(every, len(every))
                pairs = labelled(said[rows], human[rows], doubt[rows], labels, draw, rng)
                found, _facts = corrected(replace(pairs, of=of), Draw(rng))
                for name in FIGURES:
                    one = found[name]
                    held[name] += one.low <= whole <= one.high
                    width[name] += (one.high - one.low) / 2 / subsets
            cells = [f"{held[name] / subsets:.1%} (±{width[name]:.3f})" for name in FIGURES]
            yield of, draw, judge, f"{said.mean():.3f}", f"{whole:.3f}", str(labels), *cells


if __name__ == "__main__":
    head = (
        "Of",
        "Draw",
        "Judge",
        "Judge's value",
        "Human value",
        "Labels",
        *(f"`{name}`" for name in FIGURES),
    )
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    draws = sys.argv[2:] or DRAWS
    for kind in get_args(GoldScope):
        for drawn in draws:
            with left_out_without_recordings():
                for row in covered(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000, kind, drawn):
                    print(f"| {' | '.join(row)} |", flush=True)
