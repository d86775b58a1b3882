"""Start-up time of the command line, compared with Python importing the required libraries.

    python benchmarks/startup.py [REPETITIONS]

Prints a Markdown table of medians: of the clock, and of the processor's time, which other work on the machine changes less.
The commands take turns, so that a busy machine slows all of them alike. Bytecode is written at the first start, as an
installer does.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
BARE = "import typer, yaml, pydantic, rich"
COMMANDS = {
    f'`python -c "{BARE}"`': ["-c", BARE],
    "`verdict --help`": ["-m", "verdict_cli", "--help"],
    "`verdict validate configs/xstest.yaml`": ["-m", "verdict_cli", "validate", "configs/xstest.yaml"],
}


def processor() -> float:
    """The processor's time of all processes that have ended."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(arguments: list[str]) -> tuple[float, float]:
    """How long one start takes by the clock, and of the processor's time."""
    start, used = perf_counter(), processor()
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, check=True, env=environment)
    return perf_counter() - start, processor() - used


def main(repetitions: int) -> None:
    """Prints the table."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for _ in range(repetitions + 1):
        for name, arguments in COMMANDS.items():
            times[name].append(seconds(arguments))
    medians = {
        name: [statistics.median(each) for each in zip(*found[1:], strict=True)] for name, found in times.items()
    }
    bare = next(iter(medians.values()))
    print("| command | seconds | times the bare imports | processor s | times the bare imports |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, (clock, used) in medians.items():
        print(f"| {name} | {clock:.2f} | {clock / bare[0]:.2f} | {used:.2f} | {used / bare[1]:.2f} |")
    print(f"\nMedians of {repetitions} starts, after one that warms the file cache.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
