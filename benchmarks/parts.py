"""Time and memory until a resumed run of finished calls makes its first new call.

    python benchmarks/parts.py [ROWS] [PART_ROWS]

A run of ROWS rows (1,000,000), three calls each, that was killed: all but the last 9,990 are in finished parts of PART_ROWS rows
(10,000), and those are in the journal of an unfinished part, which is the most that is made again. The parts are written by
the classes that write them in a run, from the outcome of one row. Then `verdict run` resumes it, with a server on this machine
that notes when the first request arrives, and is killed; and again until its end, with the report. Prints a Markdown table.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, perf_counter, sleep

from loopback import CHAT, LoopbackServer
from msgspec.structs import replace
from rows import make

from verdict_cli.language.load import load
from verdict_cli.messages import Reply, Request, Result, Row, Usage
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.run.attempts import Context
from verdict_cli.run.job import RunJob, RunOptions
from verdict_cli.run.open_parts import RunParts
from verdict_cli.run.preflight import dataset_for, preflight
from verdict_cli.run.result_columns import ResultRows
from verdict_cli.run.row import run_row
from verdict_cli.run.row_writer import RowWriter
from verdict_cli.run.run_metadata import first_facts, resumed_facts, run_directory
from verdict_cli.run.whole_run import claim_parts
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.journal.entry import JournalEntry

REST = 9_990
"""Rows of the unfinished part that are in its journal. The part has ten more, which are not judged yet."""
NEW = 10
PIPELINE = """verdict: 1
name: parts
model: {{name: openai/gpt-4o-mini, api_base: 'http://127.0.0.1:{port}'}}
dataset: {{id: id}}
pipeline:
  - layer:
    - unit: JudgeUnit
      name: judge
      prompt: |
        Question: {{source.question}}
        Answer: {{source.answer}}
        Rate the answer.
    repeat: 3
  - unit: MeanPoolUnit
    name: mean
evaluate:
  label: {{prediction: "'good' if output.score > 3 else 'bad'", target: source.label, positive: good, by: [source.kind]}}
"""


class Noting(LoopbackServer):
    """Notes when the first request arrives, and answers once it is ``released``."""

    def __init__(self) -> None:
        super().__init__()
        self.first: float | None = None
        self.released = asyncio.Event()

    async def answer(self, path: str) -> tuple[str, Mapping[str, str], object]:
        """The reply."""
        self.first = self.first or monotonic()
        await self.released.wait()
        return "200 OK", {}, CHAT


async def outcome(plan: Plan, row: Row) -> Result:
    """A row's result, which all others get."""

    async def ask(_: Request) -> Reply:
        text = '{"score": 4}'
        return Reply(text, usage=Usage(120, 8), cost_usd=0.0001, model="m", latency_s=0.2, sent='{"temperature":0}')

    return await run_row(plan, row, Context(ask))


def job_of(config: Path, data: Path, out: Path, part_rows: int) -> RunJob:
    """The job that `verdict run` makes of its arguments."""
    plan = build_plan(load(config)).plan
    dataset = dataset_for(plan, [data])
    facts = preflight(plan, dataset)[0]
    options = RunOptions(
        plan=plan, dataset=dataset, data=facts, config=str(config), source=str(data), out=out, part_rows=part_rows
    )
    start: RunFacts = resumed_facts(first_facts(options), None)
    given = {name: getattr(options, name) for name in options.__dataclass_fields__}
    return RunJob(**given, directory=run_directory(out, start), start=start)


async def write(job: RunJob, rows: int) -> None:
    """Leave what a run leaves that was killed after so many rows."""
    job.directory.prepare()
    root = job.directory.open_journal(job.start.nodes)
    parts = RunParts(job, root, await claim_parts(job, root))
    template: Result | None = None
    with parts.open_tables() as tables, suppress(_Killed):
        writer = RowWriter(parts, ResultRows(job.plan), tables, 1000)
        for place, row in parts.rows():
            if place == rows:
                await writer.flush()
                raise _Killed
            template = template or await outcome(job.plan, row)
            calls = tuple(replace(call, request=replace(call.request, row=row)) for call in template.calls)
            for call in calls:
                assert call.reply is not None
                request = call.request
                parts.append(
                    JournalEntry(row.key, request.node, request.call, request.attempt, call.reply, latency_s=0.2)
                )
            writer.add(place, replace(template, row=row, calls=calls))
            if place % 1000 == 999:
                await writer.flush()
        raise AssertionError("the dataset has no row that is not judged")
    parts.close()


class _Killed(Exception):
    pass


def first_call(server: Noting, command: list[str]) -> tuple[float, float, float]:
    """Seconds until the first request, and CPU seconds and megabytes by then. The process is killed."""
    server.first = None
    start = monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0.0
    while server.first is None:
        if process.poll() is not None:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode} before its first call")
        peak = max(peak, peak_mb(process.pid))
        sleep(0.02)
    process.kill()
    _, _, usage = os.wait4(process.pid, 0)
    return server.first - start, usage.ru_utime + usage.ru_stime, peak


def peak_mb(pid: int) -> float:
    """The peak of a process's memory so far."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def main(rows: int, part_rows: int) -> None:
    """Prints the table."""
    server = Noting()
    loop = asyncio.new_event_loop()
    port: int = loop.run_until_complete(server.serve())[1]
    threading.Thread(target=loop.run_forever, daemon=True).start()
    os.environ["OPENAI_API_KEY"] = "sk-loopback"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, out = folder / "pipeline.yaml", folder / "out"
        config.write_text(PIPELINE.format(port=port))
        data = make(folder, rows + NEW)
        start = perf_counter()
        asyncio.run(write(job_of(config, data, out, part_rows), rows))
        kept = len([*out.glob("parts/*/done.json")])
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e9
        print(
            f"{3 * rows:,} calls, {kept} finished parts, {size:.2f} GB, written in {perf_counter() - start:.0f} s\n",
            flush=True,
        )
        command = [sys.executable, "-m", "verdict_cli", "run", str(config), str(data), "--out", str(out), "--quiet"]
        print("| until | s | CPU s | peak MB |\n| --- | ---: | ---: | ---: |")
        for _ in range(2):
            seconds, cpu, peak = first_call(server, [*command, "--no-cache"])
            print(f"| the first new call | {seconds:.1f} | {cpu:.1f} | {peak:.0f} |", flush=True)
        loop.call_soon_threadsafe(server.released.set)
        start = perf_counter()
        process = subprocess.Popen([*command, "--no-cache"], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds, cpu = perf_counter() - start, usage.ru_utime + usage.ru_stime
        print(f"| the end, with the report | {seconds:.1f} | {cpu:.1f} | {usage.ru_maxrss / 1024:.0f} |", flush=True)
        if status:
            raise SystemExit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    sizes = [int(size) for size in sys.argv[1:]]
    main(sizes[0] if sizes else 1_000_000 + REST, sizes[1] if len(sizes) > 1 else 10_000)
