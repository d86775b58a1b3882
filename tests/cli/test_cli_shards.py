"""`verdict run --shard` and `verdict merge`: shards that are merged are one run."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from paths import ROOT

from verdict_cli.llm.middleware.rate_limit import share_of
from verdict_cli.model import RateLimit

ROWS = 23
STEPS = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"
OWN = {"started", "wall_s", "digests", "config", "dataset", "version"}
"""What two runs of one pipeline may differ in."""


@pytest.fixture
def data(shell: Any) -> Path:
    lines = [json.dumps({"text": f"text {row}", "label": 1 + row % 5}) for row in range(ROWS)]
    return shell.write("data.jsonl", "\n".join(lines))


def evaluated(shell: Any, head: str = "model: baseline/lexical", gates: str = "") -> Path:
    evaluate = "evaluate: {quality: {prediction: output.score, target: source.label}}"
    return shell.config(STEPS, f"{head}\n{evaluate}\n{gates}")


def run_shards(shell: Any, config: Path, data: Path, count: int, *more: str) -> list[str]:
    folders = [f"shards/{shard}" for shard in range(count)]
    for shard, folder in enumerate(folders):
        done = shell(
            "run", config, data, "--shard", f"{shard}/{count}", "--out", folder, "-q", *more
        )
        assert done.code == 0, done.err
    return folders


def check_equal(shell: Any, one: str, other: str) -> None:
    first, second = shell.folder / one, shell.folder / other
    assert pq.read_table(first / "results.parquet").equals(
        pq.read_table(second / "results.parquet")
    )
    calls = [
        pq.read_table(path / "calls.parquet").drop_columns(["latency_s"])
        for path in (first, second)
    ]
    assert calls[0].equals(calls[1])
    facts = [json.loads((path / "run.json").read_bytes()) for path in (first, second)]
    facts = [{key: value for key, value in some.items() if key not in OWN} for some in facts]
    assert facts[0] == facts[1]
    reports = [json.loads((path / "report.json").read_bytes()) for path in (first, second)]
    assert reports[0]["evaluations"] == reports[1]["evaluations"]


@pytest.mark.parametrize("more", [(), ("--sample", "11"), ("--limit", "9")])
def test_merged_shards_equal_one_run(shell, data, more):
    config = evaluated(shell)
    shell("run", config, data, "--out", "whole", *more)
    folders = run_shards(shell, config, data, 4, *more)
    merged = shell("merge", *folders, "--out", "merged")
    assert merged.code == 0, merged.err
    check_equal(shell, "whole", "merged")
    again = shell("run", config, data, "--out", "merged", *more)
    assert "nothing left to do" in again.err


def test_the_documented_ci_jobs_give_one_run(shell, data):
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    jobs = yaml.safe_load(next(block for block in blocks if "matrix:" in block))["jobs"]
    judge, merge = (
        next(step["run"] for step in job["steps"] if step.get("run", "").startswith("verdict"))
        for job in jobs.values()
    )
    evaluated(shell).rename(shell.folder / "judge.yaml")
    (shell.folder / "shards").mkdir()
    for shard in jobs["shard"]["strategy"]["matrix"]["shard"]:
        words = judge.replace("${{ matrix.shard }}", str(shard)).split()
        assert shell(*words[1:]).code == 0
        (shell.folder / "shard").rename(shell.folder / "shards" / f"shard-{shard}")
    folders = sorted(map(str, (shell.folder / "shards").iterdir()))
    words = merge.replace("shards/*", " ".join(folders)).split()
    assert shell(*words[1:]).code == 0
    shell("run", "judge.yaml", data, "--out", "whole")
    check_equal(shell, "whole", "merged")


def test_merged_shards_of_a_served_model_equal_one_run(shell, data, loopback, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    model = f"model: {{name: openai/m, api_base: '{loopback.start()}', cache: false}}"
    config = evaluated(shell, model)
    assert shell("run", config, data, "--out", "whole").code == 0
    assert shell("merge", *run_shards(shell, config, data, 3), "--out", "merged").code == 0
    check_equal(shell, "whole", "merged")
    assert shell("verify", "merged").code == 0


def test_a_shard_has_every_nth_row_and_no_gate(shell, data):
    config = evaluated(shell, gates="gates: [{metric: quality.accuracy, min: 1.0}]")
    assert shell("run", config, data, "--out", "whole").code == 1
    folders = run_shards(shell, config, data, 2)
    assert pq.read_table(shell.folder / folders[1] / "results.parquet")["row"].to_pylist() == list(
        range(1, ROWS, 2)
    )
    assert shell("report", folders[0]).code == 0
    own = shell.write("gates.yaml", "gates: [{metric: quality.accuracy, min: 0.01}]")
    for options in ((), ("--gates", own), ("--bless", "judge.baseline")):
        refused = shell("gate", folders[0], *options)
        assert refused.code == 2, refused.out
        assert "shard 0/2 of a run" in refused.err
    merged = shell("merge", *folders, "--out", "merged", "--json")
    assert (merged.code, merged.json()["gates"][0]["passed"]) == (1, False)


def test_what_is_missing_is_named_in_one_message(shell, data):
    config = evaluated(shell)
    folders = run_shards(shell, config, data, 4)
    other = shell.write("other.jsonl", data.read_text(encoding="utf-8").replace("text 3", "text x"))
    changed = shell.config(STEPS.replace("Rate", "Judge"), name="changed.yaml")
    shell("run", config, other, "--shard", "1/4", "--out", "other")
    shell("run", changed, data, "--shard", "1/4", "--out", "changed")
    shell("run", config, data, "--shard", "1/3", "--out", "third")
    shell("run", config, data, "--out", "whole")
    refused = {
        "2 of 4 shards are missing: 1/4, 3/4": [folders[0], folders[2]],
        "shard 0/4 is there twice": [folders[0], *folders],
        "another dataset": [folders[0], "other", *folders[2:]],
        "another pipeline": [folders[0], "changed", *folders[2:]],
        "it is one of 3 shards": [folders[0], "third", *folders[2:]],
        "whole holds a whole run": ["whole", *folders],
        "data.jsonl has no run.db": ["data.jsonl"],
    }
    for message, folders_given in refused.items():
        done = shell("merge", *folders_given, "--out", "merged")
        assert (done.code, message in done.err) == (2, True), (message, done.err)
        assert not (shell.folder / "merged" / "run.db").exists()
    assert shell("merge", *folders, "--out", "whole").code == 2


@pytest.mark.parametrize("text", ["4/4", "1", "-1/4", "0/1", "0/0", "a/b"])
def test_what_names_no_shard_is_refused(shell, data, text):
    done = shell("run", evaluated(shell), data, f"--shard={text}", "--out", "out")
    assert (done.code, "count from 0" in done.err) == (2, True)


def test_pinned_units_and_other_shards_are_refused(shell, data):
    config = evaluated(shell)
    run_shards(shell, config, data, 2)
    for words, message in (
        (["--shard", "1/2"], "holds shard 0/2 of a run, and this is shard 1/2"),
        ([], "a whole run"),
    ):
        done = shell("run", config, data, "--out", "shards/0", *words)
        assert (done.code, message in done.err) == (2, True)
    assert "cannot be cut" in shell("run", config, data, "--shard", "0/24").err
    pinned = shell.config(
        "- {unit: JudgeUnit, name: first, prompt: 'Rate it', pin: true}\n" + STEPS, name="pin.yaml"
    )
    done = shell("run", pinned, data, "--shard", "0/2")
    assert (done.code, "the pinned unit 'first'" in done.err) == (2, True)


def test_a_killed_shard_resumes_alone_and_unfinished_ones_after_the_merge(
    shell, data, loopback, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    url = loopback.start("--latency-ms", "150")
    config = evaluated(shell, f"model: {{name: openai/m, api_base: '{url}', cache: false}}")
    words = ("run", config, data, "--concurrency", "1")
    assert shell(*words[:3], "--out", "whole").code == 0
    first = (*words, "--shard", "0/2", "--out", "shards/0")
    process = shell.start(*first)
    results = shell.folder / "shards/0/run.db"
    while not (results.exists() and results.with_name("run.db-wal").exists()):
        time.sleep(0.02)
    time.sleep(0.7)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert shell(*words, "--shard", "1/2", "--out", "shards/1").code == 0
    refused = shell("merge", "shards/0", "shards/1", "--out", "merged")
    assert (refused.code, "shards/0 lacks" in refused.err) == (2, True)
    partial = shell("merge", "shards/0", "shards/1", "--out", "partial", "--partial")
    assert "the command of the shards without --shard finishes it" in partial.err
    facts = json.loads((shell.folder / "partial/run.json").read_bytes())
    assert (facts["status"], facts["rows"]) == ("interrupted", ROWS)
    assert facts["done"] < ROWS
    assert "rows are missing" in facts["warnings"][-1]
    resumed = shell(*first)
    assert resumed.code == 0, resumed.err
    assert shell("merge", "shards/0", "shards/1", "--out", "merged").code == 0
    finished = shell("run", config, data, "--out", "partial")
    assert finished.code == 0, finished.err
    whole = pq.read_table(shell.folder / "whole/results.parquet")
    for folder in ("merged", "partial"):
        assert pq.read_table(shell.folder / folder / "results.parquet").equals(whole)


def test_a_shard_has_its_part_of_the_budget_and_the_merged_run_the_whole(
    shell, data, loopback, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    price = "cost: {input_per_million: 1000, output_per_million: 1000}, max_tokens: 50"
    config = evaluated(
        shell, f"model: {{name: openai/m, api_base: '{loopback.start()}', cache: false, {price}}}"
    )
    words = ("run", config, data, "--concurrency", "1", "--yes")
    shell(*words, "--out", "whole")
    cost = json.loads((shell.folder / "whole/run.json").read_bytes())["cost_usd"]
    half = ("--budget", str(cost / 2))
    for shard in range(2):
        assert shell(*words, "--shard", f"{shard}/2", "--out", f"shards/{shard}", *half).code == 3
        facts = json.loads((shell.folder / f"shards/{shard}/run.json").read_bytes())
        assert 0 < facts["cost_usd"] <= cost / 3
    shell("merge", "shards/0", "shards/1", "--out", "merged", "--partial")
    before = json.loads((shell.folder / "merged/run.json").read_bytes())
    assert before["done"] < ROWS
    finished = shell(*words, "--out", "merged", "--budget", str(cost * 1.5))
    facts = json.loads((shell.folder / "merged/run.json").read_bytes())
    assert (finished.code, facts["done"], facts["warnings"]) == (0, ROWS, [])
    assert facts["cost_usd"] == pytest.approx(cost)


def test_a_shard_has_its_part_of_a_rate_limit():
    limit = RateLimit(requests_per_minute=100, concurrent=2)
    assert share_of(limit, 4) == RateLimit(requests_per_minute=25, concurrent=1)
    assert share_of(limit, 1) == limit
    assert share_of(None, 4) is None


def test_a_damaged_shard_is_named(shell, data):
    config = evaluated(shell)
    folders = run_shards(shell, config, data, 2)
    with closing(sqlite3.connect(shell.folder / folders[1] / "run.db")) as database:
        database.execute("UPDATE calls SET model='other' WHERE number=2")
        database.commit()
    done = shell("merge", *folders, "--out", "merged")
    assert (done.code, "shards/1/run.db: the database cannot be read" in done.err) == (2, True), (
        done.err
    )
    assert not (shell.folder / "merged" / "run.db").exists()
