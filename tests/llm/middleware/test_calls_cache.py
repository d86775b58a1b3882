from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from verdict_cli.errors import Retryable
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.middleware.replies import ReplySources, RequestDigests, answer_from
from verdict_cli.messages import Message, Reply, Request, Row
from verdict_cli.model import Model

MODEL = Model(name="gpt-4o-mini", api_base="http://127.0.0.1:1/v1", temperature=0.7)
REQUEST = Request(Row(0, "a", {}), "judge", MODEL, (Message("user", "rate this"),))


def asking(**fields: Any) -> Request:
    return replace(REQUEST, **fields)


def with_model(**settings: Any) -> Request:
    return replace(REQUEST, model=MODEL.model_copy(update=settings))


class Server:
    """Answers with the number of the call; ``faults`` are raised before the first answers."""

    def __init__(self, *faults: Exception) -> None:
        self.calls = 0
        self.faults = list(faults)

    async def ask(self, request: Request) -> Reply:
        self.calls += 1
        number = self.calls
        await asyncio.sleep(0)
        if self.faults:
            raise self.faults.pop(0)
        return Reply(str(number), cost_usd=0.5, latency_s=3.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CacheStore]:
    opened = CacheStore.open(tmp_path / "replies.sqlite3")
    try:
        yield opened
    finally:
        opened.close()


def digest(request: Request) -> bytes:
    """The request's digest in the shared cache."""
    digests = RequestDigests()
    plain = digests.get(request)
    assert plain is not None
    return digests.with_address(plain, request.model)


def one_by_one(ask: Callable[[Request], Awaitable[Reply]], *requests: Request) -> list[Reply]:
    async def run() -> list[Reply]:
        return [await ask(request) for request in requests]

    return asyncio.run(run())


def test_an_equal_request_is_answered_from_the_cache_free_of_charge_and_marked(
    store,
):
    server = Server()
    ask, _ = answer_from(server.ask, ReplySources(store=store))
    first, second = one_by_one(ask, REQUEST, asking(row=Row(7, "z", {}), attempt=1))
    assert server.calls == 1
    assert (first.text, first.cached, first.cost_usd) == ("1", False, 0.5)
    assert (second.text, second.cached, second.cost_usd, second.latency_s) == ("1", True, 0.0, 3.0)


def test_another_run_finds_what_an_earlier_one_stored(tmp_path):
    server = Server()
    for _ in range(2):
        store = CacheStore.open(tmp_path / "replies.sqlite3")
        ask, _ = answer_from(server.ask, ReplySources(store=store))
        one_by_one(ask, REQUEST)
        store.close()
    assert server.calls == 1


@pytest.mark.parametrize(
    "other",
    [
        asking(messages=(Message("user", "rate that"),)),
        asking(messages=(Message("system", "rate this"),)),
        asking(node="judge[1]"),
        asking(node="other"),
        asking(call=1),
        asking(seed=1),
        asking(json_schema={"type": "object"}),
        asking(top_logprobs=5),
        with_model(name="gpt-4o"),
        with_model(temperature=0.8),
        with_model(temperature=None),
        with_model(max_tokens=9),
        with_model(seed=1),
        with_model(stop="x"),
        with_model(structured="tool"),
        with_model(params={"top_k": 3}),
        with_model(api_base="http://127.0.0.1:2/v1"),
    ],
)
def test_whatever_may_change_the_reply_makes_another_request(other):
    assert digest(other) != digest(REQUEST)


@pytest.mark.parametrize(
    "equal_request",
    [
        asking(node="judge[0]"),
        asking(attempt=2),
        asking(row=Row(9, "q", {"a": 1})),
        asking(inserted=("x",)),
        with_model(retries=9),
        with_model(timeout=1.0),
        with_model(base_model="gpt-4o"),
        with_model(api_base="http://127.0.0.1:1/v1/"),
    ],
)
def test_what_cannot_change_the_reply_does_not_count(equal_request):
    assert digest(equal_request) == digest(REQUEST)


def test_the_order_in_which_parameters_are_written_does_not_count():
    first, second = with_model(params={"a": 1, "b": 2}), with_model(params={"b": 2, "a": 1})
    assert digest(first) == digest(second)


def test_repeated_units_draw_a_sample_each(store):
    ask, _ = answer_from(Server().ask, ReplySources(store=store))
    replies = one_by_one(ask, *(asking(node=f"judge[{n}]") for n in range(3)))
    assert [reply.text for reply in replies] == ["1", "2", "3"]


def test_equal_requests_in_flight_are_one_call(store):
    server = Server()
    ask, _ = answer_from(server.ask, ReplySources(store=store))

    async def run() -> list[Reply]:
        return await asyncio.gather(*(ask(REQUEST) for _ in range(20)))

    replies = asyncio.run(run())
    assert server.calls == 1
    assert sum(reply.cost_usd or 0 for reply in replies) == 0.5
    assert sum(reply.cached for reply in replies) == 19


def test_when_the_call_in_flight_fails_one_of_those_waiting_makes_it(store):
    server = Server(Retryable("gone"))
    ask, _ = answer_from(server.ask, ReplySources(store=store))

    async def run() -> list[Any]:
        return await asyncio.gather(*(ask(REQUEST) for _ in range(5)), return_exceptions=True)

    first, *others = asyncio.run(run())
    assert isinstance(first, Retryable)
    assert server.calls == 2
    assert [reply.text for reply in others] == ["2"] * 4


def test_when_the_call_in_flight_is_cancelled_the_others_are_answered(store):
    server = Server()
    ask, _ = answer_from(server.ask, ReplySources(store=store))

    async def run() -> list[Any]:
        tasks = [asyncio.ensure_future(ask(REQUEST)) for _ in range(4)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[2].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = asyncio.run(run())
    assert [isinstance(outcome, asyncio.CancelledError) for outcome in outcomes] == [
        True,
        False,
        True,
        False,
    ]
    assert server.calls == 2


def test_failures_are_not_stored(store):
    server = Server(Retryable("gone"))
    ask, _ = answer_from(server.ask, ReplySources(store=store))
    with pytest.raises(Retryable):
        one_by_one(ask, REQUEST)
    assert one_by_one(ask, REQUEST)[0].text == "2"


@pytest.mark.parametrize(
    ("reply", "fields"),
    [(Reply("half", finish_reason="length"), {}), (Reply("4", logprobs=None), {"top_logprobs": 5})],
)
def test_replies_that_fall_short_are_not_stored(store, reply, fields):
    calls = []

    async def provider(request: Request) -> Reply:
        calls.append(request)
        return reply

    ask, _ = answer_from(provider, ReplySources(store=store))
    one_by_one(ask, asking(**fields), asking(**fields))
    assert len(calls) == 2


def test_a_reply_that_could_not_be_read_is_forgotten(store):
    ask, forget = answer_from(Server().ask, ReplySources(store=store))

    async def run() -> list[str]:
        first = await ask(REQUEST)
        forget(REQUEST)
        return [first.text, (await ask(REQUEST)).text, (await ask(REQUEST)).text]

    assert asyncio.run(run()) == ["1", "2", "2"]


def test_models_that_may_not_be_cached_are_called_every_time(store):
    server = Server()
    ask, _ = answer_from(server.ask, ReplySources(store=store))
    request = with_model(cache=False)
    assert not any(reply.cached for reply in one_by_one(ask, request, request))
    assert server.calls == 2


def test_a_prompt_that_is_no_text_is_passed_on(store):
    server = Server()
    ask, _ = answer_from(server.ask, ReplySources(store=store))
    one_by_one(ask, asking(messages=(Message("user", "\ud800"),)))
    assert server.calls == 1
