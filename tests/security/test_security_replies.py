"""Whatever a server sends ends the call with an error of that call, within its limits of memory and time."""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from verdict_cli.errors import ProviderError, ReplyError, Retryable
from verdict_cli.models import Model
from verdict_cli.providers import native
from verdict_cli.providers.native import NativeProvider
from verdict_cli.values import Message, Reply, Request, Row

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
KEY = "sk-planted-0123456789abcdef"


def asked(handler: Handler, *, stream: bool = False, timeout_s: float = 20) -> Reply | Exception:
    async def run() -> Reply | Exception:
        heard: list[str] = []
        provider = NativeProvider(lambda _, said: heard.append(said))
        async with RawTestServer(handler) as server:
            model = Model(name="m", api_base=str(server.make_url("/v1")), timeout=timeout_s)
            request = Request(Row(0, 0, {}), "j", model, (Message("user", "x"),), stream=stream)
            try:
                return await provider.ask(request)
            except (ProviderError, ReplyError) as error:
                return error
            finally:
                await provider.close()

    return asyncio.run(run())


def body(content: bytes, status: int = 200, **headers: str) -> Handler:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=content, status=status, headers=named)

    return handler


def chat(**changes: Any) -> dict[str, Any]:
    choice = {"message": {"content": "ok"}, "finish_reason": "stop"}
    return {
        "choices": [choice],
        "model": "m",
        "usage": {"prompt_tokens": 1, "completion_tokens": 1},
    } | changes


BROKEN: dict[str, bytes] = {
    "bytes": bytes(range(256)),
    "nothing": b"",
    "not utf-8": b'{"choices": [{"message": {"content": "\xff\xfe"}}]}',
    "deep": b"[" * 1_000_000,
    "deep objects": b'{"a":' * 500_000,
    "a text": b'"hello"',
    "no choices": b"{}",
    "empty choices": b'{"choices": []}',
    "choices of numbers": b'{"choices": [1]}',
    "content of numbers": b'{"choices": [{"message": {"content": 5}}]}',
    "surrogate": b'{"choices": [{"message": {"content": "\\ud800"}}], "x": NaN}',
    "long number": b'{"choices": [], "x": ' + b"9" * 10_000 + b"}",
    "logprobs out of range": b'{"choices": [{"message": {"content": "ok"}, "logprobs": {"content": '
    b'[{"token": "a", "logprob": ' + b"9" * 400 + b"}]}}]" + b', "x": NaN}',
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_body_that_is_no_reply_is_an_error_of_the_call(name: str) -> None:
    assert isinstance(asked(body(BROKEN[name])), Retryable)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -5, "completion_tokens": 1},
        {"prompt_tokens": 10**400, "completion_tokens": 1},
        {"prompt_tokens": True, "completion_tokens": False},
        {"prompt_tokens": "5", "completion_tokens": []},
        {"prompt_tokens": float("nan"), "completion_tokens": float("inf")},
        [],
        "many",
    ],
)
def test_a_usage_that_is_none_counts_nothing(usage: Any) -> None:
    reply = asked(body(json.dumps(chat(usage=usage, x=float("nan"))).encode()))
    assert isinstance(reply, Reply)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (0, 0)


def test_cached_tokens_below_nothing_do_not_lower_the_cost() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": -(10**9)}}
    from verdict_cli.providers.chat import _usage

    assert _usage(usage)[1] == 0


def test_names_as_long_as_books_are_not_kept() -> None:
    reply = asked(body(json.dumps(chat(model="m" * 10**6)).encode()))
    assert isinstance(reply, Reply) and reply.model == "m"


def test_of_duplicate_keys_the_last_counts_as_json_says() -> None:
    twice = b'{"choices": [], "choices": [{"message": {"content": "no", "content": "ok"}}]}'
    reply = asked(body(twice))
    assert isinstance(reply, Reply) and reply.text == "ok"


EVENTS = {
    "a delta that is a text": {"choices": [{"delta": "x"}]},
    "choices that are a mapping": {"choices": {"a": 1}},
    "a choice that is a number": {"choices": [3]},
    "logprobs that are a list": {"choices": [{"logprobs": [1]}]},
    "a tool call far away": {"choices": [{"delta": {"tool_calls": [{"index": 10**9}]}}]},
    "a tool call before the first": {"choices": [{"delta": {"tool_calls": [{"index": -7}]}}]},
    "a function that is a text": {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": "f"}]}}]},
}


@pytest.mark.parametrize("name", EVENTS)
def test_a_stream_of_nonsense_is_an_error_of_the_call(name: str) -> None:
    line = b"data: " + json.dumps(EVENTS[name]).encode() + b"\n\n"
    assert isinstance(asked(body(line * 3, Content_Type="text/event-stream"), stream=True), Retryable)


def grown(run: Callable[[], object]) -> int:
    """By how many MiB the process's peak of memory has grown."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10


@pytest.mark.parametrize("status", [200, 500])
def test_a_stream_without_end_is_left_at_the_limit(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "LARGEST_BODY", 2**20)
    sent = 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        while True:
            await response.write(b"x" * 2**16)
            sent += 2**16

    error = asked(handler)
    assert isinstance(error, Retryable) and "larger than" in str(error)
    assert sent < 2**25


def test_a_stream_that_trickles_ends_with_the_calls_time() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.02)

    error = asked(handler, timeout_s=0.3)
    assert isinstance(error, Retryable) and error.failure == "timeout"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_packed_body_that_unpacks_to_far_more_is_left_at_the_limit(
    coding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "LARGEST_BODY", 2**23)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if coding == "gzip" else 15)
    packed = b"".join(packer.compress(b" " * 2**20) for _ in range(400)) + packer.flush()
    found: list[object] = []
    assert grown(lambda: found.append(asked(body(packed, Content_Encoding=coding)))) < 200
    assert isinstance(found[0], Retryable) and "larger than" in str(found[0])


def test_a_packed_body_is_read() -> None:
    packed = gzip.compress(json.dumps(chat()).encode())
    reply = asked(body(packed, Content_Encoding="gzip"))
    assert isinstance(reply, Reply) and reply.text == "ok"


@pytest.mark.parametrize("escaped", [False, True])
def test_a_key_that_an_error_repeats_is_not_told(escaped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    said = "".join(f"\\u{ord(letter):04x}" for letter in KEY) if escaped else KEY
    error = asked(body(b'{"error": {"message": "bad key: %b"}}' % said.encode(), 401))
    assert "bad key" in str(error) and KEY not in str(error) and KEY[3:] not in str(error)


@pytest.mark.parametrize("value", ["nan", "1e999", "-1", "Mon, 99 Foo 99999 99:99:99", "\u0661", "9" * 400])
def test_a_wait_that_is_none_is_not_waited_for(value: str) -> None:
    error = asked(body(b"{}", 429, Retry_After=value, x_ratelimit_remaining_requests=value))
    assert isinstance(error, Retryable)
