"""The session of a run: what it resumes, what is left to do, and its facts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson
import pytest
from msgspec import structs

from verdict_cli.errors import BudgetError, JournalError, Refused, UsageError
from verdict_cli.messages import Reply, Request
from verdict_cli.run.job import RunJob, RunOptions, Stop
from verdict_cli.run.session import execute_all, open_run


def options(job: RunJob, out: str = "out", **changes: Any) -> RunOptions:
    """The options of a job, with a directory next to the job's."""
    inputs = {
        "plan": job.plan,
        "dataset": job.dataset,
        "data": job.data,
        "seed": job.seed,
        "concurrency": 4,
    }
    return RunOptions(
        **inputs, config="p.yaml", source="d.jsonl", out=job.directory.path.parent / out, **changes
    )


def test_a_finished_run_is_not_executed_again(bench):
    chosen = options(bench.job(5))
    first = open_run(chosen).execute()
    assert (first.facts.status, first.facts.done, len(bench.requests)) == ("finished", 5, 5)
    (first.directory.path / "spec.yaml").unlink()
    with open_run(chosen) as session:
        assert session.is_finished
        assert session.execute().facts == first.facts
    assert len(bench.requests) == 5
    assert (first.directory.path / "spec.yaml").exists()


def test_failed_rows_leave_something_to_do_only_with_retry_failed(bench):
    async def unreadable(_: Request) -> Reply:
        return Reply("nothing")

    bench.rule = unreadable
    chosen = options(bench.job(2))
    assert open_run(chosen).execute().facts.failed == 2
    assert open_run(chosen).is_finished
    assert not open_run(replace(chosen, retry_failed=True)).is_finished
    assert not open_run(replace(chosen, fresh=True)).is_finished


def test_another_dataset_is_refused_and_judged_elsewhere_by_the_same_replies(bench):
    with open_run(options(bench.job(3))) as session:
        first = session.execute()
    other = options(bench.job(4))
    with pytest.raises(JournalError, match="another dataset") as caught:
        open_run(other)
    assert f"--reuse {first.directory.path}" in str(caught.value)
    with open_run(
        replace(other, out=first.directory.path.parent / "new", reuse=(first.directory.path,))
    ) as session:
        facts = session.execute().facts
    assert (facts.done, facts.cached, len(bench.requests)) == (4, 3, 4)


def test_a_resumed_run_keeps_its_start_and_adds_its_duration(bench):
    chosen = options(bench.job(3))
    first = open_run(chosen).execute()
    first.directory.write_facts(
        structs.replace(first.facts, status="interrupted", wall_s=1000.0, started="2026-01-01")
    )
    resumed = open_run(chosen).execute().facts
    assert resumed.started == "2026-01-01"
    assert 1000 < resumed.wall_s < 1900


def test_the_directory_of_the_recording_is_not_written_to(bench):
    chosen = options(bench.job(2))
    result = open_run(chosen).execute()
    with pytest.raises(UsageError, match="holds the recording itself"):
        open_run(replace(chosen, replay=result.directory.path, fresh=True))


def test_the_first_facts_have_all_inputs(bench, tmp_path):
    job = bench.job(2)
    recording = tmp_path / "replies.jsonl"
    recording.write_text("")
    job = replace(job, data=structs.replace(job.data, skipped=7))
    facts = open_run(options(job, replay=recording)).start
    stated = {
        name: value
        for name, value in facts.as_json().items()
        if name in {"config", "dataset", "rows", "replay"}
    }
    assert stated == {
        "config": "p.yaml",
        "dataset": "d.jsonl",
        "rows": 2,
        "replay": "replies.jsonl",
    }
    assert (facts.skipped_bad_rows, list(facts.nodes), facts.calibrated) == (7, ["judge"], "")


def test_several_runs_share_one_budget_which_finished_runs_have_spent(bench):
    async def priced(_: Request) -> Reply:
        return Reply('{"score": 3}', cost_usd=1.0)

    bench.rule = priced
    job = bench.job(3)
    chosen = [options(job, out, budget_usd=5.0) for out in ("first", "second")]
    with open_run(chosen[0]) as session:
        session.execute()
    with (
        open_run(chosen[0]) as first,
        open_run(replace(chosen[1], concurrency=1, seed=1)) as second,
    ):
        sessions = [first, second]
        assert [session.is_finished for session in sessions] == [True, False]
        with pytest.raises(BudgetError):
            execute_all(sessions, Stop())
    assert 5 <= len(bench.requests) < 6 + 4
    run_facts = orjson.loads((sessions[1].directory.path / "run.json").read_bytes())
    assert run_facts["status"] == "interrupted"


def test_a_stopped_runs_table_has_the_rows_after_the_stop_in_input_order(bench, read):
    replied = [asyncio.Event() for _ in range(6)]
    replied[5].set()

    async def last_first(request: Request) -> Reply:
        row = request.row.index
        await replied[row + 1].wait()
        replied[row].set()
        if row == 0:
            raise Refused("bad key")
        return Reply('{"score": 3}')

    bench.rule = last_first
    job = bench.job(5, concurrency=5)
    with pytest.raises(Refused):
        bench.run(job)
    assert read(job.directory.results, "row") == [1, 2, 3, 4]
    assert read(job.directory.calls, "row") == [1, 2, 3, 4]
