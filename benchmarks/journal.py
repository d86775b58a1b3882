"""Journal overhead: `verdict run` with the journal and with one that stores nothing, alternating.

    python benchmarks/journal.py [REPETITIONS]

Each run is a separate process with the same set-up. In the runs "without", the journal stores nothing and rows get no key. Against `baseline/lexical`, whose calls are not stored, and against the loopback server of the shared
folder (VERDICT_SHARED, else `../shared`) that answers immediately or after 200 ms, without the cache. Prints a Markdown table of
medians, and the share of the throughput that the journal takes.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calls import ONE, against
from rows import PIPELINE, Measured, make, measure

CASES = (
    ("baseline/lexical", PIPELINE, None, 30_000, ()),
    ("server, immediate, 512 concurrent calls", ONE, 0.0, 10_000, ("--no-cache", "--concurrency", "512")),
    ("server, 200 ms, 128 concurrent calls", ONE, 0.2, 3_000, ("--no-cache", "--concurrency", "128")),
)


class Forgetful:
    """A journal that keeps nothing."""

    damaged = 0
    resumed = False

    @classmethod
    def open(cls, path: Path, nodes: Mapping[str, str], **_: Any) -> Forgetful:
        """One for any run."""
        return cls()

    def __len__(self) -> int:
        return 0

    def recall(self, *_: Any) -> None:
        """Nothing."""

    def has(self, *_: Any) -> bool:
        """Never."""
        return False

    def append(self, _: Any) -> None:
        """Keeps nothing."""

    async def flush(self) -> None:
        """There is nothing to write."""

    def close(self) -> None:
        """There is nothing to close."""


def without(arguments: list[str]) -> None:
    """The command line, whose runs have no journal."""
    from verdict_cli.cli.app import main as command_line
    from verdict_cli.run import open_parts, run_directory
    from verdict_cli.storage.datasets import read

    run_directory.Journal = Forgetful  # type: ignore[misc,assignment]
    open_parts.unfinished_parts = lambda job, *_: [(0, None, read.stream_rows(job.dataset, job.data.selection))]
    read.content_key = lambda _: ""  # type: ignore[assignment]
    sys.argv = ["verdict", *arguments]
    command_line()


def main(repetitions: int) -> None:
    """Prints the table."""
    print("| calls | rows | s with | s without | share | CPU s with | CPU s without | share |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for label, text, latency_s, rows, more in CASES:
        with against(latency_s), tempfile.TemporaryDirectory() as name:
            config, data = Path(name, "pipeline.yaml"), make(Path(name), rows)
            config.write_text(text, encoding="utf-8")
            programs = (["-m", "verdict_cli"], [__file__, "without"])
            runs: list[list[Measured]] = [[], []]
            for turn in range(2 * repetitions):
                way = (turn + turn // 2) % 2  # with, without, without, with: what else runs favours neither
                runs[way].append(measure(Path(name), config, data, *more, program=programs[way]))
        cells = [label, f"{rows:,}"]
        for what in ("seconds", "cpu_s"):
            kept, bare = (statistics.median(getattr(run, what) for run in way) for way in runs)
            cells += [f"{kept:.2f}", f"{bare:.2f}", f"{1 - bare / kept:+.1%}"]
        print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["without"]:
        without(sys.argv[2:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
