"""Start-up time of the command line, compared with Python importing the required libraries.

    python benchmarks/startup.py [REPETITIONS] [--list]

Prints Markdown tables of medians: of the clock, and of the processor's time, which other work on the machine changes less; and
of the least processor's time, which it changes least. The second table is `verdict run` of one row against a server on loopback
that answers at once, beside Python importing the modules of other packages that this run imports, as `python -X importtime`
lists them (`--list` prints them). The commands take turns, so that a busy machine slows all of them alike. Bytecode is written
at the first start, as an installer does.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
BARE = "import typer, yaml, pydantic, rich"
COMMANDS = {
    f'`python -c "{BARE}"`': ["-c", BARE],
    "`verdict --help`": ["-m", "verdict_cli", "--help"],
    "`verdict validate configs/xstest.yaml`": [
        "-m",
        "verdict_cli",
        "validate",
        str(ROOT / "configs" / "xstest.yaml"),
    ],
}
PIPELINE = """verdict: 1
name: one
model: {{name: openai/gpt-4o-mini, api_base: "http://127.0.0.1:{port}/v1", cache: false}}
pipeline:
  - {{unit: JudgeUnit, prompt: "Rate {{source.text}}", scale: {{type: discrete, range: [1, 5]}}}}
"""
IMPORTS = """
import importlib
for name in {names}:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
"""
"""Some modules are looked for and not there."""
_IMPORTED = re.compile(r"import time: +\d+ \| +\d+ \| +(\S+)")


def processor() -> float:
    """The processor's time of all processes that have ended."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(arguments: Sequence[str], folder: Path) -> tuple[float, float]:
    """How long one start takes by the clock, and of the processor's time."""
    start, used = perf_counter(), processor()
    started(arguments, folder)
    return perf_counter() - start, processor() - used


def started(arguments: Sequence[str], folder: Path) -> str:
    """What the command writes to standard error."""
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "",
        "OPENAI_API_KEY": "none",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, env=environment
    )
    return done.stderr


def one_row(folder: Path, port: int) -> dict[str, list[str]]:
    """The run of one row, after the imports that it makes of other packages."""
    (folder / "one.yaml").write_text(PIPELINE.format(port=port))
    (folder / "one.jsonl").write_text('{"text": "text"}\n')
    run = [
        "-m",
        "verdict_cli",
        "run",
        "one.yaml",
        "one.jsonl",
        "--fresh",
        "--out",
        "out",
        "--quiet",
    ]
    found = _IMPORTED.findall(started(["-X", "importtime", *run], folder))
    names = [
        name
        for name in dict.fromkeys(found)
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "verdict_cli"}
    ]
    assert not any(name.startswith("litellm") for name in names)
    if "--list" in sys.argv[1:]:
        print(*names, sep="\n")
    return {
        f"imports of {len(names)} modules of other packages": ["-c", IMPORTS.format(names=names)],
        "`verdict run` of one row": run,
    }


def table(commands: Mapping[str, Sequence[str]], repetitions: int, folder: Path) -> None:
    """Prints how long the commands take, and how often as long as the first of them."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(repetitions + 1):
        for name, arguments in commands.items():
            times[name].append(seconds(arguments, folder))
    figures = {}
    for name, found in times.items():
        clock, used = zip(*found[1:], strict=True)
        figures[name] = statistics.median(clock), statistics.median(used), min(used)
    bare = next(iter(figures.values()))
    print(
        "| command | seconds | times the first | processor s | times the first | least processor s | times the first |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, found in figures.items():
        print(
            f"| {name} |"
            + "".join(
                f" {each:.2f} | {each / first:.2f} |"
                for each, first in zip(found, bare, strict=True)
            )
        )


def main(repetitions: int) -> None:
    """Prints the tables."""
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "benchmarks" / "loopback.py"), "--latency-s", "0"],
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            table(COMMANDS, repetitions, folder)
            print()
            table(one_row(folder, int(server.stdout.readline())), repetitions, folder)
    finally:
        server.terminate()
        server.wait()
    print(f"\n{repetitions} starts of each, after one that warms the file cache.")


if __name__ == "__main__":
    main(next((int(text) for text in sys.argv[1:] if text.isdecimal()), 9))
