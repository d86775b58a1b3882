"""`run.db`: what a copy of it is enough for, whose replies are taken from it, and what is refused."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from verdict_cli.storage.database import schema

STEPS = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"
MODEL = "model: {name: openai/m, api_base: 'http://127.0.0.1:9/v1'}"


@pytest.fixture
def run(shell: Any, scripted_model: Any) -> Any:
    scripted_model.answer = lambda request: f'{{"score": {1 + request.row.index % 5}}}'
    assert (
        shell("run", shell.config(STEPS, MODEL), shell.rows(6), "--out", "out", "--no-cache").code
        == 0
    )
    return shell


def tables(folder: Path) -> list[bytes]:
    return [
        (folder / name).read_bytes() for name in ("results.parquet", "calls.parquet", "spec.yaml")
    ]


def test_a_copy_of_the_database_alone_gives_everything_back(run):
    (run.folder / "copy").mkdir()
    (run.folder / "copy" / "run.db").write_bytes((run.folder / "out" / "run.db").read_bytes())
    assert run("report", "copy").code == 0
    assert tables(run.folder / "copy") == tables(run.folder / "out")
    facts = [json.loads((run.folder / name / "run.json").read_text()) for name in ("out", "copy")]
    assert [run_facts["status"] for run_facts in facts] == ["finished", "finished"]
    assert facts[0]["calls"] == facts[1]["calls"] == 6


def test_another_pipeline_pays_only_for_what_differs(run, scripted_model):
    scripted_model.requests.clear()
    more = STEPS + "\n- {unit: JudgeUnit, name: again, prompt: 'Check {previous.score}'}"
    done = run(
        "run",
        run.config(more, MODEL),
        run.rows(6),
        "--out",
        "new",
        "--reuse",
        "out",
        "--no-cache",
        "--json",
    )
    # Without the cache each row and entry is a sample of its own, and finds its own reply.
    assert (done.code, done.json()["calls"]) == (0, 12), done.err
    assert {request.node for request in scripted_model.requests} == {"again"}
    refused = run("run", run.config(more, MODEL), run.rows(6), "--out", "out")
    assert (refused.code, "--reuse out" in refused.err) == (2, True), refused.err


def test_a_run_is_replayed_from_its_database(run, monkeypatch):
    monkeypatch.undo()  # the address of the model answers nothing
    (run.folder / "out" / "calls.parquet").unlink()
    replay, out = run.folder / "out", run.folder / "again"
    done = run("run", run.config(STEPS, MODEL), run.rows(6), "--out", out, "--replay", replay)
    assert done.code == 0, done.err
    assert pq.read_table(run.folder / "again" / "results.parquet")["output.score"].to_pylist() == [
        1,
        2,
        3,
        4,
        5,
        1,
    ]


def test_replies_to_other_prompts_of_a_replay_are_counted_and_reported(run, monkeypatch):
    monkeypatch.undo()  # the address of the model answers nothing
    other = STEPS.replace("Rate {source.text}", "Assess {source.text}")
    words = ("--replay", run.folder / "out", "--json")
    done = run("run", run.config(other, MODEL), run.rows(6), "--out", run.folder / "other", *words)
    text = "6 calls had another prompt when the recording was made"
    assert (done.code, text in done.err) == (0, True), done.err
    facts = json.loads((run.folder / "other" / "run.json").read_text())
    assert [warning for warning in facts["warnings"] if text in warning]
    assert text in (run.folder / "other" / "report.md").read_text()
    same = run("run", run.config(STEPS, MODEL), run.rows(6), "--out", run.folder / "same", *words)
    assert (same.code, "another prompt" in same.err) == (0, False), same.err


def test_a_gate_on_recorded_replies_to_other_prompts_is_inconclusive(run, monkeypatch):
    monkeypatch.undo()  # the address of the model answers nothing
    gate = """
evaluate: {e: {prediction: output.score, target: output.score}}
gates: [{metric: e.mae, max: 0}]"""
    words = ("--replay", run.folder / "out", "--limit", "4")
    same = run(
        "run", run.config(STEPS, MODEL + gate), run.rows(6), "--out", run.folder / "same", *words
    )
    assert same.code == 0, same.err
    other = run.config(STEPS.replace("Rate", "Assess"), MODEL + gate)
    done = run("run", other, run.rows(6), "--out", run.folder / "other", *words)
    reason = "4 calls had another prompt when the recording was made"
    assert (done.code, "inconclusive" in done.out, reason in done.out) == (1, True, True), done.out
    resumed = run("gate", run.folder / "other")
    assert (resumed.code, reason in resumed.out) == (1, True), resumed.out


def test_a_damaged_database_is_reported_in_the_runs_facts_and_report(run):
    facts = run.folder / "out" / "run.json"
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "status": "interrupted"}))
    database = run.folder / "out" / "run.db"
    content = bytearray(database.read_bytes())
    content[-4096:] = bytes(4096)
    database.write_bytes(content)
    done = run("run", run.config(STEPS, MODEL), run.rows(6), "--out", "out", "--no-cache")
    copy_name = "run.db.damaged-1"
    assert (done.code, copy_name in done.err) == (0, True), done.err
    assert [
        warning for warning in json.loads(facts.read_text())["warnings"] if copy_name in warning
    ]
    assert copy_name in (run.folder / "out" / "report.md").read_text()


@pytest.mark.parametrize("words", [("report", "out"), ("gate", "out"), ()])
def test_the_database_of_another_run_is_refused(words, run):
    config = run.config(STEPS.replace("Rate", "Judge"), MODEL)
    assert run("run", config, run.rows(6), "--out", "other", "--no-cache").code == 0
    (run.folder / "other" / "run.db").replace(run.folder / "out" / "run.db")
    (run.folder / "out" / "results.parquet").unlink()
    done = run(*(words or ("run", run.config(STEPS, MODEL), run.rows(6), "--out", "out")))
    assert (done.code, "run.db belongs to a run of another pipeline" in done.err) == (2, True)
    assert not (run.folder / "out" / "results.parquet").exists()


def test_a_finished_run_whose_database_lacks_rows_is_told_and_then_resumed(run, scripted_model):
    command = ("run", run.config(STEPS, MODEL), run.rows(6), "--out", "out", "--no-cache")
    with closing(sqlite3.connect(run.folder / "out" / "run.db")) as database:
        database.execute("DELETE FROM rows WHERE row > 3")
        database.commit()
    (run.folder / "out" / "results.parquet").unlink()
    done = run(*command)
    assert (done.code, "run.db has 4 of 6 rows" in done.err) == (2, True), done.err
    again = run(*command)
    assert again.code == 0, again.err
    assert pq.read_table(run.folder / "out" / "results.parquet").num_rows == 6


def test_an_interrupted_run_takes_no_rows_of_another_runs_database(run):
    config = run.config(STEPS.replace("Rate", "Judge"), MODEL)
    assert run("run", config, run.rows(6), "--out", "other", "--no-cache").code == 0
    (run.folder / "other" / "run.db").replace(run.folder / "out" / "run.db")
    facts = run.folder / "out" / "run.json"
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "status": "interrupted"}))
    done = run("run", run.config(STEPS, MODEL), run.rows(6), "--out", "out", "--no-cache")
    assert (done.code, "run.db belongs to a run of another pipeline" in done.err) == (2, True)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are POSIX's")
def test_a_folder_that_takes_no_file_is_reported(run):
    folder = run.folder / "sealed"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("the tests run as root")
    done = run("run", run.config(STEPS, MODEL), run.rows(6), "--out", folder / "out")
    assert (done.code, "sealed" in done.err) == (2, True), done.err


def test_a_database_that_another_program_locks_is_reported_and_loses_nothing(run, monkeypatch):
    monkeypatch.setattr(schema, "BUSY_S", 0.2)
    facts = run.folder / "out" / "run.json"
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "status": "interrupted"}))
    with closing(sqlite3.connect(run.folder / "out" / "run.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        command = ("run", run.config(STEPS, MODEL), run.rows(6), "--out", "out", "--no-cache")
        refused = run(*command)
        assert (refused.code, "locked by another program" in refused.err) == (2, True), refused.err
        other.rollback()
    again = run(*command, "--json")
    assert (again.code, again.json()["calls"]) == (0, 6), again.err


def test_an_unfinished_run_whose_database_is_missing_is_refused(run):
    path = run.folder / "out" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "status": "interrupted"}))
    (run.folder / "out" / "run.db").unlink()
    done = run("run", run.config(STEPS, MODEL), run.rows(6), "--out", "out")
    assert (done.code, "run.db is missing" in done.err) == (2, True), done.err
