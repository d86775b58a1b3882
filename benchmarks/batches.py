"""Batches of a run that is killed again and again, and the memory of a large one.

    python benchmarks/batches.py [KILLS] [ROWS]

`verdict run --batch` of a judge and a verifier, three times each, against `bench/mock_batches.py` in the folder that the
environment variable VERDICT_SHARED names: 10% of the requests fail, 5% expire, and one creation in five is not acknowledged.
The first run is ended by SIGKILL at seeded random moments and started again by the same command; so is the second one, whose
directory is in an S3 that moto serves, and each other time without its copy on this machine. The third one is not disturbed, and
its memory is measured. Prints a Markdown table; leaves with 1 where a request was paid twice or a table differs from that of
ordinary calls.
"""

from __future__ import annotations

import json
import logging
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared"))
FAULTS = ("--fail-rate", "0.1", "--expire-rate", "0.05")
PIPELINE = """verdict: 1
name: batches
model: {{name: gpt-4o-mini, api_base: '{url}/v1'}}
pipeline:
- layer: [{{unit: JudgeUnit, name: judge, explanation: true, prompt: 'Rate {{source.text}}'}}]
  repeat: 3
- layer: [{{unit: JudgeUnit, name: verify, prompt: 'Check {{previous.score}} of {{source.text}}'}}]
  repeat: 3
- {{unit: MeanPoolUnit, field: score}}
"""
ORDINARY = {"latency_s", "cost_usd", "calls", "attempt", "service_tier"}
"""Columns in which batches may differ from ordinary calls."""
PORT = 8917


@dataclass(frozen=True)
class Outcome:
    """What came of one run."""

    rows: int
    kills: int
    stats: dict[str, Any]
    seconds: float
    peak_mb: float
    same_tables: bool
    stored: bool

    @property
    def is_right(self) -> bool:
        paid = self.stats["answered"] == self.stats["distinct_answered"] == 6 * self.rows
        return paid and self.stats["paid_twice"] == 0 and self.same_tables

    def cells(self) -> tuple[object, ...]:
        stats = self.stats
        return (
            "S3" if self.stored else "disk",
            f"{self.rows:,}",
            self.kills,
            stats["batches created"],
            stats.get("answers dropped", 0),
            f"{stats['requests accepted']:,}",
            f"{stats['answered']:,}",
            stats["paid_twice"],
            "yes" if self.same_tables else "NO",
            f"{self.seconds:.0f}",
            f"{self.peak_mb:.0f}",
        )


def main() -> int:
    kills, rows = ([int(text) for text in sys.argv[1:]] + [30, 20_000][len(sys.argv) - 1 :])[:2]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        outcomes = [killed(folder / "killed", 200, kills)]
        with store() as bucket:
            outcomes.append(killed(folder / "stored", 200, kills, bucket))
        if rows:
            outcomes.append(killed(folder / "large", rows, 0))
    headers = (
        "directory",
        "rows",
        "kills",
        "batches",
        "not acknowledged",
        "requests",
        "answered",
        "paid twice",
        "same tables",
        "s",
        "peak MB",
    )
    print(f"| {' | '.join(headers)} |\n|{' ---: |' * len(headers)}")
    for outcome in outcomes:
        print(f"| {' | '.join(map(str, outcome.cells()))} |")
    return 0 if all(outcome.is_right for outcome in outcomes) else 1


def killed(folder: Path, rows: int, kills: int, bucket: Any = None) -> Outcome:
    """A run of so many rows that is killed so often, in a directory on this disk or in a bucket."""
    folder.mkdir()
    place = None if bucket is None else bucket.below("run")
    (folder / "data.jsonl").write_text("".join(json.dumps({"text": f"text {row} " * 60}) + "\n" for row in range(rows)))
    draw = random.Random(7)
    dropped = ("--drop-rate", "0.2") if kills else ()
    latency = "0.5" if kills else "2"
    began = monotonic()
    with server("--latency-s", latency, *FAULTS, *dropped) as url:
        (folder / "pipeline.yaml").write_text(PIPELINE.format(url=url))
        command = [sys.executable, "-m", "verdict_cli", "run", "pipeline.yaml", "data.jsonl", "--no-cache", "--quiet"]
        done = 0
        while True:
            process = start([*command, "--batch", "--out", "batch" if place is None else place.url], folder)
            if done < kills:
                try:
                    process.wait(draw.uniform(0.6, 4.0))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    done += 1
                    if place is not None and done % 2:  # as if the next one ran on another machine
                        shutil.rmtree(folder / "cache", ignore_errors=True)
                        place.remove(place.names("lease"))
            if process.wait() == 0:
                break
        seconds = monotonic() - began
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        stats = json.load(urlopen(f"{url}/stats", timeout=60))
        start([*command, "--out", "ordinary", "--concurrency", "32"], folder).wait()
    if place is not None:
        place.get_all(place.names(), folder / "batch")
    same = all(table(folder / "batch" / name) == table(folder / "ordinary" / name) for name in ("results", "calls"))
    return Outcome(rows, done, stats, seconds, peak, same, place is not None)


@contextmanager
def store() -> Iterator[Any]:
    """A bucket of an S3 on this machine, to which the environment leads."""
    import fsspec
    from moto.server import ThreadedMotoServer

    from verdict_cli.features.object_store.run_store import RemoteFolder

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "loopback",
        "AWS_SECRET_ACCESS_KEY": "loopback",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    try:
        fsspec.filesystem("s3", use_listings_cache=False).mkdir("batches")
        yield RemoteFolder.at("s3://batches")
    finally:
        moto.stop()


def start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """A process whose calls go to no other server."""
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "", "VERDICT_CACHE_DIR": str(folder / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@contextmanager
def server(*flags: str) -> Iterator[str]:
    """The URL of a new batch server."""
    script = SHARED / "bench" / "mock_batches.py"
    process = subprocess.Popen([sys.executable, script, "--port", str(PORT), *flags], stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{PORT}"
    try:
        for _ in range(100):
            try:
                urlopen(f"{url}/stats", timeout=5).close()
                break
            except OSError:
                sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def table(path: Path) -> list[tuple[Any, ...]]:
    """The rows of a table, of calls those that succeeded, without what may differ."""
    from verdict_cli.storage.tables.reader import read_table

    rows = []
    for batch in read_table(path.with_suffix(".parquet")):
        names = [name for name in batch if name not in ORDINARY]
        failures = batch.get("failure") or [None] * len(batch[names[0]])
        rows += [tuple(batch[name][place] for name in names) for place, failure in enumerate(failures) if not failure]
    return rows


if __name__ == "__main__":
    sys.exit(main())
