"""Real rows, judged by a real language model: SmolLM2-135M behind llama.cpp's server (`make test-local`)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

pytestmark = pytest.mark.local

LLAMA = Path(os.environ.get("VERDICT_LLAMA", ROOT / ".venv-llama" / "bin" / "python")).absolute()
HEAD = "verdict: 1\nname: small\nmodel: {name: openai/smollm2, cache: false%s}\npipeline:\n"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The base URL of the server."""
    if not LLAMA.exists():
        pytest.skip("llama.cpp is not installed: make test-local, or VERDICT_LLAMA=PYTHON")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [str(LLAMA), str(Path(__file__).with_name("serve.py")), str(port)],
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_ready(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail("the server does not answer")


def judged(
    server: str, folder: Path, pipeline: str, *options: str
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """The run's document, its results and its calls, for the rows of `answers_sample`."""
    from pyarrow import parquet

    (folder / "pipeline.yaml").write_text(pipeline, encoding="utf-8")
    command = ["run", "pipeline.yaml", "answers_sample", "--out", "run", "--json", *options]
    done = subprocess.run(
        [sys.executable, "-m", "verdict_cli", *command],
        cwd=folder,
        env={
            **os.environ,
            "OPENAI_BASE_URL": server,
            "OPENAI_API_KEY": "none",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    results, calls = (
        parquet.read_table(folder / "run" / f"{name}.parquet").to_pylist()
        for name in ("results", "calls")
    )
    return json.loads(done.stdout), results, calls


def test_rows_are_judged_by_structured_replies(server, tmp_path):
    judge = (
        "  - unit: JudgeUnit\n    name: judge\n"
        "    prompt: 'Is the answer right? Question: {source.question} Answer: {source.answer} Rate from 1 to 5.'\n"
    )
    run, results, calls = judged(server, tmp_path, HEAD % ", max_tokens: 60" + judge)
    assert (run["rows"], run["failed"]) == (8, 0)
    assert all(1 <= row["judge.score"] <= 5 for row in results)
    assert len(calls) == 8, "the grammar leaves nothing to retry"
    assert all(call["prompt_tokens"] > 20 and json.loads(call["reply"]) for call in calls)


def test_rows_are_judged_by_token_probabilities_and_equally_again(server, tmp_path):
    judge = (
        "  - unit: JudgeUnit\n    name: judge\n    scale: boolean\n"
        "    extract: {type: token_probability, min_mass: 0.001}\n"
        "    prompt: 'Is the answer right? Question: {source.question} Answer: {source.answer} Reply with yes or no.'\n"
    )
    head = HEAD % """, temperature: 0, params: {grammar: 'root ::= "yes" | "no"'}"""
    run, results, calls = judged(server, tmp_path, head + judge)
    assert (run["rows"], run["failed"]) == (8, 0)
    assert {call["reply"] for call in calls} <= {"yes", "no"}
    distributions = [row["judge.distribution"] for row in results]
    assert len({distribution["true"] for distribution in distributions}) == 8, (
        "each row has its own"
    )
    assert all(0 < distribution["true"] < 1 for distribution in distributions)
    assert all(0 < row["judge.mass"] < 1 for row in results)
    _, again, _ = judged(server, tmp_path, head + judge, "--fresh")
    for row, distribution in zip(again, distributions, strict=True):
        assert row["judge.distribution"] == pytest.approx(distribution, abs=1e-2)
