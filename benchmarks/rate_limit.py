"""Judge rows by a server on loopback that refuses calls beyond a limit (429).

    python benchmarks/rate_limit.py [CASE …]

The server is a token bucket that refills continuously and holds `--burst` seconds' worth; or it takes a number of calls at
once. Printed are the failed rows, the refused requests, and the share of the limit that was used: the shortest possible time
for 99% of the rows over the actual one. `storm` refuses everything for five seconds, and also prints how many calls were
accepted in each second after that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import monotonic

from loopback import CHAT, LoopbackServer, lognormal

CONFIG = """\
verdict: 1
name: limited
model: {{name: openai/limited, api_base: "http://127.0.0.1:{port}/v1"{keys}}}
pipeline:
  - unit: JudgeUnit
    prompt: "Rate: {{source.text}}"
    scale: {{type: discrete, range: [1, 5]}}
"""
STORM_S = 5.0


class LimitedServer(LoopbackServer):
    """Chat completions with log-normal latency, at most ``per_minute`` of them, and ``at_once`` at a time.

    ``states``: it sends quota headers. It refuses everything for five seconds from ``storm_at`` on. ``accepted`` and
    ``answered`` hold the times of the calls.
    """

    def __init__(
        self,
        per_minute: float = math.inf,
        burst_s: float = 5.0,
        median_s: float = 0.5,
        p99_s: float = 3.0,
        *,
        at_once: float = math.inf,
        states: bool = False,
        storm_at: float = math.inf,
    ) -> None:
        super().__init__()
        self.rate = per_minute / 60
        self.burst = max(1.0, self.rate * burst_s)
        self.median_s, self.p99_s = median_s, p99_s
        self.at_once, self.states, self.storm_at = at_once, states, storm_at
        self.accepted: list[float] = []
        self.answered: list[float] = []
        self.refused = self.here = 0
        self.started: float | None = None
        self._level, self._at = self.burst, monotonic()
        self._random = random.Random(7)

    def share_used(self) -> float:
        """The shortest time in which the limit allows 99% of the answers, over the time that they took."""
        assert self.started is not None
        count = int(0.99 * len(self.answered))
        took_s = sorted(self.answered)[count - 1] - self.started
        if self.at_once < math.inf:
            mean_s = self.median_s * math.exp(
                (math.log(self.p99_s / self.median_s) / 2.326) ** 2 / 2
            )
            return count * mean_s / self.at_once / took_s
        return (count - self.burst) / self.rate / took_s

    def after_storm(self, seconds: int = 20) -> list[int]:
        """The calls that were accepted in each second after the storm."""
        assert self.started is not None
        over = self.started + self.storm_at + STORM_S
        return [sum(over + n <= at < over + n + 1 for at in self.accepted) for n in range(seconds)]

    async def answer(self, path: str) -> tuple[str, Mapping[str, str], object]:
        now = monotonic()
        self.started = now if self.started is None else self.started
        if self.rate < math.inf:
            self._level, self._at = min(self.burst, self._level + (now - self._at) * self.rate), now
        in_storm = 0 <= now - self.started - self.storm_at < STORM_S
        refused = in_storm or self._level < 1 or self.here >= self.at_once
        self._level -= self.rate < math.inf and not refused
        headers = {}
        if self.states:
            reset_s = (self.burst - self._level) / self.rate
            headers = {
                "x-ratelimit-limit-requests": f"{self.burst:.0f}",
                "x-ratelimit-remaining-requests": f"{max(0, int(self._level))}",
                "x-ratelimit-reset-requests": f"{int(1000 * reset_s)}ms",
            }
        if refused:
            self.refused += 1
            error = {"message": "Too many requests", "code": "rate_limit_exceeded"}
            return "429 Too Many Requests", headers, {"error": error}
        self.accepted.append(now)
        self.here += 1
        await asyncio.sleep(lognormal(self._random, self.median_s, self.p99_s))
        self.here -= 1
        self.answered.append(monotonic())
        return "200 OK", headers, CHAT


async def judge(
    server: LoopbackServer, rows: int, folder: Path, keys: str = "", flags: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Judge so many rows by the server, with the command's defaults: the exit code, and what it printed."""
    listening, port = await server.serve()
    (folder / "limited.yaml").write_text(CONFIG.format(port=port, keys=keys))
    (folder / "rows.jsonl").write_text(
        "".join(json.dumps({"text": f"text {n}"}) + "\n" for n in range(rows))
    )
    command = ["run", "limited.yaml", "rows.jsonl", "--out", "out", "--no-cache", *flags]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "verdict_cli",
        *command,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    listening.close()
    assert process.returncode is not None
    return process.returncode, output.decode()


CASES = {
    "silent": (120, 5, {}),
    "headers": (1200, 5, {"states": True}),
    "small-burst": (1200, 1, {"states": True}),
    "storm": (1200, 5, {"storm_at": 20.0}),
    "at-once": (math.inf, 5, {"at_once": 10, "median_s": 1.0, "p99_s": 1.001}),
}
"""Case -> requests a minute, seconds of a burst, and what else the server does."""
ROWS = {"silent": 250, "headers": 1500, "small-burst": 1500, "storm": 1500, "at-once": 600}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="all of them by default")
    parser.add_argument("--rows", type=int, help="instead of the case's own number")
    options = parser.parse_args()
    for case in options.cases or CASES:
        per_minute, burst_s, more = CASES[case]
        server = LimitedServer(per_minute, burst_s, **more)
        rows = options.rows or ROWS[case]
        flags = () if case == "silent" else ("--concurrency", "128")
        with tempfile.TemporaryDirectory() as folder:
            code, output = asyncio.run(judge(server, rows, Path(folder), flags=flags))
        if code:
            print(output)
        share = f"{server.share_used():.1%} of the limit used" if server.answered else ""
        print(
            f"{case}: exit code {code}, answered {len(server.answered)} of {rows}, refused {server.refused}, {share}"
        )
        if case == "storm":
            print(
                f"storm: accepted in each second after it, of {server.rate:g}: {server.after_storm()}"
            )


if __name__ == "__main__":
    main()
