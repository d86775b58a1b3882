"""Limits and budget that several workers share, without processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any

import pytest

from verdict_cli.errors import BudgetError, Retryable
from verdict_cli.features.ray import worker as module
from verdict_cli.features.ray.worker import Coordinator, PermitGrant, PermitRequest, SharedModelClient, SharedSpending
from verdict_cli.llm.middleware.rate_limit import RateLimiters
from verdict_cli.llm.providers import Providers
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Model, RateLimit
from verdict_cli.run.progress import RunStats
from verdict_cli.run.row import PINNED_ROW

MODEL = Model(name="openai/m")


def within_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


def wanted(*tickets: int, model: Model = MODEL) -> list[PermitRequest]:
    return [PermitRequest(ticket, "judge", model, 10) for ticket in tickets]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LISTEN_S", 0.01)


@within_a_loop
async def test_calls_in_flight_are_those_of_all_workers() -> None:
    one = Coordinator(3)
    assert await one.begin("a", 0)
    assert await one.begin("b", 1)
    await one.post("a", wanted(0, 1), [], None)
    await one.post("b", wanted(0, 1), [], None)
    assert list((await one.permits("a")).answers) == [0, 1]
    assert list((await one.permits("b")).answers) == [0]
    await one.post("a", [], [(0, Reply("x"))], None)
    assert list((await one.permits("b")).answers) == [1]


@within_a_loop
async def test_a_rate_limit_is_that_of_all_workers() -> None:
    one, slow = Coordinator(9), Model(name="openai/m", rate_limit=RateLimit(requests_per_minute=1))
    for name in "ab":
        await one.begin(name, ord(name))
        await one.post(name, wanted(0, model=slow), [], None)
    assert list((await one.permits("a")).answers) == [0]
    await one.post("a", [], [(0, Reply("x"))], None)
    assert await one.permits("b") == PermitGrant()


@within_a_loop
async def test_the_budget_is_refused_to_every_worker_once_all_have_spent_it() -> None:
    one = Coordinator(9, budget_usd=1.0, spent_usd=0.5)
    await one.begin("a", 0)
    await one.begin("b", 1)
    await one.post("a", wanted(0), [], None)
    await one.permits("a")
    await one.post("a", [], [(0, Reply("x", cost_usd=0.5))], None)
    await asyncio.sleep(0)
    await one.post("b", wanted(0), [], None)
    (error,) = (await one.permits("b")).answers.values()
    assert isinstance(error, BudgetError)


@within_a_loop
async def test_the_permits_of_a_lost_worker_go_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    one = Coordinator(1)
    await one.begin("a", 0)
    await one.begin("b", 1)
    await one.post("a", wanted(0, 1), [], None)
    await one.post("b", wanted(0), [], None)
    await one.permits("a")
    assert not (await one.permits("b")).answers
    now = module.LOST_S + 1
    await one.permits("b")
    counted = RunStats(2).progress(RateLimiters())
    assert (await one.progress(counted)).waiting == 2
    assert list((await one.permits("b")).answers) == [0]
    await one.post("a", [], [(0, Reply("late"))], None)
    await one.post("b", [], [(0, Reply("x"))], None)
    assert not (await one.permits("b")).answers
    assert list((await one.permits("a")).answers) == [1]


@within_a_loop
async def test_who_begins_a_part_again_frees_the_permits_of_the_one_before() -> None:
    one = Coordinator(1)
    await one.begin("a", 0)
    await one.post("a", wanted(0), [], None)
    await one.permits("a")
    await one.begin("a2", 0)
    await one.post("a2", wanted(0), [], None)
    assert list((await one.permits("a2")).answers) == [0]
    assert (await one.permits("a")).stop


@within_a_loop
async def test_nothing_begins_once_the_run_is_to_stop() -> None:
    one = Coordinator(1)
    await one.begin("a", 0)
    await one.stop()
    assert (await one.permits("a")).stop
    assert not await one.begin("b", 1)


@within_a_loop
async def test_a_call_that_failed_by_its_rate_limit_counts_as_such() -> None:
    one = Coordinator(9)
    await one.begin("a", 0)
    await one.post("a", wanted(0), [], None)
    await one.permits("a")
    await one.post("a", [], [(0, Retryable("slow down", kind="rate-limit", retry_after_s=60.0))], None)
    await asyncio.sleep(0)
    await one.post("a", wanted(1), [], None)
    assert not (await one.permits("a")).answers


@pytest.mark.parametrize("budget_usd", [None, 1.0])
@within_a_loop
async def test_a_worst_case_is_computed_where_there_is_a_budget_only(
    monkeypatch: pytest.MonkeyPatch, budget_usd: float | None
) -> None:
    computed: list[Request] = []

    def worst_case(request: Request) -> float:
        computed.append(request)
        return 0.1

    async def answer(_: Request) -> Reply:
        return Reply("4")

    monkeypatch.setattr("verdict_cli.features.ray.worker.worst_case_usd", worst_case)
    desk = Coordinator(4, budget_usd)
    await desk.begin("w", 0)
    client = SharedModelClient(Providers(), coordinator=Desk(desk), name="w", shared_budget_usd=budget_usd)
    ask = client.limit(answer)
    assert (await ask(Request(PINNED_ROW, "judge", MODEL, ()))).text == "4"
    await client.close()
    assert len(computed) == (budget_usd is not None)


class Desk:
    """The coordinator as an actor."""

    def __init__(self, desk: Coordinator) -> None:
        self.desk = desk

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=getattr(self.desk, name))


def test_batches_of_all_workers_count_towards_one_budget() -> None:
    budget = pytest.importorskip("verdict_cli.features.batches.waves").WaveBudget
    kind = pytest.importorskip("verdict_cli.features.batches.ledger").RequestFile
    desk = Coordinator(8, 1.0, 0.2)
    first, second = (budget(SharedSpending(1.0, lambda usd: asyncio.run(desk.spend(usd)))) for _ in range(2))
    model = Model(name="openai/m", cost={"input_per_million": 200, "output_per_million": 0})
    file = kind.__new__(kind)
    file.count, file.tokens = 10, 6_000  # $0.60 in a batch
    assert first.fitting([(model, file)]) == [(model, file, 10)]
    first.reserve(first.expected_usd(model, file))
    assert second.fitting([(model, file)]) == [(model, file, 3)]
    first.settle(0.6, 0.9)
    with pytest.raises(BudgetError, match="is spent"):
        second.fitting([(model, file)])
