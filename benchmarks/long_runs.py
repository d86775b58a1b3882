"""What a long run costs, and what it costs to resume it.

    python benchmarks/long_runs.py [ROWS] [served]

`verdict run` with one JudgeUnit on `baseline/lexical`, or, `served`, with prompts of 4 KB on `bench/mock_openai.py` of the folder
that the environment variable VERDICT_SHARED names. Then the last 1,000 rows are taken out of the run's database, and the run is
resumed, and called again when it is finished. Prints a Markdown table of two columns.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic, sleep

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared"))
ABSENT = 1000
PIPELINE = """verdict: 1
name: long
model: {model}
dataset: {{id: id}}
pipeline:
- {{unit: JudgeUnit, name: judge, prompt: 'Rate {{source.text}}'}}
"""
TABLES = """
import sys
from pathlib import Path
from time import process_time
from verdict_cli.run.load_run import stored_run
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.tables import TableColumns, write_tables
from verdict_cli.storage.database.database import Database
import pyarrow.parquet
folder = Path(sys.argv[1])
with Database.open_foreign(folder / "run.db") as database:
    columns = TableColumns.from_json(stored_run(database, RunDirectory(folder)).columns)
start = process_time()
rows = write_tables(folder / "again", folder / "run.db", columns, 0).done
print((process_time() - start) / rows * 1e6)
"""


def write_data(path: Path, rows: int, words: int) -> None:
    """Write rows whose texts have so many words."""
    draw = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(5000)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            text = " ".join(draw.choices(vocabulary, k=words))
            file.write(json.dumps({"id": f"r{number}", "text": text}) + "\n")


class LongRun:
    """A run of so many rows in a folder."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._folder, self._rows = folder, rows
        self.out = folder / "out"
        self.memory_mb: list[float] = []
        """What the process had in memory at a tenth, at half and at nine tenths of the rows."""

    def execute(self, *, last_call: int = 0) -> tuple[float, float, float, float]:
        """Run the command; the seconds, and those of a processor, to its first call and to its end."""
        words = [
            "run",
            "p.yaml",
            "d.jsonl",
            "--out",
            "out",
            "--quiet",
            "--no-cache",
            "--concurrency",
            "64",
        ]
        start, before = monotonic(), os.times()
        process = subprocess.Popen(
            [sys.executable, "-m", "verdict_cli", *words],
            cwd=self._folder,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "sk-loopback"},
            stdout=subprocess.DEVNULL,
        )
        first = first_cpu = 0.0
        while process.poll() is None:
            made = self._calls()
            if made > last_call and not first:
                first, first_cpu = monotonic() - start, _processor_s(process.pid)
            if not last_call and made > self._rows * (0.1, 0.5, 0.9, 2)[len(self.memory_mb)]:
                self.memory_mb.append(_memory_mb(process.pid))
            sleep(0.05)
        if process.returncode:
            raise SystemExit(f"the run ended with {process.returncode}")
        after = os.times()
        cpu = after.children_user + after.children_system
        cpu -= before.children_user + before.children_system
        return first, first_cpu, monotonic() - start, cpu

    def _calls(self) -> int:
        """The number of the last call in the database."""
        try:
            with closing(sqlite3.connect(f"file:{self.out}/run.db?mode=ro", uri=True)) as database:
                return int(database.execute("SELECT max(number) FROM calls").fetchone()[0] or 0)
        except sqlite3.Error:
            return 0

    def take_out(self) -> int:
        """Take the last rows out of the database; the number of the last call that is in it."""
        first = self._rows - ABSENT
        with closing(sqlite3.connect(self.out / "run.db")) as database:
            database.execute("DELETE FROM rows WHERE row >= ?", (first,))
            database.execute("DELETE FROM calls WHERE row >= ?", (first,))
            database.commit()
        facts = json.loads((self.out / "run.json").read_bytes())
        unfinished = facts | {"status": "interrupted", "digests": {}}
        (self.out / "run.json").write_text(json.dumps(unfinished), encoding="utf-8")
        return self._calls()

    def table_us(self) -> float:
        """Microseconds of processor time in which the tables are written, by row."""
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", TABLES, str(self.out)]
        printed = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
        return float(printed)


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


@contextmanager
def _served() -> Iterator[str]:
    command = [
        sys.executable,
        str(SHARED / "bench" / "mock_openai.py"),
        "--port",
        "0",
        "--score",
        "hash",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().rpartition(" ")[2].strip()
        try:
            yield f"{{name: openai/loopback, api_base: '{url}'}}"
        finally:
            server.terminate()


def measure(folder: Path, rows: int, model: str, words: int) -> None:
    """Print the table."""
    (folder / "p.yaml").write_text(PIPELINE.format(model=model), encoding="utf-8")
    write_data(folder / "d.jsonl", rows, words)
    run = LongRun(folder, rows)
    _, _, seconds, cpu = run.execute()
    bytes_a_row = (run.out / "run.db").stat().st_size / rows
    tables = sum((run.out / name).stat().st_size for name in ("results.parquet", "calls.parquet"))
    table_us = run.table_us()
    last_call = run.take_out()
    first, first_cpu, _, _ = run.execute(last_call=last_call)
    _, _, again, again_cpu = run.execute(last_call=2 * rows)
    print(f"| {rows:,} rows | |\n| --- | ---: |")
    print(f"| run, s (CPU s) | {seconds:.0f} ({cpu:.0f}) |")
    print(
        f"| memory at 10%, 50%, 90% of the rows, MB | {', '.join(f'{mb:.0f}' for mb in run.memory_mb)} |"
    )
    print(f"| run.db, bytes a row | {bytes_a_row:.0f} |")
    print(f"| both tables, bytes a row | {tables / rows:.0f} |")
    print(f"| writing the tables, CPU µs a row | {table_us:.1f} |")
    print(
        f"| {ABSENT:,} rows are absent: s until the first call (CPU s) | {first:.1f} ({first_cpu:.1f}) |"
    )
    print(f"| finished, called again, s (CPU s) | {again:.1f} ({again_cpu:.1f}) |")


def main(words: list[str]) -> None:
    """Measure a run as the words say."""
    with tempfile.TemporaryDirectory() as name:
        if "served" in words:
            with _served() as model:
                measure(Path(name), int(words[0]), model, 680)
        else:
            measure(Path(name), int(words[0]), "baseline/lexical", 12)


if __name__ == "__main__":
    main(sys.argv[1:] or ["1000000"])
