"""How long runs take under every kind of rate limit, and what share of their calls is refused, in virtual time.

    python benchmarks/limits.py

Simulated providers under the program's own rate limiting; means of three seeds. It takes a minute. `storms.py` has storms of
refusals.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "llm" / "middleware"))

from limited_provider import Provider, judge

SEEDS = (3, 7, 15)


@dataclass
class Scenario:
    """A provider, and how many calls are made of it, so many at a time."""

    name: str
    provider: dict[str, Any]
    calls: int
    concurrent: int = 128


def scenarios() -> list[Scenario]:
    """Stated and unstated limits of the rate, limits of calls at once, random refusals, storms, and no limit."""
    found = [
        Scenario("headers, written late", _latency(2.0, 3, 1200, states=True, late=True), 1500),
        Scenario("headers of a window", {"per_minute": 1200, "window_s": 10, "states": True}, 1500),
        Scenario("300 a minute, silent", _latency(0.2, 6, 300), 600),
        Scenario("no limit", {"median_s": 0.19, "p99_s": 0.1901}, 2000),
    ]
    for median_s, burst_s in product((0.1, 0.5, 2.0), (1, 5, 60)):
        provider = _latency(median_s, 6, 1200, burst_s=burst_s, states=True)
        calls = 3000 if burst_s == 60 else 1500
        found.append(Scenario(f"headers, {median_s} s, a burst of {burst_s} s", provider, calls))
    for median_s, tells in product((0.1, 0.5, 2.0, 4.0), (False, True)):
        said = "Retry-After" if tells else "silent"
        provider = _latency(median_s, 3, 120, tells=tells)
        found.append(Scenario(f"120 a minute, {said}, {median_s} s", provider, 250, 64))
    for median_s, tells in product((0.2, 0.5, 2.0), (False, True)):
        said = "Retry-After" if tells else "silent"
        provider = _latency(median_s, 6, 1200, tells=tells)
        found.append(Scenario(f"1,200 a minute, {said}, {median_s} s", provider, 2400))
    for at_once, (median_s, p99_s) in product((3, 10, 40), ((0.5, 3), (1, 1.001), (4, 12))):
        provider = {"at_once": at_once, "median_s": median_s, "p99_s": p99_s}
        found.append(Scenario(f"{at_once} calls at once, {median_s} s", provider, 1500))
    for noise, median_s, concurrent in (
        (0.03, 0.5, 128),
        (0.1, 0.1, 128),
        (0.1, 0.5, 128),
        (0.1, 0.5, 8),
        (0.2, 0.5, 128),
    ):
        provider = {"median_s": median_s, "p99_s": 6 * median_s, "noise": noise}
        calls = 5000 if concurrent == 128 else 1500
        name = f"{noise:.0%} refused at random, {median_s} s, {concurrent} at once"
        found.append(Scenario(name, provider, calls, concurrent))
    for states in (False, True):
        provider = {"per_minute": 6000, "noise": 0.1, "states": states}
        said = "headers" if states else "silent"
        found.append(Scenario(f"6,000 a minute, {said}, 10% refused at random", provider, 6000))
    storm = {"per_minute": 1200, "storm_at": 20.0, "storm_s": 5.0}
    for name, more in (
        ("silent", {}),
        ("headers", {"states": True}),
        ("Retry-After", {"tells": True}),
    ):
        found.append(Scenario(f"1,200 a minute, {name}, a storm of 5 s", {**storm, **more}, 1500))
    return found


def _latency(median_s: float, tail: float, per_minute: float, **more: Any) -> dict[str, Any]:
    return {"per_minute": per_minute, "median_s": median_s, "p99_s": tail * median_s, **more}


def main() -> None:
    print("| limit | s to the last accepted call | refused |")
    print("| --- | ---: | ---: |")
    for scenario in scenarios():
        took_s, refused = [], []
        for seed in SEEDS:
            provider = Provider(seed=seed, **scenario.provider)
            judge(provider, scenario.calls, scenario.concurrent)
            took_s.append(provider.accepted[-1])
            refused.append(provider.refused)
        figures = f"{statistics.mean(took_s):.1f} | {statistics.mean(refused):.1%}"
        print(f"| {scenario.name} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
