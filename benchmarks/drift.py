"""How often `verdict watch` finds a drift that is not there, and how soon it finds one that is.

    python benchmarks/drift.py [SIMULATIONS]

Each simulation judges the same anchors on 365 days. *false alarms*: of judges that never change, those for which any day says
drift. *found*: of judges whose mean score drops by 5 points (0.05 of the scale) on day 30, those found by day 365; *delay*: the
median number of days from the drop to the alarm, the drop's own day included, and the 90% point.
"""

from __future__ import annotations

import sys

import numpy as np

from verdict_cli.features.watch.drift import drift_intervals

DAYS, DROP, DAY = 365, 0.05, 30
JUDGES = (
    "the same every day",
    "5% of rows are a coin toss",
    "20% of rows are a coin toss",
    "ratings from 1 to 5, two thirds repeat",
)


def chances(rng: np.random.Generator, judge: str, anchors: int) -> np.ndarray:
    """The probability of a pass at each row (of ratings, the mean share of the scale)."""
    passes = (rng.random(anchors) < 0.7).astype(float)
    if judge.startswith("ratings"):
        return rng.choice([0.25, 0.5, 0.75, 1.0], anchors, p=[0.2, 0.2, 0.3, 0.3])
    noisy = {"the same every day": 0.0, JUDGES[1]: 0.05, JUDGES[2]: 0.2}[judge]
    return np.where(rng.random(anchors) < noisy, 0.5, passes)


def looks(
    rng: np.random.Generator, judge: str, anchors: int, drop: float, day: int = DAY, days: int = DAYS
) -> np.ndarray:
    """Scores from 0 to 1, (days, anchors)."""
    before = chances(rng, judge, anchors)
    if judge.startswith("ratings"):
        wobble = rng.choice([-0.25, 0.0, 0.25], (days, anchors), p=[1 / 6, 2 / 3, 1 / 6])
        scores = np.clip(before + np.where((before > 0) & (before < 1), wobble, 0.0), 0, 1)
        lower = (rng.random(anchors) < drop * 4) & (before > 0.25)
        scores[day:, lower] -= 0.25
        return np.clip(scores, 0, 1)
    after = before.copy()
    passing = np.flatnonzero(before == 1)
    after[rng.choice(passing, round(drop * anchors), replace=False)] = 0.0
    chance = np.repeat(before[None, :], days, axis=0)
    chance[day:] = after
    return (rng.random((days, anchors)) < chance).astype(float)


def main() -> None:
    """Print the table."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(
        "| Judge | Anchors | Runs as reference | False alarms in a year | Drop of 5 points found | Delay, median (90%) |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for judge in JUDGES:
        for anchors, reference in ((200, 1), (200, 5), (500, 1)):
            alarms, delays = 0, []
            for seed in range(times):
                rng = np.random.default_rng(seed)
                alarms += any(each.drifted for each in drift_intervals(looks(rng, judge, anchors, 0.0), reference))
                told = drift_intervals(looks(rng, judge, anchors, DROP), reference)
                delays.append(next((each.look - DAY + 1 for each in told if each.drifted and each.look >= DAY), np.inf))
            found = np.isfinite(delays).mean()
            quantiles = np.quantile(delays, [0.5, 0.9], method="higher")
            middle, late = (f"{value:.0f}" if np.isfinite(value) else "–" for value in quantiles)
            cells = [
                judge,
                f"{anchors}",
                f"{reference}",
                f"{alarms / times:.1%}",
                f"{found:.1%}",
                f"{middle} ({late}) days",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
