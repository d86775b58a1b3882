"""Gain from several processes on one machine: a run in one process, and its two halves in two concurrent ones.

    python benchmarks/processes.py [REPETITIONS]

Against `baseline/lexical` (no network: all is the process's own work), and against the loopback server of the shared folder
(VERDICT_SHARED, else `../shared`) that answers immediately, without the cache, 512 concurrent calls in total. Prints a Markdown table of
medians: seconds until the last of the processes has ended, and the CPU seconds of all of them, each with a start and a
report of its own.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from calls import ONE, against
from rows import PIPELINE, make, measure

CASES = (
    ("baseline/lexical", PIPELINE, None, 20_000, 64),
    ("server that answers immediately", ONE, 0.0, 8_000, 512),
)


def at_once(folder: Path, config: Path, data: list[Path], concurrency: int) -> tuple[float, float]:
    """Seconds and CPU seconds of one process for each file, all at the same time."""
    more = ("--no-cache", "--concurrency", str(concurrency // len(data)))
    places = [folder / f"{len(data)}-{number}" for number in range(len(data))]
    for place in places:
        place.mkdir(exist_ok=True)
    with ThreadPoolExecutor(len(data)) as threads:
        runs = list(
            threads.map(lambda place, file: measure(place, config, file, *more), places, data)
        )
    return max(run.seconds for run in runs), sum(run.cpu_s for run in runs)


def main(repetitions: int) -> None:
    """Prints the table."""
    print("| calls | rows | s, one | s, two | CPU s, one | CPU s, two |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for label, text, latency_s, rows, concurrency in CASES:
        with against(latency_s), tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            config = folder / "pipeline.yaml"
            config.write_text(text, encoding="utf-8")
            whole = make(folder, rows)
            lines = whole.read_text(encoding="utf-8").splitlines(keepends=True)
            halves = [folder / "first.jsonl", folder / "second.jsonl"]
            for half, some in zip(halves, (lines[: rows // 2], lines[rows // 2 :]), strict=True):
                half.write_text("".join(some), encoding="utf-8")
            ways: tuple[list[tuple[float, float]], ...] = ([], [])
            for _ in range(repetitions):
                for way, files in zip(ways, ([whole], halves), strict=True):
                    way.append(at_once(folder, config, files, concurrency))
        cells = [statistics.median(run[what] for run in way) for what in (0, 1) for way in ways]
        print(
            "|",
            " | ".join([label, f"{rows:,}", *(f"{cell:.1f}" for cell in cells)]),
            "|",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
