"""Time and memory of `verdict view` for a run of a million rows: `python benchmarks/view.py`.

The run is written as Parquet files of a run's own columns, three calls to ten rows; the server is a process of its own, with
the requests of the page. Times are those of the first request of each kind: nothing is kept from an earlier one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, sleep
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
WORDS = np.array(
    [
        "the",
        "of",
        "answer",
        "model",
        "claims",
        "a",
        "number",
        "cites",
        "source",
        "correct",
        "wrong",
        "because",
        "while",
        "text",
        "judge",
    ]
)
GROUP = 5000


def written(folder: Path, rows: int) -> Path:
    """A run of so many rows: that of ten rows, and tables as long as is asked."""
    small = folder / "ten.jsonl"
    small.write_text(
        "".join(f'{{"key": "{place}", "text": "a", "label": 3}}\n' for place in range(10))
    )
    spec = folder / "pipeline.yaml"
    spec.write_text(
        "verdict: 1\nname: large\nmodel: baseline/lexical\ndataset: {id: key}\n"
        "pipeline:\n  - {unit: JudgeUnit, name: judge, prompt: '{source.text}'}\n"
        "evaluate:\n  e: {prediction: output.score, target: source.label, metrics: [accuracy]}\n"
    )
    run = folder / "run"
    command = [
        sys.executable,
        "-m",
        "verdict_cli",
        "run",
        str(spec),
        str(small),
        "--out",
        str(run),
        "--quiet",
    ]
    subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**facts, "rows": rows, "done": rows}))
    rng = np.random.default_rng(7)
    results = pq.read_schema(run / "results.parquet")
    calls = pq.read_schema(run / "calls.parquet")
    with (
        pq.ParquetWriter(run / "results.parquet", results, compression="zstd") as table,
        pq.ParquetWriter(run / "calls.parquet", calls, compression="zstd") as asked,
    ):
        for start in range(0, rows, GROUP):
            table.write_table(_results(results, start, min(GROUP, rows - start), rng))
            asked.write_table(_calls(calls, start, min(GROUP, rows - start) * 3 // 10))
    return run


def _results(schema: pa.Schema, start: int, count: int, rng: np.random.Generator) -> pa.Table:
    score, label = rng.integers(1, 6, count), rng.integers(1, 6, count)
    text = [" ".join(words) for words in WORDS[rng.integers(0, len(WORDS), (count, 40))]]
    known = {
        "row": range(start, start + count),
        "id": [str(place) for place in range(start, start + count)],
        "status": ["ok"] * count,
        "calls": [1] * count,
        "cost_usd": [0.0] * count,
        "source.key": [str(place) for place in range(start, start + count)],
        "source.text": text,
        "source.label": label,
        "judge.score": score,
        "output.score": score,
    }
    return _table(schema, known, count)


def _calls(schema: pa.Schema, start: int, count: int) -> pa.Table:
    message = '[{"role":"user","content":"how good is it"}]'
    known = {
        "row": [start + place * 10 // 3 for place in range(count)],
        "unit": ["judge"] * count,
        "model": ["baseline/lexical"] * count,
        "messages": [message] * count,
        "reply": ['{"score": 3}'] * count,
        "call": [0] * count,
        "attempt": [0] * count,
    }
    return _table(schema, known, count)


def _table(schema: pa.Schema, known: dict[str, object], count: int) -> pa.Table:
    arrays = [
        pa.array(known[field.name]).cast(field.type)
        if field.name in known
        else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def peak(process: int) -> float:
    """The most memory that the process had, in MB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def measured(run: Path, rows: int) -> None:
    """Prints a row for each request to the run of so many rows."""
    command = [sys.executable, "-m", "verdict_cli", "view", str(run), "--port", "0"]
    server = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        base = server.stderr.readline().split(": serving at ")[1].split()[0]

        def ask(path: str, **query: str) -> float:
            started = perf_counter()
            with urlopen(f"{base}{path}?{urlencode({'run': run.name, **query})}") as answer:
                answer.read()
            return perf_counter() - started

        print("| request | seconds | peak MB |\n| --- | ---: | ---: |")

        def row(name: str, seconds: float) -> None:
            print(f"| {name} | {seconds:.2f} | {peak(server.pid):,.0f} |", flush=True)

        row("the run page: facts and first rows", ask("/") + ask("/api/run") + ask("/api/rows"))
        started = perf_counter()
        while not json.loads(urlopen(f"{base}/api/run?run={run.name}").read())["ready"]:
            sleep(0.2)
        row("every row judged, in the background", perf_counter() - started)
        row("the last page", ask("/api/rows", page=str(rows // 50 - 1)))
        row("the next wrong row", ask("/api/wrong", row=str(rows * 7 // 9)))
        row("a row's details", ask("/api/row", row=str(rows * 7 // 9)))
        row("filtered: wrong rows", ask("/api/rows", f='["outcome", "is", "wrong"]'))
        row("sorted by a number", ask("/api/rows", sort="output.score", down="1"))
        row("sorted by a text", ask("/api/rows", sort="source.text"))
        row("search for two words", ask("/api/rows", q="cites because"))
        row("second page of that search", ask("/api/rows", q="cites because", page="1"))
    finally:
        server.terminate()
        server.communicate()


def main() -> None:
    """Writes the run, measures, and removes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    folder = Path(tempfile.mkdtemp(prefix="view-"))
    try:
        measured(written(folder, rows), rows)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
