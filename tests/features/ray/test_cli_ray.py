"""`verdict run --engine ray` on a real cluster of this machine."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.request import urlopen

import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore::FutureWarning")]

ROWS = 24
STEPS = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"
EVALUATE = "evaluate: {quality: {prediction: output.score, target: source.label}}"
OWN = {"started", "wall_s", "digests", "config", "dataset", "version"}
"""What two runs of one pipeline may differ in."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster with two processors, to which the tests' processes connect."""
    ray = pytest.importorskip("ray")
    ray.init(
        num_cpus=2,
        object_store_memory=80 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _node_ip_address="127.0.0.1",
    )
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", ray.get_runtime_context().gcs_address)
            yield ray
    finally:
        ray.shutdown()


@pytest.fixture
def data(shell: Any) -> Path:
    lines = [json.dumps({"text": f"text {row}", "label": 1 + row % 5}) for row in range(ROWS)]
    return shell.write("data.jsonl", "\n".join(lines))


def served(shell: Any, url: str, more: str = "") -> Path:
    return shell.config(
        STEPS, f"model: {{name: openai/m, api_base: '{url}', cache: false{more}}}\n{EVALUATE}"
    )


def requests(url: str) -> int:
    """The requests that the server has counted."""
    with urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        return int(json.load(answer)["requests"])


def facts(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "run.json").read_bytes()))


def check_equal(first: Path, second: Path, *spared: str) -> None:
    """The tables, facts and results of two runs are equal, but for these columns and facts."""
    results = [pq.read_table(run / "results.parquet") for run in (first, second)]
    assert results[0].equals(results[1])
    calls = [
        pq.read_table(run / "calls.parquet").drop_columns(["latency_s", *spared])
        for run in (first, second)
    ]
    assert calls[0].equals(calls[1])
    all_facts = [
        {name: value for name, value in facts(run).items() if name not in {*OWN, *spared}}
        for run in (first, second)
    ]
    assert all_facts[0] == all_facts[1]
    reports = [json.loads((run / "report.json").read_bytes()) for run in (first, second)]
    assert reports[0]["evaluations"] == reports[1]["evaluations"]
    assert reports[0]["gates"] == reports[1]["gates"]


def workers() -> list[int]:
    """The processes of this machine that judge a shard."""
    shards = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::judge_shard"):
                shards.append(int(path.parent.name))
        except OSError:
            continue
    return shards


def test_four_shards_merged_equal_one_run(shell, data, cluster):
    gate = "gates: [{metric: quality.accuracy, min: 0.99}]"
    config = shell.config(STEPS, f"model: baseline/lexical\n{EVALUATE}\n{gate}")
    assert shell("run", config, data, "--out", "whole").code == 1
    done = shell("run", config, data, "--engine", "ray", "--shards", "4", "--out", "ray")
    assert done.code == 1, done.err
    check_equal(shell.folder / "whole", shell.folder / "ray")
    assert not (shell.folder / "ray" / "shards").exists()
    assert shell("verify", "ray").code == 0
    again = shell("run", config, data, "--engine", "ray", "--out", "ray")
    assert (again.code, "nothing left to do" in again.err) == (1, True)


def test_a_killed_worker_is_replaced_and_only_what_is_in_no_segment_is_repeated(
    shell, data, cluster, loopback, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    url = loopback.start("--latency-ms", "1000", "--score", "hash")
    config = served(shell, url)
    process = shell.start(
        "run",
        config,
        data,
        "--engine",
        "ray",
        "--shards",
        "2",
        "--out",
        "ray",
        "--concurrency",
        "1",
    )
    databases = [shell.folder / f"ray/shards/{number}-of-2/run.db" for number in range(2)]
    end = monotonic() + 60
    while not all(database.exists() for database in databases):
        assert monotonic() < end, process.communicate()
        sleep(0.05)
    before = requests(url)
    os.kill(workers()[0], signal.SIGKILL)
    _, stderr = process.communicate(timeout=90)
    assert process.returncode == 0, stderr
    assert len(re.findall(r"shard \d/2: its worker died", stderr)) == 1
    assert before >= 6
    assert ROWS < requests(url) <= ROWS + 4
    assert shell("run", config, data, "--out", "whole").code == 0
    check_equal(shell.folder / "whole", shell.folder / "ray", "recalled")


def test_a_stopped_run_resumes_from_what_its_workers_had_sent(
    shell, data, cluster, loopback, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    url = loopback.start("--latency-ms", "1000")
    config = served(shell, url)
    words = ("run", config, data, "--engine", "ray", "--shards", "2", "--out", "ray")
    process = shell.start(*words, "--concurrency", "1")
    databases = [shell.folder / f"ray/shards/{number}-of-2/run.db" for number in range(2)]
    end = monotonic() + 60
    while not all(database.exists() for database in databases):
        assert monotonic() < end, process.communicate()
        sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, "the same command resumes the run" in stderr) == (130, True), stderr
    other = shell(*words[:-3], "3", "--out", "ray")
    assert (other.code, "has a run in 2 shards" in other.err) == (2, True)
    resumed = shell.start(*words)
    _, stderr = resumed.communicate(timeout=90)
    assert resumed.returncode == 0, stderr
    assert requests(url) <= ROWS + 8
    assert facts(shell.folder / "ray")["done"] == ROWS


def test_the_budget_is_divided_and_what_is_left_of_it_finishes_the_run(
    shell, data, cluster, loopback, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    price = ", cost: {input_per_million: 1000, output_per_million: 1000}, max_tokens: 50"
    config = served(shell, loopback.start(), price)
    words = ("run", config, data, "--concurrency", "1", "--yes")
    assert shell(*words, "--out", "whole").code == 0
    cost = facts(shell.folder / "whole")["cost_usd"]
    on_ray = (*words, "--engine", "ray", "--shards", "4", "--out", "ray")
    half = shell(*on_ray, "--budget", str(cost / 2))
    assert (half.code, "budget" in half.err) == (3, True), half.err
    stopped = facts(shell.folder / "ray")
    assert (
        0 < stopped["cost_usd"] <= cost / 2 + 4 * cost / ROWS
    )  # the last call of a shard may exceed it
    assert 0 < stopped["done"] < ROWS
    finished = shell(*words, "--out", "ray", "--budget", str(cost * 1.5))
    assert (finished.code, facts(shell.folder / "ray")["done"]) == (0, ROWS), finished.err
    assert facts(shell.folder / "ray")["cost_usd"] == pytest.approx(cost)


def test_a_refused_key_on_a_worker_is_one_message(shell, data, cluster, loopback, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    config = served(shell, loopback.start("--error-rate", "401=1"))
    done = shell("run", config, data, "--engine", "ray", "--shards", "2", "--out", "ray")
    assert (done.code, done.err.count("the same command resumes")) == (4, 1), done.err
    assert re.search(r"shard \d/2: .*401", done.err)


def test_more_shards_than_rows_are_refused(shell, data, cluster):
    done = shell("run", shell.config(STEPS), data, "--engine", "ray", "--shards", "25")
    assert (done.code, "cannot be cut into 25 shards" in done.err) == (2, True), done.err


def test_without_an_address_a_ray_is_started_on_this_machine(shell, data, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    process = shell.start("run", shell.config(STEPS), data, "--engine", "ray", "--out", "ray")
    _, stderr = process.communicate(timeout=120)
    assert (process.returncode, facts(shell.folder / "ray")["done"]) == (0, ROWS), stderr


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense"])
def test_a_ray_that_does_not_answer_is_one_message_within_20_seconds(
    shell, data, monkeypatch, address
):
    monkeypatch.setenv("RAY_ADDRESS", address)
    began = monotonic()
    process = shell.start("run", shell.config(STEPS), data, "--engine", "ray", "--out", "ray")
    _, stderr = process.communicate(timeout=40)
    assert process.returncode == 2
    assert monotonic() - began < 20 + 3
    lines = stderr.strip().splitlines()
    assert f"RAY_ADDRESS={address}" in lines[-2]
    assert len([line for line in lines if "baseline" not in line]) == 2
