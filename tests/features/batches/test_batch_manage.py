"""`verdict batch`: status, cancel, fetch, and a wave as a file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from batch_server import reply_to
from jsonl import jsonl
from typer.testing import CliRunner, Result

from verdict_cli.cli.app import app
from verdict_cli.errors import UsageError
from verdict_cli.features.batches.batch_facts import batches_of
from verdict_cli.features.batches.run_hooks import BatchOptions

DETACHED = BatchOptions(every_model=True, detach=True)


def run_command(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["batch", *map(str, words)])


def test_status_shows_what_the_provider_says(bench):
    bench.server.hangs = True
    bench.run(4, batches=DETACHED)
    assert (
        "0 of 12 answered  in_progress  batch-0"
        in run_command("status", bench.folder / "out").output
    )
    bench.server.hangs = False
    document = json.loads(run_command("status", bench.folder / "out", "--json").output)
    assert [(batch["id"], batch["status"], batch["requests"]) for batch in document["batches"]] == [
        ("batch-0", "completed", 12)
    ]


def test_run_json_lists_the_batches(bench):
    facts = bench.run(4)
    document = json.loads((bench.folder / "out" / "run.json").read_text())
    assert [set(batch) for batch in document["batches"]] == 2 * [
        {
            *("id", "provider", "model", "requests", "status"),
            *("submitted", "ended", "wave", "answered", "cost_usd"),
        }
    ]
    assert [batch["answered"] for batch in document["batches"]] == [12, 12]
    assert sum(batch["cost_usd"] for batch in document["batches"]) == pytest.approx(facts.cost_usd)


def test_cancelled_requests_are_sent_again_by_the_same_run(bench):
    bench.server.hangs = True
    bench.run(4, batches=DETACHED)
    assert run_command("cancel", bench.folder / "out").output == "1 batch cancelled\n"
    bench.server.hangs = False
    facts = bench.run(4)
    assert (facts.status, facts.failed) == ("finished", 0)
    assert bench.server.sizes == [12, 12, 12]
    assert batches_of(facts)[0].status == "cancelled"
    assert set(bench.server.paid.values()) == {1}


def test_fetch_collects_what_has_ended(bench):
    bench.server.hangs = True
    bench.run(4, batches=DETACHED)
    assert "0 batches collected" in run_command("fetch", bench.folder / "out").output
    bench.server.hangs = False
    assert (
        "12 requests answered, 0 not; 0 in flight"
        in run_command("fetch", bench.folder / "out").output
    )
    assert bench.run(4).status == "finished"
    assert bench.server.sizes == [12, 12]


def test_results_whose_batch_a_damaged_database_lost_are_used(bench):
    bench.run(4, batches=DETACHED)
    run_command("fetch", bench.folder / "out")
    with closing(sqlite3.connect(bench.folder / "out" / "run.db")) as database, database:
        database.execute("DELETE FROM batches WHERE name GLOB 'batch-*'")
    assert bench.run(4).status == "finished"
    assert set(bench.server.paid.values()) == {1}


@pytest.mark.parametrize("names", ["batch-*", "????????????????????????????????-*"])
def test_what_a_damaged_database_lost_of_a_batch_is_called_again(bench, names):
    bench.run(4, batches=DETACHED)
    run_command("fetch", bench.folder / "out")
    with closing(sqlite3.connect(bench.folder / "out" / "run.db")) as database, database:
        damaged = "SELECT min(name) FROM batches WHERE name GLOB ?"
        database.execute(
            f"UPDATE batches SET checksum = checksum + 1 WHERE name = ({damaged})", [names]
        )
    facts = bench.run(4)
    assert (facts.status, facts.failed) == ("finished", 0)
    assert any("is damaged" in warning for warning in facts.warnings)


def test_a_wave_is_exported_and_its_results_imported(bench):
    wave, results = bench.folder / "wave.jsonl", bench.folder / "results.jsonl"
    exported = BatchOptions(every_model=True, detach=True, export=wave)
    for _ in range(2):
        assert bench.run(4, out="file", batches=exported).status == "waiting"
        lines = [json.loads(line) for line in wave.read_text().splitlines()]
        assert {(line["method"], line["url"]) for line in lines} == {
            ("POST", "/v1/chat/completions")
        }
        answered = [
            {
                "custom_id": line["custom_id"],
                "response": {"status_code": 200, "body": reply_to(line["body"])},
            }
            for line in lines
        ]
        results.write_text(jsonl(reversed(answered)))
        assert (
            "12 requests answered" in run_command("import", bench.folder / "file", results).output
        )
    assert bench.run(4, out="file", batches=exported).status == "finished"
    assert bench.server.created == []
    bench.run(4, out="live", batches=BatchOptions())
    assert bench.tables("file") == bench.tables("live")


@pytest.mark.parametrize(
    ("answers", "message"), [(0, "rejected 60 requests of a batch and answered none"), (1, "")]
)
def test_a_batch_whose_requests_are_all_rejected_stops_the_run_and_is_sent_again(
    bench, answers, message
):
    wave, results = bench.folder / "wave.jsonl", bench.folder / "results.jsonl"
    exported = BatchOptions(every_model=True, detach=True, export=wave)
    bench.run(20, batches=exported)
    lines = [json.loads(line) for line in wave.read_text().splitlines()]
    rejection = {"status_code": 400, "body": {"error": {"message": "no such field"}}}
    replies = [{"status_code": 200, "body": reply_to(line["body"])} for line in lines[:answers]]
    replies += [rejection] * (len(lines) - answers)
    results.write_text(
        jsonl(
            {"custom_id": line["custom_id"], "response": reply}
            for line, reply in zip(lines, replies, strict=True)
        )
    )
    result = run_command("import", bench.folder / "out", results)
    assert (result.exit_code == 0, message in str(result.exception)) == (not message, True)
    wave.unlink()
    bench.run(20, batches=exported)
    again = (
        [json.loads(line)["custom_id"] for line in wave.read_text().splitlines()]
        if wave.exists()
        else []
    )
    assert (sorted(again) == sorted(line["custom_id"] for line in lines)) == bool(message)


def test_results_of_other_requests_are_an_error(bench):
    exported = BatchOptions(every_model=True, detach=True, export=bench.folder / "wave.jsonl")
    bench.run(4, batches=exported)
    (bench.folder / "other.jsonl").write_text(
        '{"custom_id": "a", "response": {"status_code": 200}}\nnot JSON\n'
    )
    refused = run_command("import", bench.folder / "out", bench.folder / "other.jsonl")
    assert "has no result of the requests" in str(refused.exception)
    with pytest.raises(UsageError, match="the results of 12 requests are missing"):
        bench.run(4)


def test_a_directory_without_a_run_is_an_error(tmp_path):
    assert "is not the directory of a run" in str(run_command("status", tmp_path).exception)


def test_shards_whose_batches_have_ended_are_merged_and_others_wait(bench):
    bench.options(4)
    files = [str(bench.folder / name) for name in ("pipeline.yaml", "4.jsonl")]
    words = ["run", *files, "--batch", "--no-cache"]

    def run(*more: str) -> Result:
        return CliRunner().invoke(app, [*words, *more])

    def merge(out: str) -> Result:
        shards = [str(bench.folder / f"shard{number}") for number in range(2)]
        return CliRunner().invoke(app, ["merge", *shards, "--out", str(bench.folder / out)])

    assert run("--shard", "0/2", "--out", str(bench.folder / "shard0")).exit_code == 0
    second = ("--shard", "1/2", "--out", str(bench.folder / "shard1"))
    assert run(*second, "--detach").exit_code == 5
    with pytest.raises(UsageError, match="shard1 waits for batches"):
        raise merge("early").exception
    assert run(*second).exit_code == 0
    assert merge("merged").exit_code == 0
    assert run("--out", str(bench.folder / "whole")).exit_code == 0
    assert bench.tables("merged") == bench.tables("whole")


def test_a_report_of_a_waiting_run_leaves_it_waiting(bench):
    bench.server.hangs = True
    bench.run(4, batches=DETACHED)
    done = CliRunner().invoke(app, ["report", str(bench.folder / "out"), "--json"])
    assert json.loads(done.stdout)["status"] == "waiting"
    assert json.loads((bench.folder / "out" / "run.json").read_text())["status"] == "waiting"
    bench.server.hangs = False
    assert bench.run(4).status == "finished"
