"""A run against a server that fails in every way, and one against a server that answers."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl

from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan
from verdict_cli.run.job import RunJob, Stop
from verdict_cli.run.local import run_alone
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import scan
from verdict_cli.storage.tables.reader import read_table

ROWS = 400
FAULTS = {
    "429": 0.04,
    "500": 0.04,
    "reset": 0.03,
    "timeout": 0.01,
    "malformed": 0.04,
    "offschema": 0.04,
}


def judged(
    folder: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[RunFacts, RunDirectory]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    config = folder / "pipeline.yaml"
    config.write_text(
        "verdict: 1\nname: t\n"
        f"model: {{name: gpt-4o-mini, api_base: '{url}', retries: 9, timeout: 1}}\n"
        "pipeline:\n- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}\n"
    )
    data = folder / "data.jsonl"
    data.write_text(jsonl({"text": f"text {n}"} for n in range(ROWS)))
    plan = build_plan(load(config)).plan
    dataset = Dataset(files=(data,))
    source = scan(dataset)
    start = RunFacts(
        name="t",
        status="running",
        config="c",
        dataset="d",
        spec_fingerprint=plan.fingerprint,
        data_fingerprint=source.fingerprint,
        version="0",
        started="",
        rows=source.rows,
    )
    directory = RunDirectory(folder / "out")
    job = RunJob(
        plan=plan, dataset=dataset, data=source, directory=directory, start=start, concurrency=64
    )
    return run_alone(job, Stop(), lambda _: None), directory


def stats(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        stats: dict[str, Any] = json.load(answer)
        return stats


def test_with_a_fifth_of_the_calls_failing_all_rows_finish_without_repeated_calls(
    loopback, tmp_path, monkeypatch
):
    rates = ",".join(f"{kind}={rate}" for kind, rate in FAULTS.items())
    url = loopback.start("--error-rate", rates, "--retry-after", "0", "--seed", "3")
    facts, directory = judged(tmp_path, url, monkeypatch)
    assert (facts.done, facts.failed) == (ROWS, 0)
    counters = stats(url)
    faults = counters["requests"] - counters["outcomes"]["200"]
    assert faults > ROWS * 0.1
    assert counters["requests"] - faults <= 1.3 * ROWS
    answered = [
        (row, attempt)
        for batch in read_table(directory.calls, ["row", "attempt", "reply", "failure"])
        for row, attempt, reply, failure in zip(
            batch["row"], batch["attempt"], batch["reply"], batch["failure"], strict=True
        )
        if reply is not None and failure is None
    ]
    assert sorted(row for row, _ in answered) == list(range(ROWS))
    assert (
        facts.calls == counters["requests"] - counters["outcomes"]["429"]
    )  # a rate limit is a wait, not a call
