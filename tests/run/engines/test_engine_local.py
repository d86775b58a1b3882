"""The local engine: order, bounds, failures, stopping and going on."""

from __future__ import annotations

import asyncio
import errno
import json
import random
import sqlite3
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from verdict_cli.errors import (
    BudgetError,
    DataError,
    JournalError,
    OutputError,
    PinnedError,
    Refused,
    Rejected,
    ReplyError,
    Retryable,
    recorded_error,
)
from verdict_cli.messages import Reply, Request, Usage
from verdict_cli.storage.database import writer
from verdict_cli.storage.database.schema import insert

LEXICAL = "model: baseline/lexical"
RATES = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'%s}"
TWO_STEPS = """
- {unit: CoTUnit, name: think, prompt: 'Think of {source.text}'}
- {unit: JudgeUnit, name: judge, prompt: 'Rate {previous.thinking}'}
"""


def test_results_are_in_input_order_whatever_comes_back_first(bench, read):
    draw = random.Random(0)

    async def sometime(_: Request) -> Reply:
        for _ in range(draw.randrange(20)):
            await asyncio.sleep(0)
        return Reply('{"score": 3}')

    bench.rule = sometime
    job = bench.job(200, concurrency=16)
    facts = bench.run(job)
    assert (facts.status, facts.done, facts.calls) == ("finished", 200, 200)
    assert read(job.directory.results, "row") == list(range(200))
    assert read(job.directory.results, "source.key") == [f"r{place}" for place in range(200)]
    assert read(job.directory.calls, "row") == list(range(200))


def test_the_same_run_writes_the_same_bytes_at_any_concurrency(bench, monkeypatch):
    monkeypatch.undo()
    tables = set()
    for name, concurrency in (("a", 1), ("b", 64), ("c", 64)):
        job = bench.job(300, TWO_STEPS, head=LEXICAL, out=name, concurrency=concurrency)
        bench.run(job)
        tables.add(job.directory.results.read_bytes())
    assert len(tables) == 1


def test_no_more_calls_than_allowed_are_in_flight(bench):
    running = most = 0

    async def counted(_: Request) -> Reply:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return Reply('{"score": 3}')

    bench.rule = counted
    layer = "- layer: [{unit: JudgeUnit, prompt: Rate}]\n  repeat: 5\n- {unit: MeanPoolUnit}"
    bench.run(bench.job(30, layer, concurrency=7))
    assert most == 7


def test_a_failure_is_a_value_of_its_row_which_keeps_what_is_finished(bench, read):
    async def unlucky(request: Request) -> Reply:
        if request.node == "judge" and request.row.index == 1:
            raise Rejected("too long", kind="context-too-long")
        return Reply('{"score": 3}' if request.json_schema else "thought")

    bench.rule = unlucky
    job = bench.job(3, TWO_STEPS)
    facts = bench.run(job)
    assert (facts.status, facts.done, facts.failed, facts.failures) == (
        "finished",
        3,
        1,
        {"context-too-long": 1},
    )
    results = job.directory.results
    assert read(results, "status") == ["ok", "failed", "ok"]
    assert read(results, "failure.node") == [None, "judge", None]
    assert read(results, "failure.kind") == [None, "context-too-long", None]
    assert read(results, "think.thinking") == ["thought"] * 3
    assert read(results, "output.score") == [3, None, 3]


@pytest.mark.parametrize(
    ("selection", "expected"), [({"limit": 3}, [0, 1, 2]), ({"sample": 4, "seed": 7}, None)]
)
def test_only_the_selected_rows_are_judged(selection, expected, bench, read):
    chosen = []
    for out in ("one", "two"):
        job = bench.job(40, out=out, **selection)
        bench.run(job)
        chosen.append(read(job.directory.results, "row"))
    assert chosen[0] == chosen[1] == sorted(set(chosen[0]))
    assert expected in (None, chosen[0])
    assert len(chosen[0]) == selection.get("sample", 3)


def test_another_seed_draws_another_sample(bench, read):
    drawn = set()
    for seed in range(3):
        job = bench.job(40, sample=5, seed=seed, out=str(seed))
        bench.run(job)
        drawn.add(tuple(read(job.directory.results, "row")))
    assert len(drawn) == 3


def test_a_limited_run_whose_rows_are_all_finished_judges_no_row_beyond_the_limit(bench, read):
    job = bench.job(40, limit=16)
    bench.run(job)
    facts = bench.run(job)  # as where two processes have opened it
    assert (facts.done, len(bench.requests)) == (16, 16)
    assert read(job.directory.results, "row") == [*range(16)]


async def dollar(_: Request) -> Reply:
    """A reply that costs a dollar."""
    return Reply('{"score": 3}', usage=Usage(10, 5), cost_usd=1.0)


def test_no_call_starts_on_a_spent_budget_and_a_larger_one_continues(bench):
    bench.rule = dollar
    job = bench.job(10, concurrency=1, budget_usd=3)
    for _ in range(2):
        with pytest.raises(BudgetError, match="3 USD"):
            bench.run(job)
        assert len(bench.requests) == 3
    facts = bench.run(replace(job, budget_usd=100))
    assert (facts.status, facts.calls, facts.cost_usd) == ("finished", 10, 10.0)
    assert len(bench.requests) == 10


def test_calls_in_flight_when_the_budget_is_spent_are_stored(bench, read):
    replied = [asyncio.Event() for _ in range(10)]

    async def later(request: Request) -> Reply:
        row = request.row.index
        if row:
            await replied[row - 1].wait()
        replied[row].set()
        return await dollar(request)

    bench.rule = later
    head = (
        "model: {name: m, max_tokens: 1, cost: {input_per_million: 0, output_per_million: 1000000}}"
    )
    job = bench.job(10, head=head, concurrency=4, budget_usd=4)
    with pytest.raises(BudgetError):
        bench.run(job)
    assert read(job.directory.results, "row") == [0, 1, 2, 3]
    assert len(bench.requests) == 4


def test_a_reply_that_is_none_counts_against_the_budget(bench):
    async def empty(request: Request) -> Reply:
        raise ReplyError("nothing", kind="empty", reply=await dollar(request))

    bench.rule = empty
    job = bench.job(10, concurrency=1, budget_usd=3)
    for _ in range(2):
        with pytest.raises(BudgetError):
            bench.run(job)
        assert len(bench.requests) == 3


def test_an_unreadable_reply_that_was_paid_for_counts_against_the_budget(bench):
    async def unreadable(request: Request) -> Reply:
        raise recorded_error("unavailable", "the body is not JSON", await dollar(request))

    bench.rule = unreadable
    job = bench.job(10, concurrency=1, budget_usd=3)
    for _ in range(2):
        with pytest.raises(BudgetError):
            bench.run(job)
        assert len(bench.requests) == 3


def test_a_call_of_unknown_cost_ends_a_run_with_a_budget(bench):
    async def unknown(_: Request) -> Reply:
        return Reply('{"score": 3}', cost_usd=None)

    bench.rule = unknown
    with pytest.raises(BudgetError, match="no known cost"):
        bench.run(bench.job(10, concurrency=1, budget_usd=3))
    assert len(bench.requests) == 1


def test_a_damaged_record_is_reported_and_only_its_row_is_repeated(bench):
    job = bench.job(10)
    bench.run(job)
    database = job.directory.database
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE rows SET record=x'00' WHERE row=3")
    connection.close()
    warnings: list[str] = []
    facts = bench.run(replace(job, warn=warnings.append))
    assert (facts.done, facts.recalled, len(bench.requests)) == (10, 1, 10)
    assert (
        len(warnings) == 1
        and "is damaged: 9 finished rows and 10 calls could be read" in warnings[0]
    )
    assert database.with_name("run.db.damaged-1").exists()


def test_a_dataset_that_is_rewritten_meanwhile_is_reported_and_the_run_unfinished(
    bench,
):
    job = bench.job(10)
    (file,) = job.dataset.files

    async def rewrite(request: Request) -> Reply:
        if request.row.index == 9:
            file.write_text(file.read_text().replace("text 3", "TEXT 3"))
        return Reply('{"score": 3}')

    bench.rule = rewrite
    with pytest.raises(DataError, match="rewritten while it was judged"):
        bench.run(job)
    assert job.directory.facts().status == "interrupted"


def test_an_undone_rewrite_is_reported_if_a_row_was_read_meanwhile(
    bench,
):
    long = "x" * 100_000  # more than what is read at once
    file = bench.folder / "long.jsonl"
    text = "".join(f'{{"text": "text {number}{long}"}}\n' for number in range(60))
    file.write_text(text)
    job = bench.job(file, concurrency=4)

    async def rewrite(request: Request) -> Reply:
        if request.row.index == 4:
            file.write_text(text.replace("text 5", "TEXT 5"))
        if request.row.index == 58:
            file.write_text(text)
        return Reply('{"score": 3}')

    bench.rule = rewrite
    with pytest.raises(DataError, match="rewritten while it was judged"):
        bench.run(job)


def test_a_dataset_that_is_touched_while_it_is_judged_is_no_error(bench):
    job = bench.job(10)
    (file,) = job.dataset.files

    async def touch(request: Request) -> Reply:
        file.write_text(file.read_text())
        return Reply('{"score": 3}')

    bench.rule = touch
    bench.run(job)
    assert job.directory.facts().status == "finished"


def test_a_refusal_stops_the_run_after_the_first_call(bench):
    async def refuse(_: Request) -> Reply:
        raise Refused("bad key")

    bench.rule = refuse
    with pytest.raises(Refused, match="bad key"):
        bench.run(bench.job(50, concurrency=8))
    assert len(bench.requests) == 1


def test_a_refused_call_leaves_the_others_in_flight_alone_and_starts_none(bench, read):
    first_started, refused = asyncio.Event(), asyncio.Event()

    async def refuse_one(request: Request) -> Reply:
        if len(bench.requests) == 4:
            first_started.set()
        if request.row.index == 2:
            await first_started.wait()
            refused.set()
            raise Refused("bad key")
        await refused.wait()
        return Reply("thought")

    bench.rule = refuse_one
    job = bench.job(50, TWO_STEPS, concurrency=4)
    with pytest.raises(Refused):
        bench.run(job)
    assert sorted(bench.calls()) == [(row, "think", 0, 0) for row in range(4)]
    bench.requests.clear()
    bench.rule = spoken
    bench.run(job)
    assert (0, "think", 0, 0) not in bench.calls()
    assert (2, "think", 0, 0) in bench.calls()


async def spoken(request: Request) -> Reply:
    """A reply of either sort."""
    return Reply('{"score": 3}' if request.json_schema else "thought")


def test_a_stopped_run_continues_and_repeats_no_finished_call(bench, read):
    async def until_fifty(request: Request) -> Reply:
        if len(bench.requests) == 50:
            bench.stop.request()
        await asyncio.sleep(0.001)
        return await spoken(request)

    bench.rule = until_fifty
    job = bench.job(60, TWO_STEPS, concurrency=8)
    first = bench.run(job)
    assert (first.status, first.rows) == ("interrupted", 60)
    assert 0 < first.done < 60
    assert len(read(job.directory.results, "row")) == first.done
    bench.rule = spoken
    second = bench.run(job)
    assert (second.status, second.done, second.calls) == ("finished", 60, 120)
    assert len(bench.requests) == len(set(bench.calls())) == 120
    uninterrupted = bench.job(60, TWO_STEPS, out="whole")
    bench.run(uninterrupted)
    assert job.directory.results.read_bytes() == uninterrupted.directory.results.read_bytes()


def test_a_stop_starts_no_further_call_of_a_row_that_is_under_way(bench):
    async def stop_first(request: Request) -> Reply:
        bench.stop.request()
        await asyncio.sleep(0.01)
        return await spoken(request)

    bench.rule = stop_first
    assert bench.run(bench.job(5, TWO_STEPS, concurrency=2)).done == 0
    assert {node for _, node, _, _ in bench.calls()} == {"think"}


def test_a_lasting_failure_is_not_repeated_when_the_run_continues(bench):
    async def reject_first(request: Request) -> Reply:
        if request.row.index == 0:
            raise Rejected("too long", kind="context-too-long")
        if request.row.index == 3:
            bench.stop.request()
        return await spoken(request)

    bench.rule = reject_first
    job = bench.job(20, concurrency=1)
    assert bench.run(job).status == "interrupted"
    assert bench.run(job).failures == {"context-too-long": 1}
    assert bench.calls().count((0, "judge", 0, 0)) == 1


def test_calls_of_rows_that_are_not_finished_are_found_by_the_next_process(bench, monkeypatch):
    """The second call of every row never ends."""
    in_flight = []

    async def never_the_second(request: Request) -> Reply:
        if request.node == "judge":
            in_flight.append(request)
            if len(in_flight) == 4:
                bench.stop.request()
            await asyncio.sleep(60)
        return await spoken(request)

    monkeypatch.setattr("verdict_cli.run.job.SIGNAL_GRACE_S", 0.05)
    bench.rule = never_the_second
    assert bench.run(bench.job(4, TWO_STEPS, concurrency=4)).done == 0
    bench.requests.clear()
    bench.rule = spoken
    facts = bench.run(bench.job(4, TWO_STEPS, concurrency=4))
    assert (facts.done, facts.recalled) == (4, 4)
    assert {request.node for request in bench.requests} == {"judge"}


def test_a_directory_of_another_pipeline_or_dataset_is_refused_with_fingerprints(
    bench,
):
    job = bench.job(5)
    bench.run(job)
    before = job.directory.results.read_bytes()
    for other in (bench.job(5, TWO_STEPS), bench.job(6)):
        with pytest.raises(JournalError) as caught:
            bench.run(other)
        for facts in (job.start, other.start):
            wanted = facts.data_fingerprint if other.data.rows == 6 else facts.spec_fingerprint
            assert wanted[:12] in caught.value.message
        assert "--fresh" in caught.value.hint
    assert job.directory.results.read_bytes() == before


def test_fresh_discards_what_another_run_left(bench, read):
    bench.run(bench.job(5))
    (bench.folder / "out" / "report.html").write_text("old")
    (bench.folder / "out" / "notes.txt").write_text("mine")
    calls = len(bench.requests)
    job = bench.job(5, fresh=True)
    facts = bench.run(job)
    assert (facts.recalled, len(bench.requests)) == (0, 2 * calls)
    assert not (bench.folder / "out" / "report.html").exists()
    assert (bench.folder / "out" / "notes.txt").read_text() == "mine"


def test_two_runs_on_one_directory_exclude_each_other(bench):
    job = bench.job(5)
    with job.directory.writing():
        for fresh in (False, True):
            with pytest.raises(JournalError, match="another run is writing"):
                bench.run(replace(job, fresh=fresh))
    assert bench.requests == []
    assert not (job.directory.path / "spec.yaml").exists()


def test_a_run_writes_its_facts_and_a_complete_spec(bench):
    from verdict_cli.language.load import load
    from verdict_cli.plan.build import build_plan

    bench.rule = dollar
    job = bench.job(5)
    facts = bench.run(job)
    assert job.directory.facts() == facts
    assert json.loads((job.directory.path / "run.json").read_text())["cost_usd"] == 5.0
    assert (facts.prompt_tokens, facts.completion_tokens, facts.models) == (50, 25, {"m": 5})
    assert (
        build_plan(load(job.directory.path / "spec.yaml")).plan.fingerprint == job.plan.fingerprint
    )


def test_a_directory_below_a_file_cannot_be_created(bench):
    (bench.folder / "file").write_text("")
    job = bench.job(2, out="file/out")
    with pytest.raises(OutputError, match="file/out"):
        job.directory.prepare()
    with pytest.raises(OutputError):
        bench.run(job)
    assert job.directory.facts() is None


def test_a_full_disk_stops_the_run_which_continues_when_there_is_room(bench, monkeypatch):
    async def slowly(request: Request) -> Reply:
        await asyncio.sleep(0.01)
        return await spoken(request)

    room = 2

    def full(*inputs: Any) -> None:
        nonlocal room
        room -= 1
        if room < 0:
            raise sqlite3.OperationalError("database or disk is full")
        insert(*inputs)

    bench.rule = slowly
    job = bench.job(30, concurrency=2)
    with monkeypatch.context() as patch:
        patch.setattr(writer, "insert", full)
        with pytest.raises(OutputError, match="disk is full"):
            bench.run(job)
    assert len(bench.requests) < 30
    facts = bench.run(job)
    assert (facts.status, facts.done) == ("finished", 30)


def test_a_table_that_cannot_be_written_stops_the_run(bench, monkeypatch):
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(OutputError, match=r"\.parquet.*No space left"):
        bench.run(bench.job(5))


def test_a_mistake_in_the_program_ends_the_run_instead_of_hanging(bench):
    async def mistaken(request: Request) -> Reply:
        if request.row.index == 3:
            raise ZeroDivisionError
        return await spoken(request)

    bench.rule = mistaken
    with pytest.raises(ZeroDivisionError):
        bench.run(bench.job(3000, concurrency=2))
    assert len(bench.requests) < 100


def test_a_pinned_unit_is_called_once_and_its_failure_stops_the_run(bench, read):
    pinned = TWO_STEPS.replace("{source.text}'", "it', pin: true")
    bench.rule = spoken
    job = bench.job(6, pinned)
    assert bench.run(job).calls == 7
    assert read(job.directory.results, "think.thinking") == ["thought"] * 6
    bench.requests.clear()

    async def broken(_: Request) -> Reply:
        raise Rejected("no")

    bench.rule = broken
    with pytest.raises(PinnedError):
        bench.run(bench.job(6, pinned, out="other"))
    assert len(bench.requests) == 1


def test_a_dataset_that_breaks_off_while_it_is_read_stops_the_run(bench):
    job = bench.job(30, concurrency=2)
    lines = (bench.folder / "30.jsonl").read_text().splitlines()
    (bench.folder / "30.jsonl").write_text("\n".join([*lines[:20], "{broken"]))
    with pytest.raises(DataError, match=r"30\.jsonl:21"):
        bench.run(job)


def test_progress_ends_with_all_rows(bench):
    bench.run(bench.job(30))
    last = bench.seen[-1]
    counts = last.counts
    assert (counts.rows, counts.done, counts.failed, counts.calls) == (30, 30, 0, 30)
    assert (last.running, last.waiting) == (0, 0)


def test_a_passing_failure_is_counted_among_the_calls(bench, read):
    async def at_second(request: Request) -> Reply:
        if request.attempt == 0:
            raise Retryable("busy", kind="timeout", retry_after_s=0)
        return await spoken(request)

    bench.rule = at_second
    job = bench.job(2)
    assert bench.run(job).calls == 4
    assert read(job.directory.calls, "attempt") == [0, 1, 0, 1]
    assert read(job.directory.calls, "failure") == ["timeout", None, "timeout", None]
    assert read(job.directory.results, "calls") == [2, 2]


def test_a_call_that_succeeded_at_a_later_attempt_is_not_repeated(bench):
    async def at_second(request: Request) -> Reply:
        if request.row.index == 5:
            bench.stop.request()
        if request.attempt == 0:
            raise Retryable("busy", kind="timeout", retry_after_s=0)
        return await spoken(request)

    bench.rule = at_second
    job = bench.job(10, concurrency=1)
    assert bench.run(job).status == "interrupted"
    bench.requests.clear()
    bench.run(job)
    assert not {(row, "judge", 0, 1) for row in range(5)} & set(bench.calls())
    assert not {(row, "judge", 0, 0) for row in range(5)} & set(bench.calls())


def test_a_run_replays_from_its_own_calls(bench, read, monkeypatch):
    from verdict_cli.llm.providers.recording import Recording

    pinned = TWO_STEPS.replace("{source.text}'", "it', pin: true")
    bench.rule = spoken
    job = bench.job(6, pinned)
    bench.run(job)
    monkeypatch.undo()
    recording = Recording.load(job.directory.path)
    again = bench.job(6, pinned, out="again", recording=recording)
    facts = bench.run(again)
    assert (facts.failed, facts.cost_usd, facts.floors) == (0, 0.0, ())
    assert again.directory.results.read_bytes() == job.directory.results.read_bytes()


def test_a_directory_whose_facts_are_no_runs_is_refused(bench, tmp_path):
    job = bench.job(2)
    job.directory.prepare()
    for content in (
        "[]",
        '{"name": "x", "status": "finished", "spec_fingerprint": "", "data_fingerprint": ""}',
        "{",
    ):
        (job.directory.path / "run.json").write_text(content)
        with pytest.raises(JournalError, match=r"run\.json"):
            job.directory.facts()


async def rejected(_: Request) -> Reply:
    raise Rejected("model m rejected the request (400): unknown parameter: top_k", status=400)


def test_a_model_that_rejects_everything_stops_the_run_and_its_rows_are_repeated(
    bench,
):
    bench.rule = rejected
    job = bench.job(100, concurrency=4)
    with pytest.raises(Refused, match="unknown parameter"):
        bench.run(job)
    assert len(bench.requests) <= 24
    bench.rule = spoken
    facts = bench.run(job)
    assert (facts.status, facts.done, facts.failed) == ("finished", 100, 0)


@pytest.mark.parametrize(
    ("head", "steps"),
    [
        ("model: [{name: bad}, {name: good}]", RATES % ""),
        ("model: {name: bad}", RATES % ", on_failure: skip"),
    ],
    ids=["fallback", "skip"],
)
def test_a_model_that_may_fail_stops_no_run(head, steps, bench):
    async def rule(request: Request) -> Reply:
        return await (rejected if request.model.name == "bad" else spoken)(request)

    bench.rule = rule
    facts = bench.run(bench.job(60, steps, head=head))
    assert (facts.status, facts.failed) == ("finished", 0)


def test_the_call_that_showed_missing_log_probabilities_is_counted_and_recorded(bench, read):
    async def without(_: Request) -> Reply:
        return Reply("4", usage=Usage(10, 1), cost_usd=0.25)

    bench.rule = without
    job = bench.job(30, RATES % ", extract: token_probability")
    with pytest.raises(Refused, match="log-probabilities"):
        bench.run(job)
    facts = job.directory.facts()
    assert (facts.calls, facts.cost_usd, facts.prompt_tokens, facts.models) == (
        1,
        0.25,
        10,
        {"m": 1},
    )
    assert read(job.directory.calls, "reply") == ["4"]
    assert read(job.directory.calls, "failure") == ["no-logprobs"]
