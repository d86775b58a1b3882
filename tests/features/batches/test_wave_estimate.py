"""The price of batches and the number of waves, before anything is sent."""

import json
import socket
import subprocess
import sys
from urllib.request import urlopen

import pytest

from verdict_cli.features.batches.run_hooks import BatchOptions
from verdict_cli.run.estimate import DryRun
from verdict_cli.storage.datasets.read import stream_rows


@pytest.mark.parametrize(
    ("steps", "waves"),
    [
        ("\n- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}\n", 1),
        (
            "\n- {unit: JudgeUnit, name: judge, extract: post_hoc, prompt: 'Rate {source.text}'}\n",
            2,
        ),
        (
            "\n- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}', escalate: {when: output.score < 4, to: gpt-4o}}\n",
            2,
        ),
    ],
)
def test_calls_that_wait_for_one_another_are_in_further_waves(bench, steps, waves):
    options = bench.options(4, steps)
    lines = DryRun(options.plan).add(stream_rows(options.dataset, options.data.selection)).lines(4)
    estimate = BatchOptions().estimate(options.plan, lines)
    assert estimate is not None
    assert estimate.document["waves"] == waves
    assert estimate.document["worst_h"] == 24.0 * waves


def test_the_price_is_that_of_batches(bench):
    options = bench.options(4)
    lines = DryRun(options.plan).add(stream_rows(options.dataset, options.data.selection)).lines(4)
    estimate = BatchOptions().estimate(options.plan, lines)
    assert estimate is not None
    ordinary = sum(line.cost_usd or 0 for line in lines)
    assert estimate.document["cost_usd"] == pytest.approx(ordinary / 2)
    assert estimate.document["waves"] == 2


def test_the_shared_server_is_paid_once_for_every_request(bench, shared):
    script = shared / "bench" / "mock_batches.py"
    if not script.exists():
        pytest.skip("the shared folder has no batch server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = (
        "--latency-s",
        "0.1",
        "--fail-rate",
        "0.1",
        "--expire-rate",
        "0.05",
        "--drop-first",
        "1",
    )
    process = subprocess.Popen(
        [sys.executable, script, "--port", str(port), *flags], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        bench.server.url = f"http://127.0.0.1:{port}"
        facts = bench.run(20)
        stats = json.load(urlopen(f"{bench.server.url}/stats", timeout=10))
    finally:
        process.terminate()
        process.communicate()
    assert (facts.status, facts.done, facts.failed) == ("finished", 20, 0)
    assert (stats["answered"], stats["distinct_answered"], stats["paid_twice"]) == (120, 120, 0)
    assert stats["answers dropped"] == 1
    assert "ordinary calls" not in stats
