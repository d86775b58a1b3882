"""Runs on Ray's workers: the table of the local engine, limits and budget of the whole run, and nothing lost with a worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import Any
from urllib.request import urlopen

import pytest

from verdict_cli.storage.tables.reader import read_table

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install '.[ray]'"),
]

ROOT = Path(__file__).resolve().parents[3]
ROWS = 150
ENTRIES = """
- {unit: JudgeUnit, name: word, each: source.text.split(), as: word, scale: boolean, when: "word != '7'", prompt: 'Is {word} in {source.text}?'}
- {unit: MeanPoolUnit, empty: 0}
"""
STEPS = """
- {unit: CoTUnit, name: rule, prompt: 'Say how to rate', pin: true}
- {unit: CoTUnit, name: think, prompt: 'Think of {source.text} by {previous.thinking}'}
- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text} after {previous.thinking}'}
"""


@dataclass
class Cluster:
    """A Ray of two nodes on this machine, and commands that use it."""

    address: str
    head: subprocess.Popen[str]
    environ: dict[str, str]

    def start(
        self,
        folder: Path,
        url: str,
        *flags: str,
        out: str = "rayed",
        to: str = "",
        steps: str = STEPS,
        rows: int = ROWS,
    ) -> subprocess.Popen[str]:
        head = f"model: {{name: openai/loopback, api_base: '{url}', cache: false, retries: 3}}"
        (folder / f"{out}.yaml").write_text(f"verdict: 1\nname: t\n{head}\npipeline:{steps}")
        data = folder / "data.jsonl"
        if not data.exists():
            data.write_text("".join(f'{{"text": "text {place % (rows - 10)}"}}\n' for place in range(rows)))
        words = ["run", f"{out}.yaml", data.name, "--out", to or out, "--concurrency", "8", "--quiet", *flags]
        command = [sys.executable, "-m", "verdict_cli", *words]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=folder, env=self.environ, text=True, **pipes)

    @property
    def flags(self) -> tuple[str, ...]:
        return "--engine", "ray", "--ray-address", self.address

    def lose_a_node(self) -> None:
        """Kills a node with its workers."""
        assert self.head.stdin is not None
        assert self.head.stdout is not None
        self.head.stdin.write("lose\n")
        self.head.stdin.flush()
        assert self.head.stdout.readline() == "lost\n"

    def workers(self, doing: bytes = b"ray::judge_part") -> list[int]:
        """The processes that judge a part at this moment, or do something else."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if path.read_bytes().startswith(doing) and self._mine(path.parent):
                    found.append(int(path.parent.name))
            except OSError:
                continue
        return found

    def _mine(self, process: Path) -> bool:
        while process.name not in {"0", "1"}:
            if process.name == str(self.head.pid):
                return True
            process = process.with_name((process / "stat").read_text().rpartition(")")[2].split()[1])
        return False


@pytest.fixture(scope="module")
def cluster(store_server: Any) -> Iterator[Cluster]:
    environ = {
        **os.environ,
        **store_server.environ,
        "PYTHONPATH": str(ROOT),
        "OPENAI_API_KEY": "sk-loopback",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": token_hex(32),  # this cluster's own: nobody else on the machine gets at it
    }
    command = [sys.executable, str(Path(__file__).with_name("ray_head.py"))]
    head = subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert head.stdin is not None
    assert head.stdout is not None
    try:
        yield Cluster(head.stdout.readline().strip(), head, environ)
    finally:
        head.communicate("")


def stats(url: str) -> dict[str, Any]:
    """What the server has counted."""
    with urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        return dict(json.load(answer))


def wait_for(process: subprocess.Popen[str], url: str, requests: int) -> None:
    end = monotonic() + 60
    while stats(url)["requests"] < requests and monotonic() < end:
        assert process.poll() is None, process.communicate()
        sleep(0.005)


def ended(process: subprocess.Popen[str], code: int = 0) -> str:
    _, said = process.communicate(timeout=120)
    assert process.returncode == code, said
    return said


def facts(folder: Path, out: str = "rayed") -> dict[str, Any]:
    return dict(json.loads((folder / out / "run.json").read_text()))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="workers are found by /proc")
def test_a_killed_worker_loses_no_finished_call_and_the_table_is_that_of_the_local_engine(
    cluster: Cluster, loopback: Any, tmp_path: Path
) -> None:
    whole, broken = (loopback.start("--latency-ms", "40", "--score", "hash") for _ in range(2))
    local = cluster.start(tmp_path, whole, out="whole")
    run = cluster.start(tmp_path, broken, *cluster.flags)
    wait_for(run, broken, ROWS // 2)
    victims = cluster.workers()
    os.kill(victims[0], signal.SIGKILL)
    ended(local)
    ended(run)
    counted, once = stats(broken), stats(whole)
    assert counted["distinct_bodies"] == once["distinct_bodies"]
    assert counted["requests"] - once["requests"] <= 8
    assert counted["max_concurrency"] <= 8 + 8  # the server still answers what the killed worker has asked
    table = [(tmp_path / out / "results.parquet").read_bytes() for out in ("whole", "rayed")]
    assert table[0] == table[1]
    assert not (tmp_path / "rayed" / "parts").exists()
    assert (facts(tmp_path)["status"], facts(tmp_path)["done"]) == ("finished", ROWS)


def test_entries_and_conditions_give_the_table_of_the_local_engine(
    cluster: Cluster, loopback: Any, tmp_path: Path
) -> None:
    url = loopback.start("--latency-ms", "5")
    ended(cluster.start(tmp_path, url, out="whole", steps=ENTRIES))
    ended(cluster.start(tmp_path, url, *cluster.flags, steps=ENTRIES))
    table = [(tmp_path / out / "results.parquet").read_bytes() for out in ("whole", "rayed")]
    assert table[0] == table[1]
    assert facts(tmp_path)["done"] == ROWS


def test_a_run_stopped_by_ctrl_c_goes_on_by_either_engine_and_its_budget_is_that_of_all_workers_together(
    cluster: Cluster, loopback: Any, tmp_path: Path
) -> None:
    url = loopback.start("--latency-ms", "40", "--score", "hash")
    price = "--set=model.cost={input_per_million: 1000, output_per_million: 1000}"
    run = cluster.start(tmp_path, url, *cluster.flags, price)
    wait_for(run, url, ROWS)
    run.send_signal(signal.SIGINT)
    said = ended(run, 130)
    assert "the same command resumes the run" in said
    assert "Traceback" not in said
    first = facts(tmp_path)
    (batch,) = read_table(tmp_path / "rayed" / "results.parquet", ["row"])
    assert (first["status"], len(batch["row"])) == ("interrupted", first["done"])
    assert 0 < first["done"] < ROWS
    asked = stats(url)["requests"]
    assert asked >= first["calls"]
    budget = first["cost_usd"] / first["calls"] * (asked + 20)
    assert "USD is spent" in ended(cluster.start(tmp_path, url, *cluster.flags, price, "--budget", f"{budget}"), 3)
    assert asked + 10 <= stats(url)["requests"] <= asked + 40
    ended(cluster.start(tmp_path, url, price))
    assert facts(tmp_path)["calls"] == stats(url)["requests"] == 2 * ROWS + 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="workers are found by /proc")
@pytest.mark.parametrize("after", ["ray", "local"])
def test_a_killed_command_loses_no_finished_call_and_goes_on_by_either_engine(
    after: str, cluster: Cluster, loopback: Any, tmp_path: Path
) -> None:
    url = loopback.start("--latency-ms", "40", "--score", "hash")
    run = cluster.start(tmp_path, url, *cluster.flags)
    wait_for(run, url, ROWS)
    run.kill()
    run.communicate()
    ended(cluster.start(tmp_path, url, *(cluster.flags if after == "ray" else ())))
    assert 2 * ROWS + 1 <= stats(url)["requests"] <= 2 * ROWS + 1 + 8
    assert facts(tmp_path)["done"] == ROWS
    assert not (tmp_path / "rayed" / "parts").exists()
    assert cluster.workers() == []


def test_what_failed_is_asked_again_and_nothing_else(cluster: Cluster, loopback: Any, tmp_path: Path) -> None:
    url = loopback.start("--latency-ms", "5", "--error-rate", "malformed=0.2", "--seed", "5")
    flags = (*cluster.flags, "--set=model.retries=0")
    ended(cluster.start(tmp_path, url, *flags), 3)
    first, asked = facts(tmp_path), stats(url)["requests"]
    assert (first["status"], first["done"]) == ("finished", ROWS)
    assert first["failed"] > ROWS / 10
    cluster.start(tmp_path, url, *flags, "--retry-failed").communicate(timeout=60)
    second = facts(tmp_path)
    assert first["failed"] <= stats(url)["requests"] - asked <= 2 * first["failed"]
    assert second["failed"] < first["failed"]


def test_a_lost_node_loses_no_finished_call(cluster: Cluster, loopback: Any, tmp_path: Path) -> None:
    whole, broken = (loopback.start("--latency-ms", "80", "--score", "hash") for _ in range(2))
    local = cluster.start(tmp_path, whole, out="whole")
    run = cluster.start(tmp_path, broken, *cluster.flags)
    wait_for(run, broken, ROWS // 2)
    cluster.lose_a_node()
    ended(local)
    ended(run)
    assert 2 * ROWS + 1 <= stats(broken)["requests"] <= 2 * ROWS + 1 + 8
    table = [(tmp_path / out / "results.parquet").read_bytes() for out in ("whole", "rayed")]
    assert table[0] == table[1]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="workers are found by /proc")
def test_parts_journalled_in_a_store_outlive_their_worker_and_the_command(
    cluster: Cluster, loopback: Any, s3: Any, tmp_path: Path
) -> None:
    whole, broken = (loopback.start("--latency-ms", "80", "--score", "hash") for _ in range(2))
    place = s3.bucket("rayed").below("run")
    ended(cluster.start(tmp_path, whole, out="whole"))
    command = (tmp_path, broken, *cluster.flags)
    run = cluster.start(*command, to=place.url)
    wait_for(run, broken, ROWS // 2)
    os.kill(cluster.workers()[0], signal.SIGKILL)
    wait_for(run, broken, ROWS)
    run.kill()
    run.communicate()
    ended(cluster.start(*command, to=place.url))
    assert 2 * ROWS + 1 <= stats(broken)["requests"] <= 2 * ROWS + 1 + 2 * 8
    assert not [name for name in place.names() if name.partition("/")[0] in {"parts", "journal", "lease"}]
    place.get("results.parquet", tmp_path / "results.parquet")
    assert (tmp_path / "results.parquet").read_bytes() == (tmp_path / "whole" / "results.parquet").read_bytes()


PARTED_ROWS = 2_300
PARTED = """
- {unit: CoTUnit, name: rule, prompt: 'Say how to rate', pin: true}
- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text} after {previous.thinking}'}
"""


def cells(path: Path) -> list[tuple[str, ...]]:
    """The rows of a table, without what says how a call was made."""
    made = {"recalled", "latency_s", "cost_usd", "attempt", "calls", "service_tier"}
    return [
        tuple(map(str, row))
        for batch in read_table(path)
        for row in zip(*(values for name, values in batch.items() if name not in made), strict=True)
    ]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="workers are found by /proc")
@pytest.mark.parametrize("place", ["disk", "store"])
def test_a_lost_worker_and_command_lose_unfinished_parts_only(
    place: str, cluster: Cluster, loopback: Any, s3: Any, tmp_path: Path
) -> None:
    whole, broken = (loopback.start("--latency-ms", "5", "--score", "hash") for _ in range(2))
    bucket = s3.bucket("parted-ray").below("run") if place == "store" else None
    ended(cluster.start(tmp_path, whole, out="whole", steps=PARTED, rows=PARTED_ROWS))
    target = bucket.url if bucket else ""
    command = (tmp_path, broken, *cluster.flags, "--part-rows", "1000")

    def marks() -> dict[str, bytes]:
        if bucket:
            names = [name for name in bucket.names("parts") if name.endswith("done.json")]
            return {name: bucket.read(name) or b"" for name in names}
        return {str(path): path.read_bytes() for path in (tmp_path / "rayed" / "parts").glob("*/done.json")}

    run = cluster.start(*command, to=target, steps=PARTED)
    wait_for(run, broken, 300)
    os.kill(cluster.workers()[0], signal.SIGKILL)
    end = monotonic() + 60
    while not marks() and monotonic() < end:
        assert run.poll() is None, run.communicate()
        sleep(0.05)
    run.kill()
    run.communicate()
    before = marks()
    assert before
    ended(cluster.start(*command, to=target, steps=PARTED))
    after = marks()
    assert len(after) == 3
    assert {name: after[name] for name in before} == before
    assert stats(broken)["distinct_bodies"] == stats(whole)["distinct_bodies"]
    assert stats(broken)["requests"] <= stats(whole)["requests"] + 2 * 8
    folder = tmp_path / "rayed"
    if bucket:
        bucket.get_all(bucket.names(), folder)
    for table in ("results.parquet", "calls.parquet"):
        assert (folder / table).is_dir()
        assert cells(folder / table) == cells(tmp_path / "whole" / table)
    found = facts(tmp_path)
    assert (found["status"], found["done"], found["calls"]) == ("finished", PARTED_ROWS, PARTED_ROWS + 1)
    assert {path.name for path in (folder / "parts").iterdir()} == {"000000", "000001", "000002", "checked.json"}


@pytest.fixture
def batch_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "batches")
    from batch_server import BatchServer

    with BatchServer() as server:
        yield server


BATCHED = """
- {unit: JudgeUnit, name: judge, explanation: true, prompt: 'Rate {source.text}'}
- {unit: JudgeUnit, name: verify, explanation: true, prompt: 'Check {previous.score} of {source.text}'}
"""


@pytest.mark.parametrize("place", ["disk", "store"])
def test_each_part_sends_its_own_batches_and_a_killed_command_pays_once(
    place: str, cluster: Cluster, batch_server: Any, s3: Any, tmp_path: Path
) -> None:
    bucket = s3.bucket("batched-ray").below("run") if place == "store" else None
    url = f"{batch_server.url}/v1"
    ended(cluster.start(tmp_path, url, out="whole", steps=BATCHED, rows=1_050))
    made = batch_server.live
    flags = ("--batch", "--part-rows", "1000", *cluster.flags)
    command, target = (tmp_path, url, *flags), bucket.url if bucket else ""
    said = ended(cluster.start(*command, "--detach", to=target, steps=BATCHED), 5)
    assert "Traceback" not in said
    assert sorted(batch_server.sizes) == [50, 1000]
    run = cluster.start(*command, to=target, steps=BATCHED)
    end = monotonic() + 60
    while len(batch_server.created) < 3 and monotonic() < end:
        assert run.poll() is None, run.communicate()
        sleep(0.01)
    run.kill()
    run.communicate()
    ended(cluster.start(*command, to=target, steps=BATCHED))
    assert batch_server.live == made
    assert sorted(batch_server.sizes) == [50, 50, 1000, 1000]
    assert set(batch_server.paid.values()) == {1}
    folder = tmp_path / "rayed"
    if bucket:
        bucket.get_all(bucket.names(), folder)
    for table in ("results.parquet", "calls.parquet"):
        assert cells(folder / table) == cells(tmp_path / "whole" / table)
    found = facts(tmp_path)
    assert (found["status"], found["done"], len(found["batches"])) == ("finished", 1_050, 4)


def test_a_cluster_that_wants_a_token_is_told(cluster: Cluster, tmp_path: Path) -> None:
    bare = {name: value for name, value in cluster.environ.items() if name != "RAY_AUTH_TOKEN"}
    guest = Cluster(cluster.address, cluster.head, {**bare, "HOME": str(tmp_path)})
    said = ended(guest.start(tmp_path, "http://127.0.0.1:9/v1", *cluster.flags), 2)
    assert f"Ray cannot be reached at {cluster.address}" in said
    assert "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN" in said
    assert "Traceback" not in said


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="workers are found by /proc")
def test_a_run_whose_limits_are_lost_stops_with_a_clear_error_and_goes_on(
    cluster: Cluster, loopback: Any, tmp_path: Path
) -> None:
    url = loopback.start("--latency-ms", "80", "--score", "hash")
    run = cluster.start(tmp_path, url, *cluster.flags)
    wait_for(run, url, ROWS)
    os.kill(cluster.workers(b"ray::Coordinator")[0], signal.SIGKILL)
    said = ended(run, 4)
    assert "Ray has lost the coordinator of the run" in said
    assert "the same command resumes the run" in said
    assert "Traceback" not in said
    ended(cluster.start(tmp_path, url, *cluster.flags))
    assert stats(url)["requests"] <= 2 * ROWS + 1 + 8
    assert facts(tmp_path)["done"] == ROWS


def test_a_store_that_is_gone_stops_the_run_with_a_clear_error_and_loses_nothing(
    cluster: Cluster, loopback: Any, s3: Any, tmp_path: Path
) -> None:
    url = loopback.start("--latency-ms", "80", "--score", "hash")
    place = s3.bucket("gone-rayed").below("run")
    run = cluster.start(tmp_path, url, *cluster.flags, to=place.url)
    wait_for(run, url, ROWS)
    s3.stop()
    said = ended(run, 2)
    s3.start()
    assert "the store refuses, or cannot be reached: Could not connect" in said
    assert "the same command resumes the run" in said
    assert "Traceback" not in said
    ended(cluster.start(tmp_path, url, *cluster.flags, to=place.url))
    assert stats(url)["requests"] <= 2 * ROWS + 1 + 8
    assert json.loads(place.read("run.json") or b"{}")["done"] == ROWS
