"""Repeated calls of commands that are ended again and again.

    python benchmarks/kills.py [KILLS]

Each command of `CASES` works against a counting server on this machine. SIGKILL, SIGINT and SIGTERM, in turn, end it at seeded
random moments, and the same command starts it again. The servers are `bench/mock_openai.py` and `bench/mock_batches.py` in the
folder that the environment variable VERDICT_SHARED names. The last line is of a run whose directory is in an S3, moto's server
in this process, where that is installed.

Prints a Markdown table. Ends with 1 where a result differs from that of the command that nothing ended, where more calls were
repeated than SIGKILL can lose, or where a signal was not obeyed within a second.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.request import urlopen

from verdict_cli.features.object_store.run_store import RemoteFolder

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared"))
LATENCY_S = 0.04
UNCOMMITTED_S = 0.02
"""Of how long a kill may lose calls that have ended: from an answer to the end of its commit."""
END_S = 1.0
"""Seconds after which a signal has ended a command."""
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
ANSWERS = ("mock_openai.py", "--latency-ms", str(int(LATENCY_S * 1000)), "--score", "hash")
BATCHES = ("mock_batches.py", "--latency-s", "20")
HEAD = """verdict: 1
name: kills
model: {{name: openai/loopback, api_base: '{url}', cost: {{input_per_million: 1, output_per_million: 2}}, max_tokens: 100}}
"""
TWO_UNITS = """pipeline:
- {{unit: CoTUnit, name: think, prompt: 'Think of {{source.text}}'}}
- {{unit: JudgeUnit, name: judge, prompt: 'Rate {{source.text}} after {{previous.thinking}}'}}
"""
EACH = """pipeline:
- each: source.texts
  as: text
  max: 100000
  block:
  - {{unit: CoTUnit, name: think, prompt: 'Think of {{text}}'}}
  - {{unit: JudgeUnit, name: judge, prompt: 'Rate {{text}} after {{previous.thinking}}'}}
- {{unit: MeanPoolUnit, field: score, empty: 0}}
"""
MEASURED = (
    f"evaluate: {{{{score: {{{{prediction: output.score, target: source.number}}}}}}}}\n{TWO_UNITS}"
)
PAIR = """pipeline:
- {{unit: PairwiseJudgeUnit, name: judge, prompt: 'Which is better? A: {{source.A}} B: {{source.B}}'}}
"""


@dataclass(frozen=True)
class Case:
    """A command that is ended: its name, the words before and after its pipeline and data, and what it needs.

    ``rows`` are for each kill. ``spared`` are columns that may differ: a call that was lost may have been one that failed, or its reply is in the cache.
    ``each``: all texts are the entries of one row, between rows that have none. ``moments_s`` is the longest time after
    which the command is ended, where the server's count of requests says nothing.
    """

    name: str
    command: tuple[str, ...] = ("run",)
    more: tuple[str, ...] = ("--no-cache",)
    pipeline: str = TWO_UNITS
    server: tuple[str, ...] = ANSWERS
    rows: int = 50
    each: bool = False
    spared: tuple[str, ...] = ()
    moments_s: float = 0.0
    store: bool = False


CASES = (
    Case("run --no-cache"),
    Case("run, with the cache", more=(), spared=("cost_usd",)),
    Case("run, all calls in one row", pipeline=EACH, each=True),
    Case(
        "run, calls that fail first",
        server=(*ANSWERS, "--fail-first", "1", "--error-rate", "500=0.5,malformed=0.5"),
        rows=10,
        spared=("calls", "cost_usd"),
    ),
    Case("run --budget", more=("--no-cache", "--budget", "100")),
    Case("run --batch", more=("--no-cache", "--batch"), server=BATCHES, rows=10, moments_s=3.0),
    Case(
        "sweep",
        ("sweep",),
        ("--vary", "model.temperature=0,0.5,1"),
        pipeline=MEASURED,
        rows=10,
        spared=("cost_usd",),
    ),
    Case(
        "audit",
        ("audit",),
        ("--text", "text", "--verdict", "output.score"),
        rows=3,
        spared=("cost_usd",),
    ),
    Case(
        "rank",
        ("rank",),
        ("--field", "text", "--as", "A,B", "--tournament", "round-robin"),
        pipeline=PAIR,
        rows=1,
    ),
    Case("run --out s3://…", store=True),
)


@dataclass(frozen=True)
class Outcome:
    """What came of one case. ``repeated`` are requests beyond those of the command that nothing ended.

    ``bound`` is what SIGKILL can have lost; ``slowest_s`` the longest end after another signal.
    """

    kills: int
    calls: int
    repeated: int
    bound: int
    slowest_s: float
    same: bool

    @property
    def held(self) -> bool:
        """Whether nothing was lost."""
        return self.same and self.repeated <= self.bound and self.slowest_s <= END_S


class Command:
    """The command of a case in a folder, against a server."""

    def __init__(self, case: Case, folder: Path, url: str, concurrency: int, out: str) -> None:
        folder.mkdir()
        self._folder, self._url, self._case = folder, url, case
        (folder / "pipeline.yaml").write_text((HEAD + case.pipeline).format(url=url))
        self._words = [
            *case.command,
            "pipeline.yaml",
            "data.jsonl",
            "--concurrency",
            str(concurrency),
        ]
        self._words += ["--quiet", *case.more]
        self._words += [] if case.command[0] == "rank" else ["--out", out]

    def start(self) -> subprocess.Popen[bytes]:
        """Start the command."""
        cache = {"VERDICT_CACHE_DIR": str(self._folder / "cache"), "PYTHONPATH": str(ROOT)}
        with (self._folder / "stdout").open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "verdict_cli", *self._words],
                cwd=self._folder,
                env=os.environ | cache,
                stdout=output,
                stderr=subprocess.DEVNULL,
            )

    def requests(self) -> int:
        """How many requests the server has had, or has answered in batches."""
        counted = stats(self._url)
        return int(counted["requests"] if "requests" in counted else counted["answered"])

    def outcome(self) -> Any:
        """What the command has written: its tables, and what it counted; of one that writes none, what it printed."""
        from verdict_cli.storage.tables.reader import read_table

        tables = {}
        for path in sorted(self._folder.rglob("results.parquet")):
            columns = {
                name: values
                for batch in read_table(path)
                for name, values in batch.items()
                if name not in self._case.spared
            }
            facts = json.loads((path.with_name("run.json")).read_text())
            counted = {name: facts[name] for name in ("status", "rows", "done", "failed")}
            for name in {"calls", "cost_usd"} - {*self._case.spared}:
                counted[name] = round(facts[name], 9)
            tables[str(path.relative_to(self._folder))] = columns, counted
        return tables or _ranking((self._folder / "stdout").read_text())


def _ranking(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if "calls" not in line]


def ended(
    case: Case,
    folder: Path,
    urls: tuple[str, str],
    *,
    kills: int,
    concurrency: int,
    store: str = "",
) -> Outcome:
    """Run the case's command undisturbed against the first server, and ended so many times against the second."""
    draw = random.Random(kills)
    whole = Command(case, folder / "whole", urls[0], concurrency, "out")
    broken = Command(
        case, folder / "broken", urls[1], concurrency, f"{store}/out" if store else "out"
    )
    for name in ("whole", "broken"):
        _write_data(folder / name / "data.jsonl", case, kills)
    if whole.start().wait():
        raise SystemExit(f"{case.name}: the undisturbed command failed")
    calls = whole.requests()
    numbers, seconds = [], []
    for number in islice(cycle(SIGNALS), kills):
        before = broken.requests()
        process = broken.start()
        if case.moments_s:
            sleep(draw.random() * case.moments_s)
        else:
            _wait(process, broken, before + draw.randrange(max(1, calls // kills)))
            sleep(draw.random() * 2 * LATENCY_S)
        seconds.append(_end(process, number))
        is_done = process.wait() == 0
        numbers.append(number)
        if is_done:
            break
    if broken.start().wait():
        raise SystemExit(f"{case.name}: the command that resumes failed")
    for name in ("results.parquet", "run.json") if store else ():
        (folder / "broken" / "out").mkdir(exist_ok=True)
        RemoteFolder.at(f"{store}/out").get(name, folder / "broken" / "out" / name)
    return Outcome(
        kills=len(numbers),
        calls=calls,
        repeated=broken.requests() - calls,
        bound=round(numbers.count(signal.SIGKILL) * concurrency * (1 + UNCOMMITTED_S / LATENCY_S)),
        slowest_s=max(seconds),
        same=broken.outcome() == whole.outcome(),
    )


def _end(process: subprocess.Popen[bytes], number: signal.Signals) -> float:
    """Send the signal; the seconds until the end, without those in which the machine had no processor free for it."""
    if process.poll() is not None:
        return 0.0
    start = monotonic() - _queued_s(process.pid)
    process.send_signal(number)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return monotonic() - _queued_s(process.pid) - start


def _queued_s(pid: int) -> float:
    """How long a process has waited for a processor, 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()[1]) / 1e9
    except OSError:
        return 0.0


def _write_data(path: Path, case: Case, kills: int) -> None:
    texts = [f"text {n}" for n in range(case.rows * kills)]
    rows: list[dict[str, Any]] = [{"text": text, "number": len(text) % 3 + 1} for text in texts]
    if case.each:
        rows = [{"texts": []}, {"texts": texts}, {"texts": []}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def stats(url: str) -> dict[str, Any]:
    """What the server has counted."""
    with urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        return dict(json.load(answer))


def _wait(process: subprocess.Popen[bytes], command: Command, requests: int) -> None:
    """Return once the server has counted as many, or the process has ended."""
    while command.requests() < requests and process.poll() is None:
        sleep(0.002)


@contextmanager
def _servers(command: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    ports = _free_port(), _free_port()
    script = [sys.executable, str(SHARED / "bench" / command[0]), *command[1:], "--port"]
    processes = [
        subprocess.Popen([*script, str(port)], stdout=subprocess.PIPE, text=True) for port in ports
    ]
    for process in processes:
        if process.stdout is not None:
            process.stdout.readline()  # it listens
    try:
        yield f"http://127.0.0.1:{ports[0]}/v1", f"http://127.0.0.1:{ports[1]}/v1"
    finally:
        for process in processes:
            process.terminate()
            process.communicate()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def _store() -> Iterator[str]:
    """The URL of a bucket, and the environment that leads there."""
    import fsspec
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "loopback", "AWS_SECRET_ACCESS_KEY": "loopback"}
    os.environ |= keys | {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        fsspec.filesystem("s3").mkdir("kills")
        yield "s3://kills"
    finally:
        server.stop()


def main(kills: int, names: list[str]) -> int:
    """Print the table."""
    os.environ.setdefault("OPENAI_API_KEY", "sk-loopback")
    # A shell has what it starts in the background ignore SIGINT, and its children too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print("| command | ends | calls | repeated | at most | slowest end, s | same result |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    held = True
    has_store = all(find_spec(name) for name in ("s3fs", "moto", "flask", "flask_cors"))
    for case in CASES:
        if (case.store and not has_store) or (names and case.name not in names):
            continue
        stored: AbstractContextManager[str] = _store() if case.store else nullcontext("")
        with (
            tempfile.TemporaryDirectory() as folder,
            _servers(case.server) as urls,
            stored as store,
        ):
            found = ended(case, Path(folder), urls, kills=kills, concurrency=16, store=store)
        held &= found.held
        print(
            f"| {case.name} | {found.kills} | {found.calls:,} | {found.repeated} | {found.bound} | "
            f"{found.slowest_s:.2f} | {'yes' if found.same else 'NO'} |",
            flush=True,
        )
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 40, sys.argv[2:]))
