"""Throughput and peak memory of `verdict run` at several sizes of the same dataset.

    python benchmarks/rows.py [ROWS …]

One JudgeUnit on the embedded model `baseline/lexical`: what is measured is reading, planning, running, writing, measuring
and reporting, not a model. Two evaluations: labels with two groups, and numbers of which nearly every row has its own, so
that intervals are resampled over all rows, in clusters. The data is made in a temporary folder. Prints a Markdown table;
up to 100,000 rows the medians of three runs.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

KB = 2**20 if sys.platform == "darwin" else 2**10
"""What is a megabyte in the unit of `ru_maxrss`."""
SIZES = (10_000, 100_000, 1_000_000)
WORDS = (
    "the answer covers what was asked and leaves nothing out though some of it is hard to follow"
)
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
evaluate:
  label: {prediction: "'good' if output.score > 3 else 'bad'", target: source.label, positive: good, by: [source.kind]}
  number: {prediction: output.score, target: source.human, cluster: source.document}
"""


class Measured(NamedTuple):
    """What one run took: as a whole, and until its rows were judged and written."""

    seconds: float
    peak_mb: float
    cpu_s: float
    judged_s: float = 0.0
    judged_cpu_s: float = 0.0
    judged_mb: float = 0.0


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
                "label": draw.choice(("good", "bad")),
                "human": draw.random(),
                "kind": draw.choice(("short", "long")),
                "document": place // 20,
            }
            file.write(json.dumps(row) + "\n")
    return path


def measure(
    folder: Path,
    config: Path,
    data: Path,
    *more: str,
    program: Sequence[str] = ("-m", "verdict_cli"),
) -> Measured:
    """One run, the process as a whole; ``program`` is what Python is to run."""
    command = [sys.executable, *program, "run", str(config), str(data)]
    command += ["--out", str(folder / "out"), "--fresh", "--quiet", *more]
    note = folder / "note"
    start = perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env=os.environ | {"NOTE": str(note)}
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    judged = [float(text) for text in note.read_text().split()] if note.exists() else []
    return Measured(seconds, usage.ru_maxrss / KB, usage.ru_utime + usage.ru_stime, *judged)


def watched(arguments: list[str]) -> None:
    """The command line, which notes in the file `NOTE` the seconds, CPU seconds and megabytes before its report."""
    start = perf_counter()
    from verdict_cli.cli.app import main as command_line
    from verdict_cli.report import write_report

    reported = write_report.write_report

    def noted(*given: Any, **more: Any) -> Any:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KB
        Path(os.environ["NOTE"]).write_text(
            f"{perf_counter() - start} {process_time()} {peak}", encoding="utf-8"
        )
        return reported(*given, **more)

    write_report.write_report = noted
    sys.argv = ["verdict", *arguments]
    command_line()


def main(sizes: Sequence[int]) -> None:
    """Prints the table."""
    print(
        "| rows | s | CPU s, judging | CPU s, report | rows a CPU second | peak MB, judging | peak MB | times the first |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    first = 0.0
    for count in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            config = folder / "pipeline.yaml"
            config.write_text(PIPELINE)
            data = make(folder, count)
            runs = [
                measure(folder, config, data, program=(__file__, "watched"))
                for _ in range(3 if count <= 100_000 else 1)
            ]
        seconds, peak, cpu, _, judged, judging = (
            statistics.median(values) for values in zip(*runs, strict=True)
        )
        first = first or judging
        print(
            f"| {count:,} | {seconds:.1f} | {judged:.1f} | {cpu - judged:.1f} | {count / judged:,.0f} | {judging:.0f} | "
            f"{peak:.0f} | {judging / first:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["watched"]:
        watched(sys.argv[2:])
    else:
        main([int(size) for size in sys.argv[1:]] or SIZES)
