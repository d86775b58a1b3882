from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from verdict_cli.errors import ProviderError, Refused, Rejected, ReplyError, Retryable
from verdict_cli.llm.providers import native
from verdict_cli.llm.providers.chat_completions import CHAT
from verdict_cli.llm.providers.native import NativeProvider
from verdict_cli.llm.providers.wire_protocol import RequestBodies
from verdict_cli.messages import Allowance, Alternative, Message, Reply, Request, Usage
from verdict_cli.model import Cost, Model

Make = Callable[..., Request]
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
KEY = "sk-loopback-0123456789"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def sent(request: Request) -> Reply:
    async def run() -> Reply:
        provider = NativeProvider()
        try:
            return await provider.ask(request)
        finally:
            await provider.close()

    return asyncio.run(run())


def served(handler: Handler, request: Callable[[str], Request]) -> Reply:
    """The reply to a request made for a server with this handler."""

    async def run() -> Reply:
        provider = NativeProvider()
        async with RawTestServer(handler) as server:
            try:
                return await provider.ask(request(str(server.make_url("/v1"))))
            finally:
                await provider.close()

    return asyncio.run(run())


def answered(
    make: Make, content: bytes | dict[str, Any], status: int = 200, **headers: str
) -> Reply:
    """The reply where a server sends exactly this."""
    sent = content if isinstance(content, bytes) else json.dumps(content).encode()
    header_fields = {name.replace("_", "-"): value for name, value in headers.items()}

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=sent, status=status, headers=header_fields)

    return served(handler, lambda url: make(Model(name="judge-model", api_base=url)))


def chat(
    message: dict[str, Any], finish_reason: str | None = "stop", **more: Any
) -> dict[str, Any]:
    return {
        "choices": [{"message": message, "finish_reason": finish_reason, **more}],
        "model": "judge-1",
    }


def test_a_reply_carries_text_usage_cost_and_the_models_own_name(loopback, request_for):
    reply = sent(request_for(Model(name="gpt-4o-mini", api_base=loopback.url)))
    assert reply.text.endswith("Score: 4")
    assert reply.model == "gpt-4o-mini"
    used = reply.usage.prompt_tokens * 1.5e-7 + reply.usage.completion_tokens * 6e-7
    assert reply.cost_usd == pytest.approx(used)
    assert reply.latency_s > 0


def test_the_request_has_what_the_call_needs(request_for):
    received: dict[str, Any] = {}

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        received.update(path=request.path, body=await request.json(), headers=dict(request.headers))
        return web.json_response(chat({"content": "ok"}))

    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    served(
        handler,
        lambda url: request_for(
            Model(
                name="openai/my-judge",
                api_base=url + "/",
                temperature=0.5,
                stop=["END"],
                params={"extra_headers": {"X-Team": "a"}, "extra_body": {"guided": 1}, "top_k": 5},
            ),
            messages=(Message("system", "Be fair."), Message("user", "é?")),
            json_schema=schema,
            top_logprobs=7,
        ),
    )
    assert received["path"] == "/v1/chat/completions"
    assert received["headers"]["Authorization"] == f"Bearer {KEY}"
    assert received["headers"]["Content-Type"] == "application/json"
    assert received["headers"]["X-Team"] == "a"
    assert received["body"] == {
        "model": "my-judge",
        "messages": [{"role": "system", "content": "Be fair."}, {"role": "user", "content": "é?"}],
        "temperature": 0.5,
        "stop": ["END"],
        "guided": 1,
        "top_k": 5,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": schema, "strict": False},
        },
        "logprobs": True,
        "top_logprobs": 7,
    }


def test_a_closed_schema_is_requested_strictly(request_for):
    strict: list[bool] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        strict.append((await request.json())["response_format"]["json_schema"]["strict"])
        return web.json_response(chat({"content": "{}"}))

    inner: dict[str, Any] = {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    closed = {**inner, "properties": {"a": inner}, "required": ["a"]}
    opened = {**inner, "properties": {"a": {"type": "object", "properties": {}}}, "required": ["a"]}
    for schema in (closed, opened):
        served(
            handler,
            lambda url, schema=schema: request_for(
                Model(name="m", api_base=url), json_schema=schema
            ),  # type: ignore[misc]
        )
    assert strict == [True, False]


def test_reasoning_models_are_sent_the_newer_name_of_max_tokens(request_for):
    bodies: list[dict[str, Any]] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        bodies.append(await request.json())
        return web.json_response(chat({"content": "ok"}))

    for name in ("o3-mini", "gpt-5-mini", "gpt-4o"):
        served(
            handler,
            lambda url, name=name: request_for(Model(name=name, api_base=url, max_tokens=9)),
        )  # type: ignore[misc]
    assert [sorted(key for key in body if "tokens" in key) for body in bodies] == [
        ["max_completion_tokens"],
        ["max_completion_tokens"],
        ["max_tokens"],
    ]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "4"}, "4"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab"),
        (
            {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": '{"a":1}'}}]},
            '{"a":1}',
        ),
        ({"content": None, "function_call": {"name": "f", "arguments": '{"a":1}'}}, '{"a":1}'),
    ],
)
def test_the_text_is_read_from_any_place(request_for, message, text):
    assert answered(request_for, chat(message)).text == text


def test_logprobs_give_the_chosen_first_and_once(request_for):
    top = [
        {"token": "5", "logprob": -0.2},
        {"token": "4", "logprob": -1.5},
        {"token": "3", "logprob": None},
    ]
    content = [{"token": "4", "logprob": -1.5, "top_logprobs": top}]
    reply = answered(request_for, chat({"content": "4"}, logprobs={"content": content}))
    assert reply.logprobs is not None
    assert reply.logprobs[0][:2] == (Alternative("4", -1.5), Alternative("5", -0.2))
    assert [alternative.token for alternative in reply.logprobs[0]] == ["4", "5", "3"]


def test_a_missing_finish_reason_and_usage_are_no_error(request_for):
    reply = answered(request_for, chat({"content": "x"}, None))
    assert (reply.finish_reason, reply.usage, reply.cost_usd) == ("stop", Usage(), None)


@pytest.mark.parametrize("finish_reason", ["length", "model_length", "max_tokens"])
def test_a_text_cut_off_is_left_to_the_extractor(request_for, finish_reason):
    reply = answered(request_for, chat({"content": "half"}, finish_reason))
    assert reply.finish_reason == "length"


@pytest.mark.parametrize(
    ("message", "finish_reason", "error", "failure"),
    [
        ({"content": None, "refusal": "I cannot"}, "stop", ReplyError, "refused"),
        ({"content": ""}, "length", ReplyError, "cut-off"),
        ({"content": None}, "stop", ReplyError, "empty"),
        ({"content": " \n"}, "stop", ReplyError, "empty"),
        ({"content": ""}, "content_filter", Rejected, "content-filter"),
        ({"content": "half"}, "content_filter", Rejected, "content-filter"),
        ({"content": "half"}, "SAFETY", Rejected, "content-filter"),
        ({"content": "half"}, "abort", Retryable, "unavailable"),
        ({"content": "half"}, "insufficient_system_resource", Retryable, "unavailable"),
        ({"content": "4"}, "refusal", ReplyError, "refused"),
        ({"content": ""}, "refusal", ReplyError, "refused"),
        ({"content": ""}, "MAX_TOKENS", ReplyError, "cut-off"),
        (
            {"content": [{"type": "text", "text": "4"}, {"type": "refusal", "refusal": "no"}]},
            "stop",
            ReplyError,
            "refused",
        ),
    ],
)
def test_a_reply_that_is_none_is_never_a_text(
    request_for,
    message,
    finish_reason,
    error,
    failure,
):
    with pytest.raises(error) as caught:
        answered(request_for, chat(message, finish_reason))
    assert caught.value.failure == failure  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON: nested too deeply"),
        (b'{"choices": "\xff"}', "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "no choices"),
        (b'{"choices": []}', "no choices"),
        (b'{"error": {"message": "overloaded"}}', "overloaded"),
        (b'{"choices": [{}]}', "no message"),
        (b'{"choices": [null]}', "no message"),
        (b'{"choices": [{"message": {"content": 5}}]}', "int, not text"),
        (b'{"choices": [{"message": {"content": "4"}, "logprobs": 3}]}', "logprobs must be"),
        (b'{"choices": [{"message": {"content": "\\ud800"}}]}', "not JSON"),
    ],
)
def test_a_broken_envelope_is_retried_and_says_what_is_wrong(request_for, content, what):
    with pytest.raises(Retryable, match=what) as caught:
        answered(request_for, content)
    assert caught.value.failure == "unavailable"


def test_a_body_over_the_limit_is_not_read(request_for, monkeypatch):
    monkeypatch.setattr(native, "MAX_BODY", 2**20)
    with pytest.raises(Retryable, match="larger than 1 MiB"):
        answered(request_for, b" " * (2**20 + 1))


def test_a_prompt_of_megabytes_is_sent(request_for):
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        size = 0
        async for chunk in request.content.iter_any():
            size += len(chunk)
        return web.json_response(chat({"content": str(size)}))

    messages = (Message("user", "x" * 3_000_000),)
    reply = served(
        handler, lambda url: request_for(Model(name="m", api_base=url), messages=messages)
    )
    assert int(reply.text) > 3_000_000


def test_a_prompt_that_is_no_text_is_rejected(request_for):
    request = request_for(
        Model(name="m", api_base="http://127.0.0.1:9/v1"), messages=(Message("user", "\ud800"),)
    )
    with pytest.raises(Rejected, match="cannot be written as JSON"):
        sent(request)


def error(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "x", "param": None, "code": code}}


@pytest.mark.parametrize(
    ("status", "content", "error_class", "failure", "message"),
    [
        (401, error("bad key"), Refused, "refused-by-provider", "judge-model"),
        (403, error("region"), Refused, "refused-by-provider", "region"),
        (
            404,
            error("no such"),
            Refused,
            "refused-by-provider",
            "/v1/chat/completions knows no model judge-model",
        ),
        (307, {}, Refused, "refused-by-provider", "redirect"),
        (408, error("late"), Retryable, "timeout", "late"),
        (409, error("busy"), Retryable, "unavailable", "busy"),
        (425, error("early"), Retryable, "unavailable", "early"),
        (429, error("slow down"), Retryable, "rate-limit", "slow down"),
        (429, error("pay", "insufficient_quota"), Refused, "refused-by-provider", "out of quota"),
        (500, b"<html>oops</html>", Retryable, "unavailable", "oops"),
        (529, error("overloaded"), Retryable, "rate-limit", "overloaded"),
        (400, error("x", "context_length_exceeded"), Rejected, "context-too-long", "x"),
        (
            400,
            error("This model's maximum context length is 9 tokens"),
            Rejected,
            "context-too-long",
            "9 tokens",
        ),
        (400, error("no", "content_filter"), Rejected, "content-filter", "no"),
        (400, error("Invalid parameter: 'response_format'"), Rejected, "rejected", "post_hoc"),
        (422, {"detail": [{"msg": "field required"}]}, Rejected, "rejected", "field required"),
        (
            400,
            error("request (20149 tokens) exceeds the available context size (2048 tokens)"),
            Rejected,
            "context-too-long",
            "20149",
        ),
        (
            429,
            [{"error": {"message": "slow", "details": [{"quotaId": "RequestsPerDayPerProject"}]}}],
            Refused,
            "refused-by-provider",
            "out of quota",
        ),
        (418, b"", Rejected, "rejected", "(418)"),
    ],
)
def test_a_status_is_the_error_it_means(
    request_for,
    status,
    content,
    error_class,
    failure,
    message,
):
    with pytest.raises(error_class) as caught:
        answered(request_for, content, status)
    assert type(caught.value) is error_class
    assert (caught.value.failure, caught.value.status) == (failure, status)
    assert message in str(caught.value)


def test_the_wait_that_a_server_requests_is_respected(request_for):
    with pytest.raises(Retryable) as caught:
        answered(request_for, error("slow down"), 429, Retry_After="12")
    assert caught.value.retry_after_s == 12


def test_a_long_message_is_cut(request_for):
    with pytest.raises(Rejected) as caught:
        answered(request_for, error("long " * 1000), 400)
    assert len(caught.value.message) < 600


def test_no_message_holds_the_key(request_for):
    for status in (400, 401, 429, 500):
        with pytest.raises(ProviderError) as caught:
            answered(request_for, error(f"Incorrect API key provided: {KEY}."), status)
        assert KEY not in str(caught.value)


def test_a_key_with_a_line_break_in_it_is_refused_without_showing_it(request_for, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-one\nsk-two")
    with pytest.raises(Refused, match="OPENAI_API_KEY") as caught:
        sent(request_for(Model(name="m", api_base="http://127.0.0.1:9/v1")))
    assert "sk-" not in str(caught.value)


def test_an_address_where_nobody_listens_is_named(request_for):
    with pytest.raises(Retryable, match=r"127\.0\.0\.1:9\b") as caught:
        sent(request_for(Model(name="m", api_base="http://127.0.0.1:9/v1?key=secret")))
    assert caught.value.failure == "unavailable"
    assert "secret" not in str(caught.value)


def test_a_body_that_stops_half_way_is_retried(request_for):
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.close()
        return response

    with pytest.raises(Retryable) as caught:
        served(handler, lambda url: request_for(Model(name="m", api_base=url)))
    assert caught.value.failure == "unavailable"


def test_the_deadline_covers_a_body_that_trickles(request_for):
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b" ")
            await asyncio.sleep(0.02)
        return response

    with pytest.raises(Retryable, match=r"within 0\.2 s") as caught:
        served(handler, lambda url: request_for(Model(name="m", api_base=url, timeout=0.2)))
    assert caught.value.failure == "timeout"


@pytest.mark.parametrize("chunked", [False, True])
def test_calls_one_after_another_take_one_connection(request_for, chunked):
    peers = set()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        response = web.Response(body=json.dumps(chat({"content": "x" * 300_000})).encode())
        if chunked:
            response.enable_chunked_encoding()
        return response

    async def run() -> None:
        provider = NativeProvider()
        async with RawTestServer(handler) as server:
            request = request_for(Model(name="m", api_base=str(server.make_url("/v1"))))
            for _ in range(4):
                await provider.ask(request)
            await provider.close()

    asyncio.run(run())
    assert len(peers) == 1


def test_own_prices_are_used(request_for):
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        usage = {"prompt_tokens": 1_000_000, "completion_tokens": 500_000}
        return web.json_response({**chat({"content": "x"}), "usage": usage})

    cost = Cost(input_per_million=2, output_per_million=4)
    reply = served(handler, lambda url: request_for(Model(name="m", api_base=url, cost=cost)))
    assert reply.cost_usd == 4.0


def test_litellm_is_not_imported():
    code = "import sys, verdict_cli.llm.providers, verdict_cli.llm.providers.native; print('litellm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_package_imports_nothing_heavy():
    code = (
        "import sys, verdict_cli.llm.providers, verdict_cli.llm.middleware;"
        "print([m for m in ('litellm', 'aiohttp', 'pyarrow', 'numpy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_limits_in_the_headers_come_with_replies_and_with_refusals(request_for):
    headers = {"x_ratelimit_remaining_requests": "0", "x_ratelimit_reset_requests": "2s"}
    assert answered(request_for, chat({"content": "4"}), **headers).allowance == Allowance(
        None, 0, 2.0
    )
    with pytest.raises(Retryable) as caught:
        answered(request_for, error("slow down"), 429, **headers)
    assert caught.value.allowance == Allowance(None, 0, 2.0)
    assert answered(request_for, chat({"content": "4"})).allowance is None


def test_models_of_one_endpoint_keep_their_own_headers_when_they_alternate(
    request_for,
):
    received: list[str | None] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        received.append(request.headers.get("X-Team"))
        return web.json_response(chat({"content": "4"}))

    async def run() -> None:
        provider = NativeProvider()
        async with RawTestServer(handler) as server:
            base = str(server.make_url("/v1"))
            plain = Model(name="judge-model", api_base=base)
            teams = [
                plain.model_copy(update={"params": {"extra_headers": {"X-Team": team}}})
                for team in "ab"
            ]
            for model in (*teams, plain, *teams):
                await provider.ask(request_for(model))
            await provider.close()

    asyncio.run(run())
    assert received == ["a", "b", None, "a", "b"]


def test_the_parameters_that_were_really_sent_come_with_the_reply(request_for):
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(chat({"content": "4"}))

    params = {"extra_headers": {"X-Secret": "s"}, "extra_body": {"guided": 1}, "top_k": 5}
    reply = served(
        handler,
        lambda url: request_for(
            Model(name="o3-mini", api_base=url, max_tokens=9, params=params), top_logprobs=2
        ),
    )
    assert json.loads(reply.sent) == {
        "top_k": 5,
        "guided": 1,
        "max_completion_tokens": 9,
        "logprobs": True,
        "top_logprobs": 2,
    }


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"])
def test_a_call_goes_by_the_proxy_that_the_environment_sets(request_for, monkeypatch, variable):
    requests = []

    async def handler(request: web.BaseRequest) -> web.Response:
        requests.append((request.path, request.host))
        return web.json_response(chat({"content": "said"}))

    def through(url: str) -> Request:
        monkeypatch.setenv(variable, url)
        return request_for(Model(name="m", api_base="http://model.invalid/v1"))

    assert served(handler, through).text == "said"
    assert requests == [("/v1/chat/completions", "model.invalid")]


def test_a_process_that_ends_right_after_a_failed_call_ends_in_order():
    code = """
import asyncio
from verdict_cli.model import Model
from verdict_cli.llm.providers.native import NativeProvider
from verdict_cli.messages import Message, Request, Row

async def main():
    provider = NativeProvider()
    model = Model(name="m", api_base="http://127.0.0.1:9/v1")
    try:
        await provider.ask(Request(Row(0, 0, {}), "judge", model, (Message("user", "?"),)))
    except Exception as error:
        print(type(error).__name__)

asyncio.run(main())
"""
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "Retryable\n", "")


@pytest.mark.parametrize("status", [429, 503])
def test_a_delay_in_the_body_is_read(request_for, status):
    retry_info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}
    words = "You exceeded your current quota, please check your plan and billing details."
    with pytest.raises(Retryable) as caught:
        answered(request_for, {"error": {"message": words, "details": [retry_info]}}, status)
    assert (caught.value.failure, caught.value.retry_after_s) == ("rate-limit", 34)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("\ufeffsk-test", "zero width no-break space (U+FEFF)"),
        ("sk\u2013test", "en dash (U+2013)"),
        ("sk-a\nb", "a line break (U+000A)"),
        ("sk-a\x1bb", "a control character (U+001B)"),
    ],
)
def test_a_key_that_no_header_can_hold_is_reported_with_the_character(
    request_for, monkeypatch, key, message
):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(Refused, match="OPENAI_API_KEY") as caught:
        sent(request_for(Model(name="m", api_base="http://127.0.0.1:9/v1")))
    assert message in caught.value.message and "sk" not in caught.value.message


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"name": "openai/dep", "base_model": "azure/gpt-5-mini"}, "max_completion_tokens"),
        ({"name": "openai/dep", "base_model": "openai/o3"}, "max_completion_tokens"),
        (
            {"name": "openai/dep", "base_model": "openrouter/openai/gpt-5-mini"},
            "max_completion_tokens",
        ),
        ({"name": "hosted_vllm/openai/gpt-5-mini"}, "max_completion_tokens"),
        ({"name": "openrouter/openai/o4-mini"}, "max_completion_tokens"),
        ({"name": "openai/o365-helper"}, "max_tokens"),
        ({"name": "hosted_vllm/org/demo3-gpt-5"}, "max_tokens"),
        ({"name": "openai/dep", "base_model": "azure/gpt-4o"}, "max_tokens"),
        ({"name": "openai/gpt-5-mini", "base_model": "mine"}, "max_tokens"),
    ],
)
def test_the_newer_name_of_max_tokens_is_sent_behind_any_prefix(request_for, settings, key):
    model = Model(api_base="http://127.0.0.1:1/v1", max_tokens=5, **settings)
    name = model.name.partition("/")[2]
    body, _ = RequestBodies().get(request_for(model), CHAT, name, "schema")
    assert json.loads(body)[key] == 5
    assert ("max_tokens" in json.loads(body)) is (key == "max_tokens")


def test_a_cancelled_task_that_got_a_reply_all_the_same_makes_no_further_call(
    loopback, request_for
):
    to_send = request_for(Model(name="openai/m", api_base=loopback.url))

    async def go_on() -> Reply:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        provider = NativeProvider()
        try:
            return await provider.ask(to_send)
        finally:
            await provider.close()

    async def run() -> None:
        task = asyncio.create_task(go_on())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
