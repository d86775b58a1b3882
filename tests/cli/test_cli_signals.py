"""Ctrl-C, SIGTERM and SIGHUP, sent to a process that judges against a slow server on this machine."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from pathlib import Path
from time import sleep
from typing import Any
from urllib.request import urlopen

import pytest

from verdict_cli.storage.tables.reader import read_table

pytestmark = pytest.mark.slow  # `make test-all`


ROWS = 40


def stats(url: str) -> dict[str, Any]:
    """What the server has counted."""
    with urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        return dict(json.load(answer))


def wait_for(process: subprocess.Popen[str], url: str, **counts: int) -> None:
    """Returns once the server has counted as many."""
    for _ in range(2000):
        counters = stats(url)
        if all(counters[name] >= count for name, count in counts.items()):
            return
        assert process.poll() is None, process.communicate()
        sleep(0.01)
    raise AssertionError(counters)


def run_of(shell: Any, url: str) -> list[str | Path]:
    config = shell.config(
        "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}",
        f"model: {{name: openai/slow, api_base: '{url}', cache: false}}",
    )
    return ["run", config, shell.rows(ROWS), "--out", "out", "--concurrency", "4"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_run_and_the_printed_command_makes_the_missing_calls(
    number, shell, loopback
):
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip(
            "the tests run under nohup, and verdict keeps a signal ignored that was ignored at its start"
        )
    url = loopback.start("--latency-ms", "200")
    process = shell.start(*run_of(shell, url))
    wait_for(process, url, requests=9)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    facts = json.loads((shell.folder / "out" / "run.json").read_text())
    assert facts["status"] == "interrupted"
    (batch,) = read_table(shell.folder / "out" / "results.parquet", ["row", "status"])
    assert len(batch["row"]) == facts["done"] == stats(url)["requests"] < ROWS
    assert set(batch["status"]) == {"ok"}
    command = shlex.split(err.splitlines()[-1].partition("resumes the run: ")[2])
    assert command[0] == "verdict"
    done = shell(*command[1:], "--json")
    assert (done.code, done.json()["rows"], done.json()["calls"]) == (0, ROWS, ROWS)
    counted = stats(url)
    assert (counted["requests"], counted["distinct_bodies"]) == (ROWS, ROWS)


def test_a_second_signal_stops_at_once(shell, loopback):
    url = loopback.start("--latency-ms", "60000")
    process = shell.start(*run_of(shell, url))
    wait_for(process, url, in_flight=4)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "40 calls" in process.stderr.readline()
    assert "Press Ctrl-C again" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=3)
    assert process.returncode == 130


def test_calls_that_hang_do_not_hold_a_stopped_run(shell, loopback):
    url = loopback.start("--latency-ms", "60000")
    process = shell.start(*run_of(shell, url))
    wait_for(process, url, in_flight=4)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=15)
    assert process.returncode == 130
    assert "0 of 40 rows are done" in err
    assert "Traceback" not in err


def test_ctrl_c_after_the_last_call_ends_the_program_quietly(shell, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("verdict_cli.report.write_report.write_report", interrupted)
    config = shell.config("- {unit: JudgeUnit, prompt: 'Rate {source.text}'}")
    assert shell("run", config, shell.rows(2), "--out", "out").code == 130
    monkeypatch.undo()
    assert json.loads((shell.folder / "out" / "run.json").read_text())["status"] == "finished"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_loses_no_reply_of_a_ranking(number, shell, loopback):
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("the tests run under nohup")
    url = loopback.start("--latency-ms", "100")
    config = shell.config(
        "- {unit: PairwiseJudgeUnit, name: judge, prompt: 'Which? A: {source.A} B: {source.B}'}",
        f"model: {{name: openai/slow, api_base: '{url}'}}",
    )
    words = ["rank", config, shell.rows(7), "--field", "text", "--as", "A,B", "--concurrency", "4"]
    process = shell.start(*words, "--tournament", "round-robin")
    wait_for(process, url, requests=9)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert stats(url)["requests"] < 42
    ended = shell.start(*words, "--tournament", "round-robin")
    ended.communicate(timeout=60)
    assert ended.returncode == 0
    assert stats(url)["requests"] == 42  # both orders of 21 pairs, each once
