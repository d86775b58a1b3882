"""How long the command line takes to start, beside Python with the libraries that it cannot do without.

    python benchmarks/startup.py [REPETITIONS]

Prints a Markdown table of medians. The commands take turns, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
BARE = "import typer, yaml, pydantic, rich"
COMMANDS = {
    f'`python -c "{BARE}"`': ["-c", BARE],
    "`verdict --help`": ["-m", "verdict_cli", "--help"],
    "`verdict validate configs/xstest.yaml`": ["-m", "verdict_cli", "validate", "configs/xstest.yaml"],
}


def seconds(arguments: list[str]) -> float:
    """How long one start takes."""
    start = perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return perf_counter() - start


def main(repetitions: int) -> None:
    """Prints the table."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(repetitions + 1):
        for name, arguments in COMMANDS.items():
            times[name].append(seconds(arguments))
    medians = {name: statistics.median(found[1:]) for name, found in times.items()}
    bare = next(iter(medians.values()))
    print("| command | seconds | times the bare imports |\n| --- | ---: | ---: |")
    for name, median in medians.items():
        print(f"| {name} | {median:.2f} | {median / bare:.2f} |")
    print(f"\nMedians of {repetitions} starts, after one that warms the file cache.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
