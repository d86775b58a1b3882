"""`verdict verify`: a run's files against the digests in its run.json."""

from __future__ import annotations

import json
from typing import Any

import pytest

FILES = (
    "results.parquet",
    "calls.parquet",
    "spec.yaml",
    "report.json",
    "report.md",
    "report.html",
    "junit.xml",
)


@pytest.fixture
def run(shell: Any) -> Any:
    config = shell.config("- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}")
    assert shell("run", config, shell.rows(5), "--out", "out").code == 0
    return shell


def test_a_run_as_it_ended_is_verified(run):
    done = run("verify", "out")
    assert done.code == 0
    assert "8 files" in done.err
    assert run("report", "out").code == 0
    assert run("verify", "out").code == 0


@pytest.mark.parametrize("name", FILES)
def test_any_changed_file_is_named(run, name):
    path = run.folder / "out" / name
    path.write_bytes(path.read_bytes() + b" ")
    done = run("verify", "out")
    assert done.code == 2
    assert f"{name}: the content has changed" in done.err
    path.unlink()
    assert f"{name}: the file is missing" in run("verify", "out").err


def test_a_changed_fact_or_digest_is_named(run):
    path = run.folder / "out" / "run.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps(facts | {"calls": facts["calls"] + 1}))
    assert "run.json: the content has changed" in run("verify", "out").err
    facts["digests"].pop("results.parquet")
    path.write_text(json.dumps(facts))
    done = run("verify", "out")
    assert done.code == 2
    assert "run.json has no digest" in done.err


def test_no_report_is_written_of_a_changed_table(run):
    path = run.folder / "out" / "calls.parquet"
    path.write_bytes(path.read_bytes() + b" ")
    assert run("report", "out").code == 2
    assert run("verify", "out").code == 2


def test_a_run_without_digests_is_an_error_with_a_fix(run):
    path = run.folder / "out" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"digests": {}}))
    done = run("verify", "out")
    assert done.code == 2
    assert "the run has no digests" in done.err
    assert run("verify", "elsewhere").code == 2


def test_a_file_that_the_run_did_not_write_is_listed(run):
    (run.folder / "out" / "notes.txt").write_text("mine")
    done = run("verify", "out")
    assert (done.code, "notes.txt: not a file of the run" in done.err) == (0, True)


def test_a_changed_pipeline_is_told_by_each_command_until_it_is_as_the_run_wrote_it(run):
    path = run.folder / "out" / "spec.yaml"
    written = path.read_text()
    warning = "spec.yaml was changed after the run"
    assert warning not in run("gate", "out").err
    path.write_text(f"{written}gates: [{{metric: run.calls, max: 5}}]\n")
    for command in ("gate", "report", "report"):
        done = run(command, "out")
        assert (done.code, done.err.count(warning)) == (0, 1), done.err
        assert "run.calls" in (run.folder / "out" / "report.md").read_text()
        assert warning in (run.folder / "out" / "report.md").read_text()
        facts = json.loads((run.folder / "out" / "run.json").read_text())
        assert [warning in line for line in facts["warnings"]] == [True]
    assert "spec.yaml: the content has changed" in run("verify", "out").err
    path.write_text(written)
    assert warning not in run("gate", "out").err
    assert run("verify", "out").code == 0


def test_the_run_command_may_change_the_gates_of_its_finished_run(run):
    config = run.folder / "pipeline.yaml"
    config.write_text(config.read_text() + "\ngates: [{metric: run.calls, max: 5}]\n")
    done = run("run", config, run.rows(5), "--out", "out")
    assert (done.code, "spec.yaml was changed" in done.err) == (0, False), done.err
    assert "spec.yaml was changed" not in run("gate", "out").err
    assert run("verify", "out").code == 0
