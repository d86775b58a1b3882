"""`--retry-failed`: the failed calls of rows that failed are asked again, nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from verdict_cli.errors import PinnedError, Rejected, Retryable
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.messages import Reply, Request

TWO_STEPS = """
- {unit: CoTUnit, name: think, prompt: 'Think of {source.text}'}
- {unit: JudgeUnit, name: judge, prompt: 'Rate {previous.thinking}'}
"""
JURY = """
- layer: [{unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}', on_failure: skip}]
  repeat: 3
- {unit: MeanPoolUnit, name: mean, quorum: 2}
"""


async def spoken(request: Request) -> Reply:
    return Reply('{"score": 3}' if request.json_schema else "thought")


def failing(*failed: tuple[int, str], how: Any = None) -> Any:
    """Rows and units that fail; everything else is answered."""

    async def rule(request: Request) -> Reply:
        if (request.row.index, request.node) in failed:
            if how is None:
                return Reply("neither here nor there")
            raise how
        return await spoken(request)

    return rule


PASSING = Retryable("busy", kind="timeout", retry_after_s=0)


@pytest.mark.parametrize(
    "how",
    [None, Rejected("too long", kind="context-too-long"), PASSING],
    ids=["unreadable", "rejected", "passing"],
)
def test_only_failed_calls_are_repeated(how, bench, read):
    bench.rule = failing((1, "judge"), (4, "think"), how=how)
    job = bench.job(6, TWO_STEPS)
    first = bench.run(job)
    bench.requests.clear()
    bench.rule = spoken
    facts = bench.run(bench.job(6, TWO_STEPS, retry_failed=True))
    readable_anyway = how is None  # any text is a thought
    again = [(1, "judge", 0, 0)]
    if not readable_anyway:
        again += [(4, "judge", 0, 0), (4, "think", 0, 0)]
    assert sorted(bench.calls()) == again
    assert (first.failed, facts.failed, facts.status) == (
        1 if readable_anyway else 2,
        0,
        "finished",
    )
    assert read(job.directory.results, "status") == ["ok"] * 6
    rows = zip(
        *(read(job.directory.calls, name) for name in ("row", "unit", "attempt")), strict=True
    )
    assert [attempt for row, unit, attempt in rows if (row, unit) == (1, "judge")] == [0]


def test_what_was_mended_stays_so_for_a_run_that_is_resumed_without_it(bench, read):
    bench.rule = failing((1, "judge"), (3, "judge"))
    job = bench.job(5, TWO_STEPS, concurrency=1)
    bench.run(job)

    async def stopping(request: Request) -> Reply:
        bench.stop.request()
        return await spoken(request)

    bench.rule = stopping
    assert (
        bench.run(bench.job(5, TWO_STEPS, concurrency=1, retry_failed=True)).status == "interrupted"
    )
    bench.requests.clear()
    facts = bench.run(bench.job(5, TWO_STEPS, concurrency=1))
    assert (facts.status, facts.failed) == ("finished", 0)
    assert (1, "judge", 0, 0) not in bench.calls()
    assert read(job.directory.results, "status") == ["ok"] * 5


def test_a_row_that_fails_again_is_repeated_each_time(bench):
    bench.rule = failing((0, "judge"))
    bench.run(bench.job(2))
    for attempt in (0, 0):
        bench.requests.clear()
        assert bench.run(bench.job(2, retry_failed=True)).failed == 1
        assert bench.calls() == [(0, "judge", 0, attempt), (0, "judge", 0, attempt + 1)]


def test_a_skipped_unit_is_repeated_only_where_the_row_failed(bench, read):
    broken = ((0, "judge[0]"), (1, "judge[0]"), (1, "judge[2]"))
    bench.rule = failing(*broken, how=Rejected("no"))
    job = bench.job(3, JURY)
    bench.run(job)
    assert read(job.directory.results, "failure.kind") == [None, "quorum", None]
    bench.requests.clear()
    bench.rule = spoken
    assert bench.run(bench.job(3, JURY, retry_failed=True)).failed == 0
    assert sorted(bench.calls()) == [(1, "judge[0]", 0, 0), (1, "judge[2]", 0, 0)]


def test_an_interrupted_run_continues_and_repeats_what_failed(bench):
    async def stopping(request: Request) -> Reply:
        if request.row.index == 3:
            bench.stop.request()
            await asyncio.sleep(0)
        if request.row.index == 1:
            raise Rejected("no")
        return await spoken(request)

    bench.rule = stopping
    assert bench.run(bench.job(8, concurrency=1)).status == "interrupted"
    bench.requests.clear()
    bench.rule = spoken
    facts = bench.run(bench.job(8, concurrency=1, retry_failed=True))
    assert (facts.status, facts.failed) == ("finished", 0)
    assert bench.calls() == [(1, "judge", 0, 0), *((row, "judge", 0, 0) for row in range(4, 8))]


def test_a_pinned_unit_that_failed_is_repeated(bench):
    pinned = TWO_STEPS.replace("{source.text}'", "it', pin: true")
    bench.rule = failing((-1, "think"), how=Rejected("no"))
    with pytest.raises(PinnedError):
        bench.run(bench.job(2, pinned))
    with pytest.raises(PinnedError):
        bench.run(bench.job(2, pinned))
    bench.rule = spoken
    bench.requests.clear()
    assert bench.run(bench.job(2, pinned, retry_failed=True)).failed == 0
    assert bench.calls()[0] == (-1, "think", 0, 0)
    bench.requests.clear()
    assert bench.run(bench.job(2, pinned, retry_failed=True)).failed == 0
    assert bench.calls() == []


def test_what_was_paid_is_counted_once(bench):
    async def dollar(request: Request) -> Reply:
        return Reply("" if request.row.index == 1 else '{"score": 3}', cost_usd=1.0)

    bench.rule = dollar
    assert bench.run(bench.job(3)).cost_usd == 4
    facts = bench.run(bench.job(3, retry_failed=True, budget_usd=5.5))
    assert (facts.cost_usd, facts.calls) == (6, 4)


def test_a_run_with_more_rounds_replays_from_its_own_calls(bench, monkeypatch):
    bench.rule = failing((1, "judge"), (2, "judge"))
    bench.run(bench.job(4, TWO_STEPS))
    bench.rule = failing((2, "judge"))
    job = bench.job(4, TWO_STEPS, retry_failed=True)
    assert bench.run(job).failed == 1
    monkeypatch.undo()
    again = bench.job(4, TWO_STEPS, out="again", recording=Recording.load(job.directory.path))
    assert bench.run(again).failed == 1
    assert again.directory.results.read_bytes() == job.directory.results.read_bytes()


def test_embedded_models_are_simply_run_again(bench, monkeypatch):
    monkeypatch.undo()
    settings = {"head": "model: baseline/echo"}
    assert bench.run(bench.job(3, **settings)).failed == 3
    facts = bench.run(bench.job(3, **settings, retry_failed=True))
    assert (facts.status, facts.failed, facts.recalled) == ("finished", 3, 0)
