from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from verdict_cli.errors import Rejected, ReplyError, Retryable
from verdict_cli.llm.providers import Providers
from verdict_cli.llm.providers.native import NativeProvider
from verdict_cli.llm.providers.wire_protocol import TOOL
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Model

Make = Callable[..., Request]
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}


class Server:
    """A server that refuses some ways of asking for JSON, and says which ways it was asked in."""

    def __init__(self, *refused: str, says: str = "Unsupported: {way}", status: int = 400) -> None:
        self.refused = refused
        self.says = says
        self.status = status
        self.ways: list[str] = []
        self.prompts: list[str] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.json()
        way = "schema" if "response_format" in body else "tool" if "tools" in body else "prompt"
        self.ways.append(way)
        self.prompts.append(body["messages"][-1]["content"])
        if way in self.refused:
            spelled = {"schema": "response_format", "tool": "tool_choice", "prompt": "messages"}[
                way
            ]
            message = self.says.format(way=spelled)
            return web.json_response({"error": {"message": message}}, status=self.status)
        text = json.dumps({"score": 4})
        message_: dict[str, Any] = {"content": text}
        if way == "tool":
            message_ = {
                "content": "let me see",
                "tool_calls": [{"function": {"name": TOOL, "arguments": text}}],
            }
        return web.json_response({"choices": [{"message": message_, "finish_reason": "stop"}]})


def answers(server: Server, make: Make, count: int = 2, **fields: Any) -> list[Any]:
    """What one provider answers to so many requests, one after another."""

    async def run() -> list[Any]:
        provider = NativeProvider()
        async with RawTestServer(server.handle) as served:
            request = make(Model(name="m", api_base=str(served.make_url("/v1"))), **fields)
            results: list[Any] = []
            for _ in range(count):
                try:
                    results.append(await provider.ask(request))
                except (Rejected, ReplyError) as problem:
                    results.append(problem)
            await provider.close()
            return results

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("refused", "ways", "sent"),
    [
        ((), ["schema", "schema"], {"response_format": "json_schema"}),
        (("schema",), ["schema", "tool", "tool"], {"tools": [TOOL], "tool_choice": TOOL}),
        (("schema", "tool"), ["schema", "tool", "prompt", "prompt"], {}),
    ],
)
def test_the_best_way_that_a_server_takes_is_determined_once_and_recorded(
    request_for, refused, ways, sent
):
    server = Server(*refused)
    replies = answers(server, request_for, json_schema=SCHEMA)
    assert [reply.text for reply in replies] == ['{"score": 4}'] * 2
    assert server.ways == ways
    assert json.loads(replies[-1].sent) == sent


def test_the_instruction_ends_the_last_message(request_for):
    server = Server("schema", "tool")
    answers(server, request_for, json_schema=SCHEMA)
    assert server.prompts[0] == server.prompts[1]
    assert server.prompts[2].startswith(server.prompts[0])
    assert json.loads(server.prompts[2].partition("Schema:\n")[2]) == SCHEMA


def test_a_request_at_fault_gives_its_first_refusal_and_teaches_nothing(
    request_for,
):
    server = Server("schema", "tool", "prompt", says="the year {way} is wrong")
    first, second = answers(server, request_for, json_schema=SCHEMA)
    assert isinstance(first, Rejected) and "response_format" in first.message
    assert isinstance(second, Rejected)
    assert server.ways == ["schema", "tool", "prompt"] * 2


def test_a_way_that_has_worked_is_left_only_when_the_refusal_names_it(request_for):
    server = Server(says="the prompt is bad")

    async def run() -> list[str]:
        provider = NativeProvider()
        async with RawTestServer(server.handle) as served:
            request = request_for(
                Model(name="m", api_base=str(served.make_url("/v1"))), json_schema=SCHEMA
            )
            await provider.ask(request)
            server.refused = ("schema",)
            with pytest.raises(Rejected):
                await provider.ask(request)
            server.says = "no {way} today"
            await provider.ask(request)
            await provider.close()
        return server.ways

    assert asyncio.run(run()) == ["schema", "schema", "schema", "tool"]


@pytest.mark.parametrize(
    ("says", "failure"),
    [
        ("maximum context length is 9 tokens", "context-too-long"),
        ("content_filter", "content-filter"),
    ],
)
def test_a_refusal_of_another_kind_is_no_reason_to_ask_in_another_way(request_for, says, failure):
    server = Server("schema", says=says)
    (problem,) = answers(server, request_for, 1, json_schema=SCHEMA)
    assert problem.failure == failure
    assert server.ways == ["schema"]


def test_free_text_is_requested_in_one_way(request_for):
    server = Server("prompt")
    answers(server, request_for, 1)
    assert server.ways == ["prompt"]


@pytest.mark.parametrize(
    ("message", "finish_reason", "failure"),
    [
        ({"content": None, "refusal": "I cannot"}, "stop", "refused"),
        ({"content": "", "reasoning_content": "hm, so many"}, "length", "cut-off"),
        ({"content": None, "reasoning_content": "hm"}, "stop", "empty"),
        ({"content": "half"}, "content_filter", "content-filter"),
        ({"content": [{"type": "text", "text": 5}]}, "stop", "empty"),
    ],
)
def test_a_reply_that_is_none_carries_what_was_paid_for(
    request_for, message, finish_reason, failure
):
    class Paid(Server):
        async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
            choice = {"message": message, "finish_reason": finish_reason}
            usage = {"prompt_tokens": 90, "completion_tokens": 10}
            return web.json_response({"choices": [choice], "usage": usage})

    (problem,) = answers(Paid(), request_for, 1)
    assert problem.failure == failure
    assert isinstance(problem.reply, Reply)
    assert (problem.reply.usage.prompt_tokens, problem.reply.usage.completion_tokens) == (90, 10)


@pytest.mark.parametrize("content", [5, {"a": [1]}, True])
def test_a_content_that_is_no_text_carries_what_was_paid_for(request_for, content):
    class Paid(Server):
        async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
            usage = {"prompt_tokens": 90, "completion_tokens": 10}
            return web.json_response(
                {"choices": [{"message": {"content": content}}], "usage": usage}
            )

    with pytest.raises(Retryable) as caught:
        answers(Paid(), request_for, 1)
    assert caught.value.reply is not None
    assert (caught.value.reply.usage.prompt_tokens, caught.value.reply.usage.completion_tokens) == (
        90,
        10,
    )


def test_reasoning_beside_the_content_is_no_part_of_the_reply(request_for):
    class Reasoning(Server):
        async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
            message = {"content": "4", "reasoning_content": "so 5?", "reasoning": "5"}
            return web.json_response({"choices": [{"message": message}]})

    (reply,) = answers(Reasoning(), request_for, 1)
    assert reply.text == "4"


def test_a_tools_arguments_may_be_an_object(request_for):
    class Objects(Server):
        async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
            message = {"tool_calls": [{"function": {"name": TOOL, "arguments": {"score": 4}}}]}
            return web.json_response({"choices": [{"message": message}]})

    (reply,) = answers(Objects(), request_for, 1)
    assert json.loads(reply.text) == {"score": 4}


def test_after_a_status_500_the_next_way_is_tried(
    request_for,
):
    """As llama-cpp-python's server does."""
    server = Server(
        "schema", says="1 validation error: {{'loc': ('body', '{way}', 'type')}}", status=500
    )
    replies = answers(server, request_for, json_schema=SCHEMA)
    assert [reply.text for reply in replies] == ['{"score": 4}'] * 2
    assert server.ways == ["schema", "tool", "tool"]


@pytest.mark.parametrize(
    ("says", "requested"),
    [
        ("top_logprobs must be less than or equal to 5", [20, 5, 5]),
        ("Invalid value for 'top_logprobs': must be between 0 and 5, got 20", [20, 5, 5]),
        ("`logprobs` exceeds the maximum of 5", [20, 5, 5]),
        ("Unsupported value: top_logprobs", [20, 5, 5]),
    ],
)
def test_fewer_alternatives_are_requested_where_a_server_takes_fewer(request_for, says, requested):
    counts: list[int] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        counts.append((await request.json())["top_logprobs"])
        if counts[-1] > 5:
            return web.json_response({"error": {"message": says}}, status=400)
        token = {"token": "4", "logprob": -0.1, "top_logprobs": [{"token": "4", "logprob": -0.1}]}
        choice = {
            "message": {"content": "4"},
            "finish_reason": "stop",
            "logprobs": {"content": [token]},
        }
        return web.json_response({"choices": [choice]})

    async def run() -> None:
        providers = Providers()
        async with RawTestServer(handle) as served:
            model = Model(name="openai/m", api_base=str(served.make_url("/v1")))
            for _ in range(2):
                assert (await providers.ask(request_for(model, top_logprobs=20))).logprobs
        await providers.close()

    asyncio.run(run())
    assert counts == requested


@pytest.mark.parametrize(("key", "requested"), [(None, 20), (3, 3), (40, 40)])
def test_the_models_own_number_of_alternatives_is_requested(request_for, key, requested):
    counts: list[int] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        counts.append((await request.json())["top_logprobs"])
        token = {"token": "4", "logprob": -0.1, "top_logprobs": [{"token": "4", "logprob": -0.1}]}
        choice = {
            "message": {"content": "4"},
            "finish_reason": "stop",
            "logprobs": {"content": [token]},
        }
        return web.json_response({"choices": [choice]})

    async def run() -> None:
        providers = Providers()
        async with RawTestServer(handle) as served:
            model = Model(name="openai/m", api_base=str(served.make_url("/v1")), top_logprobs=key)
            assert (await providers.ask(request_for(model, top_logprobs=20))).logprobs
        await providers.close()

    asyncio.run(run())
    assert counts == [requested]


def test_another_rejection_of_a_request_for_log_probabilities_is_raised(request_for):
    async def refuse(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(
            {"error": {"message": "logprobs are not supported by this model"}}, status=400
        )

    async def run() -> None:
        providers = Providers()
        async with RawTestServer(refuse) as served:
            model = Model(name="openai/m", api_base=str(served.make_url("/v1")))
            with pytest.raises(Rejected, match="not supported"):
                await providers.ask(request_for(model, top_logprobs=20))
        await providers.close()

    asyncio.run(run())


def test_a_better_way_is_tried_again_later_and_stays_once_the_server_takes_it(
    request_for,
):
    server = Server("schema", "tool")

    async def run() -> None:
        provider = NativeProvider()
        async with RawTestServer(server.handle) as served:
            request = request_for(
                Model(name="m", api_base=str(served.make_url("/v1"))), json_schema=SCHEMA
            )
            for _ in range(100):
                await provider.ask(request)
            server.refused = ()
            for _ in range(102):
                await provider.ask(request)
            await provider.close()

    asyncio.run(run())
    assert server.ways == [
        "schema", "tool", *["prompt"] * 100, *["tool"] * 100, "schema", "schema"
    ]  # fmt: skip


def test_a_better_way_that_is_refused_loses_no_reply_and_is_tried_less_and_less(
    request_for,
):
    server = Server("schema")
    replies = answers(server, request_for, 1_300, json_schema=SCHEMA)
    assert {reply.text for reply in replies} == {'{"score": 4}'}
    assert [place for place, way in enumerate(server.ways) if way == "schema"] == [0, 101, 1102]


def test_no_way_above_a_chosen_one_is_tried(request_for):
    server = Server()

    async def run() -> None:
        provider = NativeProvider()
        async with RawTestServer(server.handle) as served:
            model = Model(name="m", api_base=str(served.make_url("/v1")), structured="words")
            for _ in range(150):
                await provider.ask(request_for(model, json_schema=SCHEMA))
            await provider.close()

    asyncio.run(run())
    assert set(server.ways) == {"prompt"}
