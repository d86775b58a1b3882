"""Runs whose calls are sent as batches: the same tables as ordinary calls, each request paid once."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from batch_bench import killed_at_note
from batch_server import reply_to

from verdict_cli.errors import BudgetError, Refused, UsageError
from verdict_cli.features.batches.batch_facts import SentBatch, batches_of
from verdict_cli.features.batches.run_hooks import BatchOptions
from verdict_cli.features.batches.sent import RunBatches, SentRequest
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.messages import Result
from verdict_cli.run.local import LocalRun
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.session import open_run
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.datasets.read import scan

pytestmark = pytest.mark.slow  # `make test-all`


ONE_STEP = """
- {unit: JudgeUnit, name: judge, explanation: true, prompt: 'Rate {source.text}'}
"""
RUN = [sys.executable, "-m", "verdict_cli", "run", "pipeline.yaml", "4.jsonl", "--batch"]


def test_a_run_of_batches_has_a_wave_for_each_step_and_the_tables_of_ordinary_calls(
    bench,
):
    facts = bench.run(out="batch")
    assert facts.status == "finished"
    assert bench.server.sizes == [30, 30]
    assert bench.server.live == 0
    bench.run(out="live", batches=BatchOptions())
    assert bench.server.live == 60
    assert bench.tables("batch") == bench.tables("live")


def test_what_a_batch_did_not_answer_goes_into_the_next_one(bench):
    bench.server.fail, bench.server.expire = 0.2, 0.1
    facts = bench.run(20, out="batch")
    assert (facts.done, facts.failed) == (20, 0)
    assert bench.server.live == 0
    assert set(bench.server.paid.values()) == {1}
    assert len(bench.server.paid) == 120
    bench.server.fail = bench.server.expire = 0.0
    bench.run(20, out="live", batches=BatchOptions())
    assert bench.tables("batch") == bench.tables("live")


def test_with_fallback_it_is_called_in_the_ordinary_way(bench):
    bench.server.expire = 0.5
    facts = bench.run(batches=BatchOptions(every_model=True, fallback=True))
    assert (facts.done, facts.failed) == (10, 0)
    assert bench.server.live == 60 - len(bench.server.paid)
    assert 1 < len(bench.server.created) < 5


def test_a_baseline_next_to_a_batched_model_answers_in_each_pass(bench):
    steps = """
- layer:
  - {unit: JudgeUnit, name: judge, explanation: true, prompt: 'Rate {source.text}'}
  - {unit: JudgeUnit, name: floor, explanation: true, prompt: 'Rate {source.text}', model: baseline/lexical}
- {unit: MeanPoolUnit, field: score}
"""
    facts = bench.run(6, steps, head="batch: true", batches=BatchOptions())
    assert (facts.status, facts.done, facts.failed) == ("finished", 6, 0)
    assert bench.server.sizes == [6] and bench.server.live == 0


def test_costs_are_those_of_batches(bench):
    facts = bench.run(5)
    tokens = facts.prompt_tokens, facts.completion_tokens
    # gpt-4o-mini in batches: $0.075 and $0.30 for a million tokens.
    assert facts.cost_usd == pytest.approx((tokens[0] * 0.075 + tokens[1] * 0.30) / 1e6)
    assert sum(batch.cost_usd or 0 for batch in batches_of(facts)) == pytest.approx(facts.cost_usd)


def test_an_answer_that_is_no_reply_is_paid_for_and_asked_again(bench, monkeypatch):
    broken = []

    def reply_once(body: dict[str, Any]) -> dict[str, Any]:
        whole = reply_to(body)
        if broken:
            return whole
        broken.append(whole["usage"])
        return {"usage": whole["usage"]}

    monkeypatch.setattr("batch_server.reply_to", reply_once)
    facts = bench.run(2)
    assert (facts.status, facts.failed) == ("finished", 0)
    assert sum(batch.cost_usd or 0 for batch in batches_of(facts)) == pytest.approx(facts.cost_usd)


def test_prices_of_the_pipeline_are_halved(bench):
    facts = bench.run(5, head="cost: {input_per_million: 10, output_per_million: 20}")
    assert facts.cost_usd == pytest.approx(
        (facts.prompt_tokens * 5 + facts.completion_tokens * 10) / 1e6
    )


@pytest.mark.parametrize(
    ("step", "after"), [*((step, True) for step in (1, 2, 3, 4, 6)), (3, False)]
)
def test_a_run_killed_at_any_note_in_its_ledger_pays_once(bench, step, after):
    with killed_at_note(step, after=after):
        bench.run(4)
    facts = bench.run(4)
    assert facts.status == "finished"
    assert len(bench.server.paid) == 24
    assert set(bench.server.paid.values()) == {1}
    assert bench.server.sizes == [12, 12]


def test_a_batch_whose_creation_was_not_acknowledged_is_found_again(bench):
    bench.server.lost = 2
    bench.run(4)
    assert bench.server.sizes == [12, 12]
    assert set(bench.server.paid.values()) == {1}


def test_detach_sends_what_is_ready_and_the_same_command_collects_it(bench):
    detached = BatchOptions(every_model=True, detach=True)
    bench.server.hangs = True
    facts = bench.run(4, batches=detached)
    assert (facts.status, [batch.status for batch in batches_of(facts)]) == (
        "waiting",
        ["in_progress"],
    )
    assert bench.run(4, batches=detached).status == "waiting"
    assert bench.server.sizes == [12]
    bench.server.hangs = False
    assert bench.run(4, batches=detached).status == "waiting"
    assert bench.server.sizes == [12, 12]
    facts = bench.run(4, batches=detached)
    assert facts.status == "finished"
    assert [batch.status for batch in batches_of(facts)] == ["completed", "completed"]
    assert all(batch.submitted and batch.ended for batch in batches_of(facts))


def test_a_budget_holds_for_batches_and_a_larger_one_sends_only_what_is_missing(
    bench,
):
    head = "max_tokens: 100"
    whole = bench.run(30, out="whole", head=head)
    bench.server.created.clear()
    bench.server.paid.clear()
    assert whole.cost_usd is not None
    budget = 0.75 * whole.cost_usd
    with pytest.raises(BudgetError, match="is spent"):
        bench.run(30, out="capped", head=head, budget_usd=budget)
    # Each batch is as large as the budget has room for at worst; the last one may exceed it by a call.
    assert 90 <= sum(bench.server.paid.values()) < 180
    facts = bench.run(30, out="capped", head=head, budget_usd=2 * whole.cost_usd)
    assert facts.status == "finished"
    assert facts.cost_usd == pytest.approx(whole.cost_usd)
    assert len(bench.server.paid) == 180
    assert set(bench.server.paid.values()) == {1}


def test_a_batch_that_a_killed_process_was_collecting_is_charged_once(bench):
    head = "max_tokens: 20"
    whole = bench.run(4, out="whole", head=head)
    bench.server.created.clear()
    with killed_at_note(3, after=False):
        bench.run(4, head=head, budget_usd=1.7 * whole.cost_usd)
    bench.run(4, head=head, budget_usd=1.7 * whole.cost_usd)
    assert bench.server.sizes == [12, 12]


@contextmanager
def stopped_after(rows: int) -> Iterator[None]:
    """The run in the body is stopped once so many of its rows have a result."""
    add = LocalRun._add

    def add_and_stop(run: LocalRun, result: Result) -> None:
        add(run, result)
        if run.counts.done >= rows:
            run.halt.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalRun, "_add", add_and_stop)
        yield


def test_each_result_of_a_stopped_run_is_stored_as_a_call_or_waits_for_one(bench):
    with stopped_after(3):
        bench.run(5, ONE_STEP)
    with Database.open(bench.folder / "out" / "run.db") as database:
        assert len([*database.calls_after(0, 9)]) == 3
        assert len([*RunBatches(database, bench.folder).unclaimed()]) == 2
    facts = bench.run(5, ONE_STEP)
    assert (facts.status, facts.done, facts.failed) == ("finished", 5, 0)
    assert set(bench.server.paid.values()) == {1}


def test_retry_failed_sends_the_call_with_which_a_run_was_stopped(bench):
    bench.server.rejects = "text 0"
    with stopped_after(1):
        bench.run(2, ONE_STEP)
    bench.server.rejects = ""
    facts = bench.run(2, ONE_STEP, retry_failed=True)
    assert (facts.status, facts.done, facts.failed) == ("finished", 2, 0)


def test_results_that_wait_for_their_calls_are_charged_as_batches(bench):
    whole = bench.run(4, out="whole", head="max_tokens: 20")
    bench.server.created.clear()
    head = "max_tokens: 20, cost: {input_per_million: 0, output_per_million: 0}"
    keys = {"head": head, "budget_usd": 1.7 * whole.cost_usd}
    with killed_at_note(3, after=True):
        bench.run(4, **keys)
    bench.run(4, **keys)
    assert bench.server.sizes == [12, 12]


def test_a_batch_over_the_queue_limit_is_split_and_waits(bench):
    bench.server.queue = 10
    facts = bench.run(4)
    assert facts.status == "finished"
    assert max(bench.server.sizes) <= 10
    assert set(bench.server.paid.values()) == {1}
    assert len(bench.server.paid) == 24


def test_a_batch_that_the_queue_refused_is_no_try(bench, monkeypatch):
    monkeypatch.setattr("verdict_cli.features.batches.pool.MOST_ATTEMPTS", 1)
    bench.server.queue = 10
    facts = bench.run(4)
    assert (facts.status, facts.failed) == ("finished", 0)


def test_no_batch_has_the_number_of_one_that_was_dropped(tmp_path):
    async def drop(batches, batch):
        await batches.intend(batch, {"request": SentRequest(batch.number, 1, 0, None, "{}")})
        await batches.drop(batch)

    with Database.open(tmp_path / "run.db") as database:
        batches = RunBatches(database, tmp_path)
        batches.last_number += 1
        keys = {"status": "sending", "tag": "", "settings": {"name": "m"}, "intended": 0.0}
        batch = SentBatch("", "openai", "m", 1, number=batches.last_number, **keys)
        asyncio.run(drop(batches, batch))
        assert RunBatches(database, tmp_path).last_number == batch.number


def test_files_keep_the_limits_of_the_model(bench):
    bench.run(4, head="batch: {max_requests: 5}")
    assert bench.server.sizes == [5, 5, 2, 5, 5, 2]


def test_a_form_of_json_that_is_rejected_gives_way_to_the_next_one(bench):
    bench.server.rejects_schema = True
    facts = bench.run(8)
    assert (facts.done, facts.failed) == (8, 0)
    assert bench.server.sizes == [24, 24, 24]  # more rejections than stop a run for another reason
    assert '"tools"' in bench.server.prompts[-1]


def test_a_model_without_batches_is_an_error_before_anything_runs(bench):
    for name in ("baseline/lexical", "xai/grok-4"):
        with pytest.raises(UsageError, match="cannot be sent as batches"):
            bench.run(name=name)
    assert bench.server.created == []


def test_a_batch_that_takes_too_long_is_cancelled_and_its_requests_are_sent_again(
    bench, monkeypatch
):
    from verdict_cli.features.batches.batch_keys import BatchSettings

    monkeypatch.setattr(BatchSettings, "wait_s", 0.1)
    bench.server.hangs = True

    class Once(list[Any]):
        def append(self, batch: Any) -> None:
            super().append(batch)
            bench.server.hangs = len(self) == 1

    bench.server.created = Once()
    facts = bench.run(2)
    assert facts.status == "finished"
    assert [batch.status for batch in batches_of(facts)] == ["cancelled", "completed", "completed"]
    assert bench.server.sizes == [6, 6, 6]


def test_a_process_killed_before_its_batch_is_acknowledged_pays_once(bench):
    bench.options(4)
    command = [*RUN, "--out", "out", "-q"]
    running: list[subprocess.Popen[bytes]] = []

    def kill() -> None:
        running[-1].kill()

    bench.server.on_create = kill
    bench.server.latency_s = 0.3
    codes = []
    while len(codes) < 3:
        running.append(
            subprocess.Popen(
                command, cwd=bench.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )
        codes.append(running[-1].wait())
    # Both waves were created by a process that did not live to read the answer.
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert bench.server.sizes == [12, 12]
    assert len(bench.server.paid) == 24
    assert set(bench.server.paid.values()) == {1}
    bench.run(4, out="live", batches=BatchOptions())
    assert bench.tables() == bench.tables("live")


@pytest.mark.parametrize(
    "steps",
    [
        """
- {each: "[1, 2, 3]", as: n, unit: JudgeUnit, name: check, prompt: 'Rate {n} of {source.text}'}
- {unit: MeanPoolUnit, field: score}
""",
        """
- {unit: JudgeUnit, name: first, prompt: 'Rate {source.text}'}
- {when: previous.first.score > 2, unit: JudgeUnit, name: second, prompt: 'Rate again {source.text}'}
""",
        """
- {unit: JudgeUnit, name: first, prompt: 'Rate {source.text}', escalate: {when: output.score < 4, to: gpt-4o-mini}}
""",
        """
- layer: [{unit: JudgeUnit, name: vote, scale: {type: discrete, range: [1, 5]}, prompt: 'Rate {source.text}'}]
  repeat: 5
  until: {confidence: 0.9}
- {unit: ModePoolUnit, name: pool, field: score}
""",
    ],
    ids=["each", "when", "escalate", "until"],
)
def test_graphs_that_follow_the_row_become_further_waves(bench, steps):
    facts = bench.run(8, steps)
    assert (facts.status, facts.done, facts.failed) == ("finished", 8, 0)
    assert set(bench.server.paid.values()) == {1}
    assert bench.server.live == 0
    ordinary = bench.run(8, steps, out="live", batches=BatchOptions())
    assert bench.tables() == bench.tables("live")
    assert (facts.calls, facts.saved) == (ordinary.calls, ordinary.saved)


def test_pinned_units_are_answered_before_any_row_is_begun(bench):
    steps = """
- {unit: CoTUnit, name: think, pin: true, prompt: 'Think'}
- {unit: JudgeUnit, name: judge, explanation: true, prompt: 'Rate {source.text} by {previous.thinking}'}
"""
    facts = bench.run(4, steps)
    assert (facts.status, facts.done, facts.failed, facts.calls) == ("finished", 4, 0, 5)
    assert bench.server.sizes == [1, 4]


def test_a_detached_run_exits_with_5_and_says_how_it_is_collected(bench):
    bench.options(4)
    command = [*RUN, "--detach"]
    command += ["--out", "out", "-q", "--no-cache", "--json"]
    codes, message, statuses = [], "", []
    for _ in range(3):
        done = subprocess.run(
            command, cwd=bench.folder, capture_output=True, text=True, check=False
        )
        codes.append(done.returncode)
        message = message or done.stderr
        statuses.append(json.loads(done.stdout)["status"])
    assert codes == [5, 5, 0]
    assert statuses == ["waiting", "waiting", "finished"]
    assert "waiting for batches: the same command" in message
    assert bench.server.sizes == [12, 12]
    assert not (bench.folder / "out" / "batches").exists()


def test_a_request_that_no_batch_answers_fails_its_row_alone(bench):
    bench.server.expires = "text 2"
    facts = bench.run(4)
    assert (facts.status, facts.done, facts.failed) == ("finished", 4, 1)
    assert len(bench.server.paid) == 18
    assert facts.failures == {"unavailable": 1}


def test_a_provider_that_answers_nothing_stops_the_run(bench):
    bench.server.expire = 1.0
    with pytest.raises(Refused, match="the last 5 batches ended"):
        bench.run(10)
    assert bench.server.sizes == [30] * 5


def test_the_cost_of_batches_is_reported_before_the_run(bench):
    bench.options(4)
    command = [*RUN, "--out", "out", "--yes"]
    done = subprocess.run(command, cwd=bench.folder, capture_output=True, text=True, check=True)
    assert "as batches in 2 waves or more" in done.stderr


def test_a_price_below_the_catalogues_does_not_stretch_the_budget(
    bench,
):
    head = "max_tokens: 100, cost: {input_per_million: 0, output_per_million: 0}"
    with pytest.raises(BudgetError, match="is spent"):
        bench.run(30, head=head, budget_usd=0.0001)
    assert len(bench.server.paid) < 180


def test_a_spent_budget_writes_no_traceback(bench, caplog):
    head = "max_tokens: 100"
    with pytest.raises(BudgetError, match="is spent"):
        bench.run(30, head=head, budget_usd=0.0001)
    gc.collect()
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


def test_retry_failed_sends_the_failed_calls_of_failed_rows_only(bench):
    bench.server.rejects = "text 2"
    facts = bench.run(4)
    assert (facts.done, facts.failed) == (4, 1)
    bench.server.rejects = ""
    sent = len(bench.server.prompts)
    facts = bench.run(4, retry_failed=True)
    assert (facts.done, facts.failed) == (4, 0)
    assert len(bench.server.prompts) - sent == 6  # three judges and three verifiers of one row
    assert set(bench.server.paid.values()) == {1}


def test_ctrl_c_leaves_batches_in_flight_and_says_so(bench):
    bench.options(4)
    command = [*RUN, "--out", "out", "-q"]
    created = threading.Event()
    bench.server.on_create, bench.server.hangs = created.set, True
    process = subprocess.Popen(
        command, cwd=bench.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert created.wait(20)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()
    assert process.returncode == 130
    assert b"1 batch with 12 requests in flight" in stderr
    facts = RunDirectory(bench.folder / "out").facts()
    assert facts is not None
    assert [batch.ended for batch in batches_of(facts)] == [""]
    # Ordinary calls would pay for its requests again.
    ordinary = [part for part in command if part != "--batch"]
    refused = subprocess.run(ordinary, cwd=bench.folder, capture_output=True, check=False)
    assert (refused.returncode, b"has 1 batch in flight" in refused.stderr) == (2, True)
    bench.server.hangs = False
    assert (
        subprocess.run(command, cwd=bench.folder, stdout=subprocess.DEVNULL, check=False).returncode
        == 0
    )
    assert bench.server.sizes == [12, 12]


def test_a_finished_run_s_replies_are_shared_by_the_cache(bench):
    store = CacheStore.open(bench.folder / "cache.sqlite3")
    try:
        for out, sizes in (("one", [12, 12]), ("two", [12, 12])):
            with open_run(bench.options(4, out=out)) as session:
                facts = session.execute(store=store).facts
            assert bench.server.sizes == sizes
    finally:
        store.close()
    assert (facts.status, facts.cached, facts.cost_usd) == ("finished", 24, 0.0)


def test_equal_rows_are_called_once(bench):
    store = CacheStore.open(bench.folder / "cache.sqlite3")
    options = bench.options(4)
    for file in options.dataset.files:
        file.write_text('{"text": "the same"}\n' * 4)
    options = replace(options, data=scan(options.dataset))
    try:
        with open_run(options) as session:
            facts = session.execute(store=store).facts
    finally:
        store.close()
    assert (facts.done, facts.failed, facts.cached) == (4, 0, 18)
    assert bench.server.sizes == [3, 3]
