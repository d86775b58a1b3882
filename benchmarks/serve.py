"""`verdict serve` with the embedded model at a steady rate of requests: latencies and errors.

Requests are sent at their planned moments whether or not earlier ones were answered, and latency counts from the planned
moment, so that a stall is seen in full. The client is a process of its own.

    python benchmarks/serve.py [--rate 200] [--seconds 60]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import perf_counter

import aiohttp

CONFIG = """
verdict: 1
name: bench
model: baseline/lexical
pipeline: [{unit: JudgeUnit, prompt: 'Does the answer {source.answer} fit the question {source.question}?'}]
"""
ROW = {"question": "What is the capital of France?", "answer": "The capital of France is Paris."}


def started(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """The server and its address."""
    config = folder / "bench.yaml"
    config.write_text(CONFIG)
    server = subprocess.Popen(
        [sys.executable, "-m", "verdict_cli", "serve", str(config), "--port", "0"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    for line in server.stderr:
        if ": serving at " in line:
            return server, line.rpartition(" ")[2].strip()
    raise SystemExit("the server did not start")


def cpu_s(process: int) -> float:
    """The processor time that a process has used, on Linux."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def steady(url: str, rate: float, seconds: float) -> tuple[list[float], Counter[str]]:
    """Latencies in seconds of the requests that were answered well, and what happened to the others."""
    latencies: list[float] = []
    errors: Counter[str] = Counter()

    async def one(session: aiohttp.ClientSession, planned: float) -> None:
        try:
            async with session.post(f"{url}/judge", json={"row": ROW}) as reply:
                await reply.read()
                if reply.status != 200:
                    errors[f"status {reply.status}"] += 1
                    return
        except (aiohttp.ClientError, OSError) as fault:
            errors[f"{type(fault).__name__}: {fault}"] += 1
            return
        latencies.append(perf_counter() - planned)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await one(session, perf_counter())
        latencies.clear()
        begin = perf_counter()
        tasks = []
        for place in range(int(rate * seconds)):
            planned = begin + place / rate
            if (wait := planned - perf_counter()) > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(one(session, planned)))
        await asyncio.gather(*tasks)
    return latencies, errors


def main() -> None:
    """Prints one row of the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server, url = started(Path(folder))
        try:
            before = cpu_s(server.pid)
            latencies, errors = asyncio.run(steady(url, asked.rate, asked.seconds))
            used_s = cpu_s(server.pid) - before
        finally:
            server.terminate()
            server.wait()
    for what, count in errors.items():
        print(f"{count} × {what}")
    ordered = sorted(latencies)
    p50, p99 = (1000 * ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
    print(
        "| requests a second | seconds | answered | errors | p50 ms | p99 ms | largest ms | CPU ms a request |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    print(
        f"| {asked.rate:g} | {asked.seconds:g} | {len(ordered):,} | {errors.total()} | {p50:.1f} | {p99:.1f} "
        f"| {1000 * ordered[-1]:.0f} | {1000 * used_s / len(ordered):.2f} |"
    )


if __name__ == "__main__":
    main()
