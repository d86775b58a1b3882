"""Rows a second and peak memory of `verdict run` at two sizes of the same dataset.

    python benchmarks/rows.py [REPETITIONS]

One JudgeUnit on the embedded model `baseline/lexical`: what is measured is reading, planning, running and writing, not a
model. The data is made in a temporary folder. Prints a Markdown table of medians, and the ratio of the peak memories.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

SIZES = (10_000, 100_000)
WORDS = "the answer covers what was asked and leaves nothing out though some of it is hard to follow"
PIPELINE = """verdict: 1
name: rows
model: baseline/lexical
dataset: {id: id}
pipeline:
  - unit: JudgeUnit
    name: judge
    prompt: |
      Question: {source.question}
      Answer: {source.answer}
      Rate the answer.
"""


def make(folder: Path, count: int) -> Path:
    """A JSONL of so many rows, each a question of 20 words and an answer of 60."""
    draw = random.Random(0)
    path = folder / f"{count}.jsonl"
    with path.open("w") as file:
        for place in range(count):
            row = {
                "id": f"row-{place:06d}",
                "question": " ".join(draw.choices(WORDS.split(), k=20)),
                "answer": " ".join(draw.choices(WORDS.split(), k=60)),
            }
            file.write(json.dumps(row) + "\n")
    return path


def measure(folder: Path, config: Path, data: Path, *more: str) -> tuple[float, float]:
    """Seconds and peak megabytes of one run, the process as a whole."""
    command = [sys.executable, "-m", "verdict_cli", "run", str(config), str(data)]
    command += ["--out", str(folder / "out"), "--fresh", "--quiet", *more]
    start = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return seconds, usage.ru_maxrss / unit


def main(repetitions: int) -> None:
    """Prints the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "pipeline.yaml"
        config.write_text(PIPELINE)
        data = {count: make(folder, count) for count in SIZES}
        runs: dict[int, list[tuple[float, float]]] = {count: [] for count in SIZES}
        for _ in range(repetitions):
            for count, path in data.items():
                runs[count].append(measure(folder, config, path))
    print("| rows | seconds | rows a second | peak MB |\n| ---: | ---: | ---: | ---: |")
    peaks = []
    for count, found in runs.items():
        seconds, peak = (statistics.median(values) for values in zip(*found, strict=True))
        peaks.append(peak)
        print(f"| {count:,} | {seconds:.1f} | {count / seconds:,.0f} | {peak:.0f} |")
    print(f"\nPeak memory at {SIZES[1]:,} rows: {peaks[1] / peaks[0]:.2f} times that at {SIZES[0]:,}.")
    print(f"Medians of {repetitions} runs, the whole process with its start and its report.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
