"""Whatever a server sends ends the call with an error of that call, within its limits of memory and time."""

from __future__ import annotations

import asyncio
import contextlib
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
from verdict_cli.llm.providers import native
from verdict_cli.llm.providers.http_errors import Source, error_detail
from verdict_cli.llm.providers.litellm_errors import translate
from verdict_cli.llm.providers.native import NativeProvider
from verdict_cli.llm.providers.read_reply import read_body
from verdict_cli.llm.providers.usage import read_usage
from verdict_cli.messages import Message, Reply, Request, Row, Usage
from verdict_cli.model import Model

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
KEY = "planted-0123456789abcdef"


def answer_to(
    handler: Handler, *, stream: bool = False, timeout_s: float = 20, log: list[str] | None = None
) -> Reply | Exception:
    async def run() -> Reply | Exception:
        provider = NativeProvider(lambda _, message: ([] if log is None else log).append(message))
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
        header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=content, status=status, headers=header_fields)

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
    "deep and balanced": b'{"a":' * 300 + b"1" + b"}" * 300,
    "a long number beside NaN": b'{"a": ' + b"9" * 40 + b', "b": NaN}',
    "an infinite logprob": b'{"choices": [{"message": {"content": "ok"}, "logprobs": {"content": '
    b'[{"token": "a", "logprob": Infinity}]}}]}',
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
def test_a_body_that_is_no_reply_is_an_error_of_the_call(name):
    assert isinstance(answer_to(body(BROKEN[name])), Retryable)


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
def test_a_usage_that_is_none_counts_nothing(usage):
    reply = answer_to(body(json.dumps(chat(usage=usage, x=float("nan"))).encode()))
    assert isinstance(reply, Reply)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (0, 0)


def test_cached_tokens_below_nothing_do_not_lower_the_cost():
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": -(10**9)},
    }
    read = read_usage(usage)
    assert read is not None and read.cached_tokens == 0


USED = {"prompt_tokens": 1_000_000, "completion_tokens": 1_000_000}
PRICED = Model(name="m", cost={"input_per_million": 1.0, "output_per_million": 2.0})
PAID_FOR: dict[str, bytes] = {
    "content of numbers": b'{"choices": [{"message": {"content": 5}}], "usage": %b}',
    "surrogate": b'{"choices": [{"message": {"content": "\\ud800"}}], "usage": %b}',
    "no message": b'{"choices": [{}], "usage": %b}',
    "no choices": b'{"usage": %b}',
    "deep": b'{"choices": [{"message": {"content": '
    + b"[" * 100_000
    + b"]" * 100_000
    + b'}}], "usage": %b}',
    "not utf-8": b'{"choices": [{"message": {"content": "\xff"}}], "usage": %b}',
    "logprobs of nonsense": b'{"choices": [{"message": {"content": "ok"}, "logprobs": 5}], "usage": %b}',
    "cut off": b'{"usage": %b, "choices": [{"message": {"content": "x',
    "an escaped usage within": b'{"usage": %b, "choices": [{"message": {"content": "\\"usage\\": {\\"prompt_tokens\\": 1}',
}


@pytest.mark.parametrize("name", PAID_FOR)
def test_an_unreadable_reply_that_says_what_it_used_is_paid_for(name):
    content = PAID_FOR[name].replace(b"%b", json.dumps(USED).encode())
    request = Request(Row(0, 0, {}), "j", PRICED, (Message("user", "x"),))
    with pytest.raises(Retryable) as caught:
        read_body(content, request, Source("m", latency_s=0.5))
    assert caught.value.reply == Reply(
        "", "error", usage=Usage(1_000_000, 1_000_000), cost_usd=3.0, model="m", latency_s=0.5
    )


def test_a_stream_that_broke_off_is_paid_for_where_it_says_what_it_used():
    content = (
        b'data: {"choices": [{"delta": {"content": "x"}}], "usage": %b}\n\n'
        % json.dumps(USED).encode()
    )
    request = Request(Row(0, 0, {}), "j", PRICED, (Message("user", "x"),), stream=True)
    with pytest.raises(Retryable) as caught:
        read_body(content, request, Source("m", latency_s=0.5))
    assert caught.value.reply is not None and caught.value.reply.cost_usd == 3.0


@pytest.mark.parametrize("name", BROKEN)
def test_an_unreadable_reply_that_says_nothing_of_it_has_no_cost(name):
    error = answer_to(body(BROKEN[name]))
    assert isinstance(error, Retryable) and error.reply is None


def test_names_as_long_as_books_are_not_stored():
    reply = answer_to(body(json.dumps(chat(model="m" * 10**6)).encode()))
    assert isinstance(reply, Reply) and reply.model == "m"


def test_of_duplicate_keys_the_last_counts_as_json_says():
    twice = b'{"choices": [], "choices": [{"message": {"content": "no", "content": "ok"}}]}'
    reply = answer_to(body(twice))
    assert isinstance(reply, Reply) and reply.text == "ok"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("depth", [400, 900, 960, 980, 990, 1000, 1015, 5000])
@pytest.mark.parametrize(
    "around",
    [
        b'{"error": %b}',
        b'{"choices": [{"message": {"refusal": %b}}]}',
        b'{"choices": [{"message": {"content": "x"}, "logprobs": {"content": %b}}]}',
        b'{"choices": [{"message": {"tool_calls": [{"function": {"name": "reply", "arguments": {"a": %b}}}]}}]}',
        b'data: {"choices": [{"delta": %b}]}\n\n',
        b'data: {"error": %b}\n\n',
    ],
)
def test_however_deep_a_body_is_it_is_an_error_of_the_call(around, depth, stream):
    request = Request(Row(0, 0, {}), "j", Model(name="m"), (Message("user", "x"),), stream=stream)
    for deep in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
        for hidden in ((), (KEY,)):
            with contextlib.suppress(ProviderError, ReplyError):
                read_body(around % deep, request, Source("m"), hidden)
            error_detail(around % deep, hidden)


CALLED = {"name": "reply", "arguments": "{}"}
EVENTS = {
    "a delta that is a text": {"choices": [{"delta": "x"}]},
    "choices that are a mapping": {"choices": {"a": 1}},
    "a choice that is a number": {"choices": [3]},
    "logprobs that are a list": {"choices": [{"logprobs": [1]}]},
    "a tool call far away": {
        "choices": [
            {
                "delta": {"tool_calls": [{"index": 10**9, "function": CALLED}]},
                "finish_reason": "stop",
            }
        ]
    },
    "a tool call before the first": {
        "choices": [
            {"delta": {"tool_calls": [{"index": -7, "function": CALLED}]}, "finish_reason": "stop"}
        ]
    },
    "a function that is a text": {
        "choices": [{"delta": {"tool_calls": [{"index": 0, "function": "f"}]}}]
    },
}


@pytest.mark.parametrize("name", EVENTS)
def test_a_stream_of_nonsense_is_an_error_of_the_call(name):
    line = b"data: " + json.dumps(EVENTS[name]).encode() + b"\n\n"
    assert isinstance(
        answer_to(body(line * 3, Content_Type="text/event-stream"), stream=True), Retryable
    )


def grown(run: Callable[[], object]) -> int:
    """By how many MiB the process's peak of memory has grown."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10


@pytest.mark.parametrize("status", [200, 500])
def test_a_stream_without_end_is_left_at_the_limit(status, monkeypatch):
    monkeypatch.setattr(native, "MAX_BODY", 2**20)
    sent = 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        while True:
            await response.write(b"x" * 2**16)
            sent += 2**16

    error = answer_to(handler)
    assert isinstance(error, Retryable) and "larger than" in str(error)
    assert sent < 2**25


def test_a_stream_that_trickles_ends_with_the_calls_time():
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.02)

    error = answer_to(handler, timeout_s=0.3)
    assert isinstance(error, Retryable) and error.failure == "timeout"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_packed_body_that_unpacks_to_far_more_is_left_at_the_limit(coding, monkeypatch):
    monkeypatch.setattr(native, "MAX_BODY", 2**23)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if coding == "gzip" else 15)
    packed = b"".join(packer.compress(b" " * 2**20) for _ in range(400)) + packer.flush()
    answers: list[object] = []
    assert grown(lambda: answers.append(answer_to(body(packed, Content_Encoding=coding)))) < 200
    assert isinstance(answers[0], Retryable) and "larger than" in str(answers[0])


def test_a_packed_body_is_read():
    packed = gzip.compress(json.dumps(chat()).encode())
    reply = answer_to(body(packed, Content_Encoding="gzip"))
    assert isinstance(reply, Reply) and reply.text == "ok"


@pytest.mark.parametrize("escaped", [False, True])
def test_a_key_that_an_error_repeats_is_removed(escaped, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    key_text = "".join(f"\\u{ord(letter):04x}" for letter in KEY) if escaped else KEY
    error = answer_to(body(b'{"error": {"message": "bad key: %b"}}' % key_text.encode(), 401))
    assert "bad key" in str(error) and KEY not in str(error) and KEY[3:] not in str(error)


def spelled(text: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


TOLD: dict[str, dict[str, Any]] = {
    "the text": {"choices": [{"message": {"content": f"ok {KEY}"}, "finish_reason": "stop"}]},
    "the model's name": {"model": f"m {KEY}"},
    "the reason why it ended": {
        "choices": [{"message": {"content": "ok"}, "finish_reason": f"stop {KEY}"}]
    },
    "a tool's arguments": {
        "choices": [
            {
                "message": {
                    "tool_calls": [{"function": {"name": "reply", "arguments": {KEY: [KEY]}}}]
                }
            }
        ]
    },
    "a token": {
        "choices": [
            {
                "message": {"content": "ok"},
                "logprobs": {
                    "content": [
                        {
                            "token": KEY,
                            "logprob": -0.1,
                            "top_logprobs": [{"token": KEY, "logprob": -1}],
                        }
                    ]
                },
            }
        ]
    },
    "a refusal": {"choices": [{"message": {"refusal": f"no {KEY}"}}]},
    "an error in place of choices": {"choices": [], "error": {"message": KEY}},
}


@pytest.mark.parametrize("escaped", ["not", "as numbers", "a slash"])
@pytest.mark.parametrize("place", TOLD)
def test_a_key_that_a_reply_repeats_is_in_no_part_of_it(place, escaped, monkeypatch):
    key = KEY.replace("-", "/") if escaped == "a slash" else KEY
    monkeypatch.setenv("OPENAI_API_KEY", key)
    body_ = json.dumps(chat(**TOLD[place])).replace(
        KEY, {"not": KEY, "as numbers": spelled(KEY), "a slash": key.replace("/", "\\/")}[escaped]
    )
    answer = answer_to(body(body_.encode()))
    reply = answer.reply if isinstance(answer, ReplyError) else answer
    for text in (repr(reply), str(answer)):
        assert key not in text and key[3:] not in text
    assert "(key)" in repr(reply) + str(answer)


def test_a_key_in_the_pieces_of_a_stream_is_put_together_nowhere(
    monkeypatch,
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    events = [
        {"choices": [{"delta": {"content": KEY[:9]}}]},
        {"choices": [{"delta": {"content": KEY[9:]}}], "model": KEY},
        {"choices": [{"delta": {"content": f" {KEY}"}, "finish_reason": "stop"}]},
    ]
    content = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    log: list[str] = []
    answer = answer_to(body(content, Content_Type="text/event-stream"), stream=True, log=log)
    assert isinstance(answer, Reply)
    assert (answer.text, answer.model) == ("(key) (key)", "(key)")
    assert f" {KEY}" not in "".join(log)


@pytest.mark.parametrize(
    "text", [f"no {KEY}", "x" * 490 + KEY + "y" * 99, f"litellm.X: Exception - {KEY}"]
)
@pytest.mark.parametrize("kind", [OSError, ValueError])
def test_a_key_in_litellms_words_is_removed(kind, text):
    problem = kind(text)
    if kind is ValueError:
        problem.message = text  # type: ignore[attr-defined]
        assert KEY[:8] not in translate("m", problem, (KEY,)).message
    else:
        assert KEY not in translate("m", problem, (KEY,)).message


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status):
    paths: list[str] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        paths.append(request.path)
        if request.path == "/elsewhere":
            return web.json_response(chat())
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    assert isinstance(answer_to(handler), ProviderError)
    assert paths == ["/v1/chat/completions"]


@pytest.mark.parametrize(
    "value", ["nan", "1e999", "-1", "Mon, 99 Foo 99999 99:99:99", "\u0661", "9" * 400]
)
def test_a_wait_that_is_none_is_not_waited_for(value):
    error = answer_to(body(b"{}", 429, Retry_After=value, x_ratelimit_remaining_requests=value))
    assert isinstance(error, Retryable)
