"""What the Ray engine costs beside the local one, on this machine.

    python benchmarks/ray.py [ROWS]

`verdict run` with `baseline/lexical` (no network: all is the engine's own work) by either engine. Prints a Markdown table:
seconds of the whole command, seconds from the first row to the last report, rows a second in them. Leaves with 1 where the
two tables differ. Below it: permits a second that the actor with the limits gives in bundles of 64, in CPU time and without
Ray's own messages, and rows a second of joining parts, which are what one process does for all workers.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time

PIPELINE = """verdict: 1
name: ray
model: baseline/lexical
pipeline:
- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}
"""


def timed(folder: Path, out: str, flags: Sequence[str]) -> tuple[float, float]:
    """Seconds of the command, and of the run in it."""
    command = [sys.executable, "-m", "verdict_cli", "run", "ray.yaml", "data.jsonl", "--out", out, "--quiet"]
    start = perf_counter()
    subprocess.run([*command, *flags], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    whole = perf_counter() - start
    return whole, float(json.loads((folder / out / "run.json").read_text(encoding="utf-8"))["wall_s"])


async def permits(bundles: int) -> float:
    """Permits a CPU second."""
    from verdict_cli.engines.desk import Desk, Heard, Wanted
    from verdict_cli.models import Model
    from verdict_cli.values import Reply

    desk, model = Desk(64), Model(name="openai/m", api_base="http://127.0.0.1:9/v1")
    await desk.begin("worker", 0)
    start = process_time()
    for bundle in range(bundles):
        tickets = range(64 * bundle, 64 * (bundle + 1))
        await desk.post("worker", [Wanted(ticket, "judge", model, 100) for ticket in tickets], [], None)
        given = (await desk.permits("worker")).tickets
        await desk.post("worker", [], [(ticket, Heard.of(Reply("3"))) for ticket in given], None)
    return 64 * bundles / (process_time() - start)


def joining(table: Path, rows: int) -> float:
    """Rows a CPU second of putting the results behind one another."""
    from verdict_cli.data import joined, read_table

    columns = dict.fromkeys(next(iter(read_table(table))), "null")
    start = process_time()
    joined([table] * 4, table.with_name("joined.parquet"), columns)
    return 4 * rows / (process_time() - start)


def main(rows: int) -> int:
    """Prints the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "ray.yaml").write_text(PIPELINE, encoding="utf-8")
        lines = (json.dumps({"text": f"text {place}"}) + "\n" for place in range(rows))
        (folder / "data.jsonl").write_text("".join(lines), encoding="utf-8")
        print("| engine | rows | command, s | run, s | rows/s |")
        print("| --- | ---: | ---: | ---: | ---: |")
        for engine in ("local", "ray"):
            whole, run = timed(folder, engine, ["--engine", engine])
            print(f"| {engine} | {rows:,} | {whole:.1f} | {run:.1f} | {rows / run:,.0f} |", flush=True)
        print(f"\npermits: {asyncio.run(permits(500)):,.0f} a CPU second")
        print(f"joining: {joining(folder / 'local' / 'results.parquet', rows):,.0f} rows a CPU second")
        same = len({(folder / out / "results.parquet").read_bytes() for out in ("local", "ray")}) == 1
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
