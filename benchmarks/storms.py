"""How soon a rate limit is used again after a storm of refusals, in virtual time.

    python benchmarks/storms.py [--cases]

A simulated provider refuses everything for a while, 20 seconds after the start of a run, under the program's own rate
limiting: 120, 1,200 and 12,000 requests a minute, with and without rate-limit headers, with and without Retry-After, three
storms, two latencies. A case has recovered when every ten seconds from then on use 90% of the limit. `--cases` prints each.
The last line are 2,000 calls of 0.2 s to a server without a limit, 128 at a time, over the shortest possible time.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "llm" / "middleware"))

from limited_provider import STORMS, Provider, judge, recover


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", action="store_true", help="print every case")
    options = parser.parse_args()
    print(
        "| requests a minute | storm | cases | recovered within 10 s | slowest, s | used, 10 to 20 s after it |"
    )
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    for per_minute, storm in product((120, 1200, 12_000), STORMS):
        took_s, used = [], []
        for states, tells, median_s in product((False, True), (False, True), (0.5, 2.0)):
            provider = recover(
                per_minute, storm, states=states, tells=tells, median_s=median_s, p99_s=6 * median_s
            )
            assert provider.storm_ended is not None
            took_s.append(provider.recovery_s())
            used.append(provider.used_between(provider.storm_ended + 10, provider.storm_ended + 20))
            if options.cases:
                kind = f"headers {states}, Retry-After {tells}, median {median_s} s"
                print(
                    f"  {kind}: {took_s[-1]:g} s, {used[-1]:.0%}, refused {provider.refused:.1%}",
                    flush=True,
                )
        within = sum(seconds <= 10 for seconds in took_s)
        slowest = "over 30" if max(took_s) >= 30 else f"{max(took_s):g}"
        print(
            f"| {per_minute:,} | {storm} | {len(took_s)} | {within} | {slowest} | {min(used):.0%} |",
            flush=True,
        )
    waves = -(-2000 // 128)
    print(
        f"without a limit: {judge(Provider(median_s=0.19, p99_s=0.1901), 2000) / (0.2 * waves):.4f} times"
    )


if __name__ == "__main__":
    main()
