"""How long a run waits for its slowest calls, with `hedge: auto` and without.

    python benchmarks/stragglers.py [--rows 4000] [--scale 0.1]

The server is on loopback. Its latency is log-normal with a median of 1 s and a 99th percentile of 10 s, and 1% of the calls
hang until their timeout of 60 s; all times are multiplied by `--scale`. 128 concurrent calls. Printed are the time at which
99% of the rows had been answered, the end of the run over that time, and the extra requests.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import monotonic

from loopback import CHAT, LoopbackServer, lognormal
from rate_limit import judge

MEDIAN_S, P99_S, TIMEOUT_S, HANGING = 1.0, 10.0, 60.0, 0.01


class SlowTailServer(LoopbackServer):
    """``requests`` counts what was received."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.requests = 0
        self.started = 0.0
        self._random = random.Random(3)

    async def answer(self, path: str) -> tuple[str, Mapping[str, str], object]:
        self.started = self.started or monotonic()
        self.requests += 1
        hangs = self._random.random() < HANGING
        seconds = 10 * TIMEOUT_S if hangs else lognormal(self._random, MEDIAN_S, P99_S)
        await asyncio.sleep(self.scale * seconds)
        return "200 OK", {}, CHAT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--scale", type=float, default=0.1)
    options = parser.parse_args()
    for hedge in ("off", "auto"):
        server = SlowTailServer(options.scale)
        keys = f", hedge: {hedge}, timeout: {options.scale * TIMEOUT_S:g}"
        with tempfile.TemporaryDirectory() as folder:
            code, output = asyncio.run(judge(server, options.rows, Path(folder), keys, flags=("--concurrency", "128")))
        if code:
            print(output)
        answered = [at - server.started for at in server.sent]
        almost, end = answered[int(0.99 * options.rows)], answered[-1]
        extra = server.requests / options.rows - 1
        print(
            f"hedge: {hedge}: 99% after {almost:.1f} s, the end at {end / almost:.2f} of that, {extra:.1%} more requests"
        )


if __name__ == "__main__":
    main()
