"""Cost of the Ray engine compared with the local one, on this machine.

    python benchmarks/ray.py [ROWS]

`verdict run` with `baseline/lexical` (no network: all is the engine's own work) over rows of 80 words, by either engine. Prints a Markdown table:
seconds of the whole command, seconds from the first row to the last report, rows a second in them. Leaves with 1 where the
two tables differ. Below it, in CPU time, what one process does for all workers: permits that the actor with the limits gives
in bundles of 64, without Ray's own messages; rows that are read, and then read and handed out under keys of their own; lines of
the journal that are distributed to parts, merged from them, and read when a run resumes; rows and calls of tables that are joined;
with the bytes on disk and in memory that a row or a call takes of each.
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

from rows import make

PIPELINE = """verdict: 1
name: ray
model: baseline/lexical
pipeline:
- {unit: JudgeUnit, name: judge, prompt: 'Question: {source.question} Answer: {source.answer} Rate the answer.'}
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
    from verdict_cli.features.ray.worker import Coordinator, PermitRequest
    from verdict_cli.messages import Reply
    from verdict_cli.model import Model

    desk, model = Coordinator(64), Model(name="openai/m", api_base="http://127.0.0.1:9/v1")
    await desk.begin("worker", 0)
    start = process_time()
    for bundle in range(bundles):
        tickets = range(64 * bundle, 64 * (bundle + 1))
        await desk.post("worker", [PermitRequest(ticket, "judge", model, 100) for ticket in tickets], [], None)
        given = (await desk.permits("worker")).answers
        await desk.post("worker", [], [(ticket, Reply("3")) for ticket in given], None)
    return 64 * bundles / (process_time() - start)


def joining(table: Path, rows: int) -> float:
    """Rows a CPU second of putting the tables behind one another."""
    from verdict_cli.storage.tables.reader import concatenate_tables, read_table

    columns = dict.fromkeys(next(iter(read_table(table))), "null")
    start = process_time()
    concatenate_tables([table] * 4, table.with_name("joined.parquet"), columns)
    return 4 * rows / (process_time() - start)


def reading(data: Path, count: int) -> tuple[float, float]:
    """Rows a CPU second of the first reading, which finds problems, and of the second, which hands the rows out."""
    from verdict_cli.storage.datasets.dataset import Dataset
    from verdict_cli.storage.datasets.read import scan, stream_rows
    from verdict_cli.storage.journal.digest_index import number_duplicates

    dataset = Dataset((data,))
    start = process_time()
    selection = scan(dataset).selection
    first = process_time() - start
    start = process_time()
    for _ in number_duplicates(stream_rows(dataset, selection)):
        pass
    return count / first, count / (process_time() - start)


def journalling(folder: Path, count: int) -> tuple[float, float, float, float]:
    """Lines a CPU second of opening, of dealing and of gathering a journal, and the bytes of a line with one sentence."""
    from verdict_cli.messages import Reply, Row, Usage
    from verdict_cli.run.run_directory import RunDirectory
    from verdict_cli.storage.journal.entry import JournalEntry
    from verdict_cli.storage.journal.journal import Journal
    from verdict_cli.storage.journal.partition import merge_partitions, partition_journal

    words = '{"thinking": "The answer covers what was asked, though its second half is hard to follow.", "score": 4}'
    rows = [Row(place, place, {}, f"{place * 2654435761:032x}") for place in range(count)]
    run = RunDirectory(folder / "journalled")
    nodes = {"judge": "0123456789abcdef"}
    with run.open_journal(nodes) as journal:
        for row in rows:
            reply = Reply(words, "stop", None, Usage(212, 24), 0.0001, "gpt-4o-mini-2024-07-18", 0.81)
            journal.append(JournalEntry(row.key, "judge", 0, 0, reply, latency_s=0.81))
    start = process_time()
    run.open_journal(nodes).close()
    opened = process_time() - start
    start = process_time()
    partition_journal(run.journal, run.path / "parts", rows, 5000, nodes)
    handed = process_time() - start
    for note in run.path.glob("parts/*/dealt"):
        note.unlink()  # what was dealt is then what the parts have asked
    with Journal.open(folder / "gathered.jsonl", nodes) as whole:
        start = process_time()
        asyncio.run(merge_partitions(run.path, None, whole))
        together = process_time() - start
    return count / opened, count / handed, count / together, run.journal.stat().st_size / count


def main(rows: int) -> int:
    """Prints the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "ray.yaml").write_text(PIPELINE, encoding="utf-8")
        make(folder, rows).rename(folder / "data.jsonl")
        print("| engine | rows | command, s | run, s | rows/s |")
        print("| --- | ---: | ---: | ---: | ---: |")
        for engine in ("local", "ray"):
            whole, run = timed(folder, engine, ["--engine", engine])
            print(f"| {engine} | {rows:,} | {whole:.1f} | {run:.1f} | {rows / run:,.0f} |", flush=True)
        print(f"\npermits: {asyncio.run(permits(500)):,.0f} a CPU second")
        sizes = {}
        for table in ("results", "calls"):
            path = folder / "local" / f"{table}.parquet"
            sizes[table] = path.stat().st_size / rows
            print(f"joining {table}: {joining(path, rows):,.0f} rows a CPU second")
        first, second = reading(folder / "data.jsonl", rows)
        print(f"reading: {first:,.0f}, with keys {second:,.0f} rows a CPU second")
        opened, handed, together, size = journalling(folder, 10 * rows)
        print(f"journal: opening {opened:,.0f}, dealing {handed:,.0f}, gathering {together:,.0f} lines a CPU second")
        print(
            f"bytes: {size:.0f} a line of the journal, {sizes['results']:.0f} a row of results, "
            f"{sizes['calls']:.0f} a call of calls.parquet"
        )
        same = len({(folder / out / "results.parquet").read_bytes() for out in ("local", "ray")}) == 1
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
