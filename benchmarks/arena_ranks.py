"""How often leaderboards distinguish equal systems, and how often their intervals hold together.

    python benchmarks/arena_ranks.py [SIMULATIONS]

Each simulation draws items and the scores or battles of systems, with a known truth. *distinguished*: leaderboards of equal
systems whose ranks are not all `1–K`. *all hold*: leaderboards whose intervals all contain the truth. *wrong rank*:
leaderboards of unequal systems in which a range of ranks misses a system's true rank.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.special import expit

from verdict_cli.features.rank.leaderboard import leaderboard
from verdict_cli.features.rank.strengths import Battles, Contests, ScoredAnswers, battles_of_scores

SCORES = {
    "8 systems, 100 items, normal": (8, 100, "normal"),
    "8 systems, 20 items, normal": (8, 20, "normal"),
    "5 systems, 100 items, pass or fail (90% pass)": (5, 100, "pass"),
    "8 systems, 200 items, 1 to 10, a tenth missing": (8, 200, "missing"),
    "20 systems, 100 items, heavy tails": (20, 100, "heavy"),
}
BATTLES = {
    "5 systems, 300 battles, 20% ties": (5, 300, 1),
    "8 systems, 1,000 battles, 20% ties": (8, 1000, 1),
    "8 systems, 200 prompts with 5 battles each": (8, 200, 5),
}


def scores(
    rng: np.random.Generator, systems: int, items: int, kind: str, gaps: np.ndarray
) -> Contests:
    """Scored answers: each item has a difficulty, each system its own spread."""
    noise = (
        rng.standard_t(3, size=(items, systems))
        if kind == "heavy"
        else rng.normal(size=(items, systems))
    )
    # Rounded, cut and pass-or-fail scores of systems with unequal spreads would not have equal means.
    spreads = np.linspace(0.6, 1.4, systems) if kind in ("normal", "heavy") else np.ones(systems)
    latent = rng.normal(size=(items, 1)) + noise * spreads + gaps
    if kind == "pass":
        latent = (latent > -1.8).astype(float)
    if kind == "missing":
        latent = np.clip(np.round(6 + 2 * latent), 1, 10)
    kept = rng.random((items, systems)) >= (0.1 if kind == "missing" else 0)
    item, system = np.nonzero(kept)
    answers = ScoredAnswers(system, item, latent[item, system], np.empty((len(item), 0)))
    names = tuple(f"s{index}" for index in range(systems))
    return Contests(
        names, items, answers, battles_of_scores(answers, systems, items), (), len(item), 0
    )


def battles(
    rng: np.random.Generator, systems: int, items: int, each: int, strengths: np.ndarray
) -> Contests:
    """Battles of random pairs, with a tie in one of five; those of one item share a preference for one system."""
    n = items * each
    pairs = np.array([rng.choice(systems, 2, replace=False) for _ in range(n)])
    item = np.repeat(np.arange(items), each)
    taste = rng.normal(size=(items, systems)) if each > 1 else np.zeros((items, systems))
    odds = (
        strengths[pairs[:, 0]]
        - strengths[pairs[:, 1]]
        + taste[item, pairs[:, 0]]
        - taste[item, pairs[:, 1]]
    )
    share = np.where(rng.random(n) < 0.2, 0.5, (rng.random(n) < expit(odds)).astype(float))
    names = tuple(f"s{index}" for index in range(systems))
    drawn = Battles(pairs[:, 0], pairs[:, 1], share, item, np.empty((n, 0)))
    return Contests(names, items, None, drawn, (), n, 0)


def main() -> None:
    """Print a table for each form."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(
        "| Design | Metric | Equal systems: distinguished | Equal systems: all intervals hold | Unequal systems: a rank range misses |"
    )
    print("| --- | --- | ---: | ---: | ---: |")
    for title, (systems, items, kind) in SCORES.items():
        metrics = ("mean_score", "win_rate")
        wrong = dict.fromkeys(metrics, 0)
        told, held = dict.fromkeys(metrics, 0), dict.fromkeys(metrics, 0)
        gaps = np.linspace(0, 0.5, systems)
        for seed in range(times):
            rng = np.random.default_rng(seed)
            equal = scores(rng, systems, items, kind, np.zeros(systems))
            unequal = scores(rng, systems, items, kind, gaps)
            for metric in metrics:
                told[metric] += any(
                    each.rank != (1, systems)
                    for each in leaderboard(equal, (metric,), seed).standings
                )
                wrong[metric] += any(
                    not each.rank[0] <= systems - int(each.name[1:]) <= each.rank[1]
                    for each in leaderboard(unequal, (metric,), seed).standings
                )
            held["mean_score"] += holds(
                leaderboard(equal, ("mean_score",), seed), "mean_score", 0.0
            )
            held["win_rate"] += holds(leaderboard(equal, ("win_rate",), seed), "win_rate", 0.5)
        for metric in metrics:
            known = metric == "win_rate" or kind in ("normal", "heavy")
            share = f"{held[metric] / times:.1%}" if known else "–"
            print(
                f"| {title} | `{metric}` | {told[metric] / times:.1%} | {share} | {wrong[metric] / times:.1%} |",
                flush=True,
            )
    for title, (systems, items, each) in BATTLES.items():
        told = held = wrong = 0
        for seed in range(times):
            rng = np.random.default_rng(seed)
            equal = leaderboard(
                battles(rng, systems, items, each, np.zeros(systems)), ("bradley_terry",), seed
            )
            told += any(one.rank != (1, systems) for one in equal.standings)
            held += holds(equal, "bradley_terry", 0.0)
            spread = np.linspace(0, 1, systems)
            unequal = leaderboard(
                battles(rng, systems, items, each, spread), ("bradley_terry",), seed
            )
            wrong += any(
                not one.rank[0] <= systems - int(one.name[1:]) <= one.rank[1]
                for one in unequal.standings
            )
        print(
            f"| {title} | `bradley_terry` | {told / times:.1%} | {held / times:.1%} | {wrong / times:.1%} |",
            flush=True,
        )


def holds(board: object, metric: str, truth: float) -> bool:
    """Whether every interval contains the truth."""
    values = [each.values[metric] for each in board.standings]  # type: ignore[attr-defined]
    return all(value.low is not None and value.low <= truth <= value.high for value in values)


if __name__ == "__main__":
    main()
