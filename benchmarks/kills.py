"""Repeated calls of a run that is killed again and again.

    python benchmarks/kills.py [KILLS]

`verdict run` against a counting server on this machine, ended by SIGKILL at seeded random moments and started again by the
same command. The server is `bench/mock_openai.py` in the folder that the environment variable VERDICT_SHARED names. The last
line is of a run whose directory is in an S3, moto's server in this process, where that is installed. Prints a Markdown table; leaves with 1 where the table differs from that of an undisturbed run or too many calls were repeated.
"""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import sleep
from typing import Any
from urllib.request import urlopen

from verdict_cli.features.object_store.run_store import RemoteFolder

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared"))
LATENCY_S = 0.04
UNCOMMITTED_S = 0.02 + 0.01
"""What a commit collects, and the time that it takes."""
SERVER = ("--latency-ms", str(int(LATENCY_S * 1000)), "--score", "hash")
PIPELINE = """verdict: 1
name: kills
model: {{name: openai/loopback, api_base: '{url}'}}
pipeline:
- {{unit: CoTUnit, name: think, prompt: 'Think of {{source.text}}'}}
- {{unit: JudgeUnit, name: judge, prompt: 'Rate {{source.text}} after {{previous.thinking}}'}}
"""
ONE_ROW = "--no-cache, all calls in one row"
EACH = """verdict: 1
name: kills
model: {{name: openai/loopback, api_base: '{url}'}}
pipeline:
- each: source.texts
  as: text
  max: 100000
  block:
  - {{unit: CoTUnit, name: think, prompt: 'Think of {{text}}'}}
  - {{unit: JudgeUnit, name: judge, prompt: 'Rate {{text}} after {{previous.thinking}}'}}
- {{unit: MeanPoolUnit, field: score, empty: 0}}
"""


@dataclass(frozen=True)
class Counts:
    """What came of one run: ``abandoned`` are the requests that the server was still answering at a kill."""

    kills: int
    calls: int
    requests: int
    abandoned: int
    bound: int
    same_table: bool

    @property
    def repeated(self) -> int:
        """Requests beyond one for each call."""
        return self.requests - self.calls

    @property
    def held(self) -> bool:
        """No more calls were repeated than can have been in flight, and nothing is missing in the table."""
        return self.same_table and self.repeated <= self.bound


def killed(
    folder: Path,
    urls: tuple[str, str],
    *,
    kills: int,
    rows: int,
    concurrency: int,
    flags: Sequence[str] = (),
    store: str = "",
    each: bool = False,
) -> Counts:
    """Runs undisturbed against the first server, and killed so many times against the second, which it reads out.

    A kill loses the calls in flight and those that are not committed yet.
    With ``store``, the URL of a folder, the killed run's directory is there. With ``each``, all texts are the entries of one
    row, between rows that have none.
    """
    draw = random.Random(kills)
    data = folder / "data.jsonl"
    texts = [f"text {n}" for n in range(rows)]
    lines = (
        [{"texts": []}, {"texts": texts}, {"texts": []}]
        if each
        else [{"text": text} for text in texts]
    )
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = ["--concurrency", str(concurrency), "--quiet", *flags]
    for name, url in zip(("whole", "killed"), urls, strict=True):
        (folder / f"{name}.yaml").write_text((EACH if each else PIPELINE).format(url=url))
    whole = _started(folder, "whole", data, settings, "whole")
    done = 0
    while True:
        before = stats(urls[1])["requests"]
        process = _started(
            folder, "killed", data, settings, f"{store}/killed" if store else "killed"
        )
        if done < kills:
            _wait(process, urls[1], before + draw.randrange(2 * rows // kills))
            sleep(draw.random() * 2 * LATENCY_S)
            process.kill()
        process.communicate()
        if process.returncode == 0:
            break
        done += 1
    counted = stats(urls[1])
    if whole.wait():
        raise SystemExit(f"the undisturbed run ended with {whole.returncode}")
    if store:
        (folder / "killed").mkdir()
        RemoteFolder.at(f"{store}/killed").get(
            "results.parquet", folder / "killed" / "results.parquet"
        )
    return Counts(
        kills=done,
        calls=counted["distinct_bodies"],
        requests=counted["requests"],
        abandoned=counted["abandoned_by_client"],
        bound=round(done * concurrency * (1 + UNCOMMITTED_S / LATENCY_S)),
        same_table=_table(folder / "killed") == _table(folder / "whole"),
    )


def stats(url: str) -> dict[str, Any]:
    """What the server has counted."""
    with urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        return dict(json.load(answer))


def _started(
    folder: Path, name: str, data: Path, settings: Sequence[str], out: str
) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "verdict_cli",
        "run",
        f"{name}.yaml",
        str(data),
        "--out",
        out,
        *settings,
    ]
    cache = {"VERDICT_CACHE_DIR": str(folder / f"cache-{name}"), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=folder, env=os.environ | cache, stdout=subprocess.DEVNULL)


def _wait(process: subprocess.Popen[bytes], url: str, requests: int) -> None:
    """Returns once the server has counted as many, or the process has ended."""
    while stats(url)["requests"] < requests and process.poll() is None:
        sleep(0.002)


def _table(directory: Path) -> list[dict[str, list[Any]]]:
    from verdict_cli.storage.tables.reader import read_table

    return list(read_table(directory / "results.parquet"))


@contextmanager
def _servers(count: int) -> Iterator[list[str]]:
    script = SHARED / "bench" / "mock_openai.py"
    command = [sys.executable, str(script), "--port", "0", *SERVER]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    try:
        yield [
            process.stdout.readline().rpartition(" ")[2].strip()
            for process in processes
            if process.stdout
        ]
    finally:
        for process in processes:
            process.terminate()
            process.communicate()


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


def main(kills: int) -> int:
    """Prints the table."""
    print(
        "| run | kills | calls | repeated | of them in flight at the server | at most | same table |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    held = True
    cases: list[tuple[str, tuple[str, ...], AbstractContextManager[str]]]
    cases = [
        ("--no-cache", ("--no-cache",), nullcontext("")),
        ("with the cache", (), nullcontext("")),
        (ONE_ROW, ("--no-cache",), nullcontext("")),
    ]
    if all(find_spec(name) for name in ("s3fs", "moto", "flask", "flask_cors")):
        cases.append(("--no-cache --out s3://…", ("--no-cache",), _store()))
    for label, flags, stored in cases:
        with tempfile.TemporaryDirectory() as name, _servers(2) as (whole, broken), stored as store:
            found = killed(
                Path(name),
                (whole, broken),
                kills=kills,
                rows=50 * kills,
                concurrency=16,
                flags=flags,
                store=store,
                each=label == ONE_ROW,
            )
        held &= found.held
        print(
            f"| {label} | {found.kills} | {found.calls:,} | {found.repeated} | "
            f"{found.abandoned} | {found.bound} | {'yes' if found.same_table else 'NO'} |",
            flush=True,
        )
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30))
