"""litellm's path and the native path: the same server behaviour means the same reply or error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from verdict_cli.errors import ProviderError, Refused, Rejected, ReplyError, Retryable
from verdict_cli.llm.providers.litellm import LitellmProvider
from verdict_cli.llm.providers.litellm_errors import translate
from verdict_cli.llm.providers.native import NativeProvider
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Cost, Model

pytestmark = pytest.mark.filterwarnings(
    "ignore:Item .* on TypedDict class:UserWarning"
)  # litellm's own
Make = Callable[..., Request]
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback-key")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


def outcome(provider: Any, request: Request) -> Reply | ProviderError | ReplyError:
    async def run() -> Reply | ProviderError | ReplyError:
        client = provider()
        try:
            return await client.ask(request)
        except (ProviderError, ReplyError) as problem:
            return problem
        finally:
            await client.close()

    return asyncio.run(run())


def both(request: Request) -> tuple[Any, Any]:
    return outcome(NativeProvider, request), outcome(LitellmProvider, request)


@pytest.mark.parametrize(
    "fields", [{}, {"json_schema": SCHEMA}, {"top_logprobs": 3}], ids=["text", "schema", "logprobs"]
)
def test_both_paths_give_the_same_reply(loopback, request_for, fields):
    model = Model(name="openai/gpt-4o-mini", api_base=loopback.url, temperature=0, max_tokens=64)
    native, litellm = both(request_for(model, **fields))
    assert isinstance(native, Reply)
    assert native.cost_usd is not None and native.cost_usd > 0
    assert native.usage.prompt_tokens > 0
    # litellm adds fields of its own to the body, which this server counts as prompt tokens
    same = {"latency_s": 0.0, "usage": native.usage, "cost_usd": None}
    assert replace(native, **same) == replace(litellm, **same)
    fraction = litellm.cost_usd - 6e-7 * litellm.usage.completion_tokens
    assert fraction == pytest.approx(1.5e-7 * litellm.usage.prompt_tokens)


@pytest.mark.parametrize(
    "status", [400, 401, 402, 403, 404, 408, 409, 413, 422, 425, 429, 500, 502, 503, 504]
)
def test_both_paths_give_the_same_error_for_a_status(loopback, request_for, status):
    url = loopback.start("--error-rate", f"{status}=1", "--retry-after", "7")
    native, litellm = both(request_for(Model(name="openai/gpt-4o-mini", api_base=url)))
    assert isinstance(native, ProviderError)
    assert type(native) is type(litellm)
    assert (native.failure, native.status) == (litellm.failure, litellm.status)
    assert f"injected {status}" in native.message and f"injected {status}" in litellm.message
    if status in (429, 503):
        assert isinstance(native, Retryable) and isinstance(litellm, Retryable)
        assert native.retry_after_s == litellm.retry_after_s == 7


@pytest.mark.parametrize("fault", ["malformed", "reset", "timeout"])
def test_both_paths_give_the_same_error_for_a_fault(loopback, request_for, fault):
    url = loopback.start("--error-rate", f"{fault}=1")
    native, litellm = both(request_for(Model(name="openai/gpt-4o-mini", api_base=url, timeout=0.3)))
    assert isinstance(native, Retryable) and isinstance(litellm, Retryable)
    assert native.failure == litellm.failure == ("timeout" if fault == "timeout" else "unavailable")


def test_every_exception_class_of_litellm_is_translated():
    import litellm

    classes = {
        kind
        for kind in (*vars(litellm.exceptions).values(), *litellm.LITELLM_EXCEPTION_TYPES)
        if isinstance(kind, type)
        and issubclass(kind, Exception)
        and kind.__module__ == "litellm.exceptions"
    }
    for kind in classes:
        methods = {"__init__": lambda _: None, "__str__": lambda _: "what the provider said"}
        error = type("Later", (kind,), methods)()
        ours = translate("p/m", error)
        assert "Error:" not in ours.message, kind
        assert isinstance(ours, Refused) or "what the provider said" in ours.message, kind


@pytest.mark.parametrize(
    ("name", "kind", "words", "message"),
    [
        (
            "azure_ai/x",
            "APIConnectionError",
            "api_base is required for Azure AI Studio. Please set it.",
            "api_base",
        ),
        (
            "github/gpt-4o",
            "InternalServerError",
            "Missing credentials. Please pass an `api_key` or set the `GITHUB_API_KEY` environment variable.",
            "GITHUB_API_KEY",
        ),
        (
            "cloudflare/x",
            "APIConnectionError",
            "Missing Cloudflare API Key - no key is set",
            "Cloudflare API Key",
        ),
        (
            "watsonx/x",
            "AuthenticationError",
            "Watsonx project_id and space_id not set. Set WX_PROJECT_ID in environment variables",
            "WX_PROJECT_ID",
        ),
        (
            "databricks/x",
            "BadRequestError",
            "If the Databricks base URL and API key are not set, set {LLM_PROVIDER}_API_BASE environment variables",
            "API_BASE",
        ),
        (
            "huggingface/x",
            "APIConnectionError",
            "not enough values to unpack (expected 2, got 1)",
            "huggingface/PROVIDER",
        ),
    ],
)
def test_a_setting_that_is_missing_stops_the_run_at_once(name, kind, words, message):
    import litellm

    problem = translate(name, getattr(litellm, kind)(words, "p", "m"))
    assert isinstance(problem, Refused)
    assert message in str(problem)


@pytest.mark.parametrize(
    "words", ["upstream is down", "the key was not found in the document", "connection reset"]
)
def test_an_outage_is_no_missing_setting(words):
    import litellm

    assert isinstance(translate("p/m", litellm.InternalServerError(words, "p", "m")), Retryable)


def test_translations_give_errors_of_this_package():
    import litellm

    cases: list[tuple[Exception, type[Exception], str]] = [
        (litellm.ContextWindowExceededError("long", "m", "p"), Rejected, "context-too-long"),
        (litellm.ContentPolicyViolationError("no", "m", "p"), Rejected, "content-filter"),
        (litellm.Timeout("slow", "m", "p"), Retryable, "timeout"),
        (litellm.APIConnectionError("gone", "p", "m"), Retryable, "unavailable"),
        (litellm.AuthenticationError("who", "p", "m"), Refused, "refused-by-provider"),
        (litellm.RateLimitError("insufficient_quota", "p", "m"), Refused, "refused-by-provider"),
        (litellm.JSONSchemaValidationError("m", "p", "{}", "{}"), ReplyError, "unreadable"),
        (litellm.BudgetExceededError(2.0, 1.0), Refused, "refused-by-provider"),
        (ImportError("install boto3"), Refused, "refused-by-provider"),
        (ConnectionResetError("gone"), Retryable, "unavailable"),
    ]
    for problem, kind, failure in cases:
        ours = translate("p/m", problem)
        assert (type(ours), ours.failure) == (kind, failure)


def test_a_name_of_no_provider_is_refused_with_how_names_look(request_for):
    problem = outcome(LitellmProvider, request_for("nobody-knows-this"))
    assert isinstance(problem, Refused)
    assert "'nobody-knows-this'" in problem.message and "PROVIDER/NAME" in problem.hint


def test_a_key_variable_that_is_not_set_is_refused_by_its_name(request_for, monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    model = Model(name="cohere/command-r-08-2024", api_key_env="MY_KEY")
    problem = outcome(LitellmProvider, request_for(model))
    assert isinstance(problem, Refused) and "MY_KEY" in problem.message


def test_own_prices_come_before_litellms(loopback, request_for):
    cost = Cost(input_per_million=1e6, output_per_million=0)
    model = Model(name="openai/gpt-4o-mini", api_base=loopback.url, cost=cost)
    reply = outcome(LitellmProvider, request_for(model))
    assert isinstance(reply, Reply) and reply.cost_usd == reply.usage.prompt_tokens


def test_an_unknown_price_is_none(loopback, request_for):
    reply = outcome(
        LitellmProvider,
        request_for(Model(name="custom_openai/nobody-knows-this", api_base=loopback.url)),
    )
    assert isinstance(reply, Reply) and reply.cost_usd is None


def test_a_model_that_takes_words_alone_gets_the_schema_in_words(loopback, request_for):
    model = Model(name="custom_openai/nobody-knows-this", api_base=loopback.url, structured="words")
    plain = outcome(LitellmProvider, request_for(model))
    in_words = outcome(LitellmProvider, request_for(model, json_schema=SCHEMA))
    assert isinstance(plain, Reply) and isinstance(in_words, Reply)
    assert in_words.text == plain.text  # free text: the server saw no response_format
    assert in_words.usage.prompt_tokens > plain.usage.prompt_tokens + 30


def test_a_second_run_in_the_same_process_has_open_clients(loopback, request_for):
    request = request_for(Model(name="openai/gpt-4o-mini", api_base=loopback.url))
    assert all(isinstance(outcome(LitellmProvider, request), Reply) for _ in range(2))


def test_the_best_way_of_asking_for_json_is_litellms_knowledge():
    from verdict_cli.llm.providers.litellm import _best_json_mode

    assert _best_json_mode("gpt-4o-mini") == "schema"
    assert _best_json_mode("gpt-4") == "tool"
    assert _best_json_mode("command-r-08-2024") == "tool"
    assert _best_json_mode("bedrock/us.amazon.nova-lite-v1:0") == "schema", (
        "spelled nearly as in the data"
    )
    assert _best_json_mode("nobody/knows-this") == "schema", (
        "tried first, because the data lacks it"
    )


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (400, "no response_format here"),
        (
            500,
            "1 validation error:\n  {'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text'\"}",
        ),
    ],
)
@pytest.mark.parametrize(
    ("provider", "name"),
    [
        (NativeProvider, "openai/gpt-4o-mini"),
        (LitellmProvider, "openai/gpt-4o-mini"),
        (LitellmProvider, "mistral/mistral-small-latest"),
    ],
)
def test_both_paths_leave_a_way_that_is_refused_for_the_next(
    request_for,
    provider,
    status,
    says,
    name,
    monkeypatch,
):
    monkeypatch.setenv("MISTRAL_API_KEY", "sk-loopback-key")
    from aiohttp import web
    from aiohttp.test_utils import RawTestServer

    ways: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.json()
        ways.append(
            "schema" if "response_format" in body else "tool" if "tools" in body else "prompt"
        )
        if ways[-1] == "schema":
            return web.json_response({"error": {"message": says}}, status=status)
        call = {
            "id": "1",
            "type": "function",
            "function": {"name": "reply", "arguments": '{"score": 4}'},
        }
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return web.json_response(
            {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]}
        )

    async def run() -> list[str]:
        client = provider()
        async with RawTestServer(handle) as server:
            model = Model(name=name, api_base=str(server.make_url("/v1")))
            request = request_for(model, json_schema=SCHEMA)
            try:
                return [(await client.ask(request)).text for _ in range(2)]
            finally:
                await client.close()

    assert asyncio.run(run()) == ['{"score": 4}'] * 2
    assert ways == ["schema", "tool", "tool"]


def test_a_failed_connection_has_words_for_a_user():
    import httpx
    import litellm

    words = "Cannot connect to host h:1 ssl:<ssl.SSLContext object at 0x7f61> [Connect call failed ('h', 1)]"
    error = litellm.InternalServerError(
        f"P - {words}. Handle with `litellm.InternalServerError`.", "p", "m"
    )
    error.__cause__ = httpx.ConnectError(words)
    error_for_user = translate("m", error)
    assert (
        isinstance(error_for_user, Retryable)
        and error_for_user.unreachable
        and not error_for_user.status
    )
    assert "Cannot connect to host h:1 [Connect call failed ('h', 1)]" in error_for_user.message
    assert "ssl" not in error_for_user.message and "Handle with" not in error_for_user.message
    other = translate("m", litellm.InternalServerError("down", "p", "m"))
    assert isinstance(other, Retryable) and not other.unreachable


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        (
            "UnsupportedParamsError",
            "litellm.UnsupportedParamsError: anthropic does not support parameters: ['seed'], for model=claude. To drop these,"
            " set `litellm.drop_params=True` or for proxy:\n\n`litellm_settings:\n drop_params: true`\n. \n If you want to use"
            " these params dynamically send allowed_openai_params=['seed'] in your request.",
            "model m does not take seed",
        ),
        (
            "Timeout",
            "litellm.Timeout: Connection timed out. Timeout passed=60.0",
            "no reply within its timeout",
        ),
        (
            "APIConnectionError",
            "litellm.APIConnectionError: AttributeError: no 'x'",
            "model m: AttributeError: no 'x'",
        ),
        (
            "APIConnectionError",
            "VertexAIException - No module named 'google.auth'\nTraceback (most recent call last):\n  File \"x.py\", line 3",
            "model m needs the package google-auth",
        ),
        (
            "InternalServerError",
            'P - down\nTraceback (most recent call last):\n  File "x.py"',
            "P - down",
        ),
        (
            "BadRequestError",
            "litellm.BadRequestError: X - bad. See litellm.ai. Set `litellm.x=1`.",
            "X - bad.",
        ),
    ],
)
def test_no_sentence_of_litellm_reaches_a_user(name, words, expected):
    import litellm

    kind = getattr(litellm, name)
    error = kind(words, "p", "m") if name != "Timeout" else kind(words, "m", "p")
    translated = translate("m", error)
    sentence = f"{translated.message} {translated.hint}"
    assert expected in sentence
    for forbidden in ("litellm", "Traceback", "drop_params", "File "):
        assert forbidden not in sentence


@pytest.mark.parametrize(
    ("raised", "package", "hint"),
    [
        (
            "No module named 'google.auth'\nTraceback (most recent call last):",
            "google-auth",
            "pip install google-auth",
        ),
        (
            "Vertex_aiException - Google Cloud SDK not found. Install it with: pip …",
            "google-auth",
            "pip install google-auth",
        ),
        ("No module named 'boto3'", "boto3", "pip install boto3"),
        ("No module named 'ibm_watsonx_ai.x'", "ibm_watsonx_ai", "pip install ibm_watsonx_ai"),
    ],
)
@pytest.mark.parametrize("kind", ["APIConnectionError", "InternalServerError"])
def test_a_missing_package_is_refused_and_named(kind, raised, package, hint):
    import litellm

    problem = translate("vertex_ai/gemini-2.5-flash", getattr(litellm, kind)(raised, "p", "m"))
    assert isinstance(problem, Refused)
    assert f"needs the package {package}, which is not installed" in problem.message
    assert hint in problem.hint and "Traceback" not in problem.message


@pytest.mark.parametrize(
    "words",
    ["Your default credentials were not found. To set up …", "Unable to locate credentials"],
)
def test_missing_credentials_of_a_cloud_are_refused(words):
    import litellm

    problem = translate("vertex_ai/x", litellm.APIConnectionError(words, "p", "m"))
    assert isinstance(problem, Refused) and "no credentials of its cloud" in problem.message


def test_the_package_for_vertex_is_reported_before_the_run(monkeypatch):
    monkeypatch.setattr("verdict_cli.llm.providers.litellm._has_google_auth", lambda: False)
    problem = LitellmProvider.check(Model(name="vertex_ai/gemini-2.5-flash"))
    assert (
        problem
        == "model vertex_ai/gemini-2.5-flash needs the package google-auth; pip install google-auth"
    )
