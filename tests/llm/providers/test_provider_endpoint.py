from __future__ import annotations

from typing import Any

import pytest

from verdict_cli.errors import Refused
from verdict_cli.llm.model_families import family
from verdict_cli.llm.providers.endpoint import Endpoint, endpoint
from verdict_cli.model import Model

BASE = "http://127.0.0.1:8000/v1"


def endpoint_of(environ: dict[str, str], **settings: Any) -> Endpoint | None:
    model = Model(**settings)
    kind = family(model)
    return None if kind is None else endpoint(model, kind, environ)


@pytest.mark.parametrize(
    "name", ["gpt-4o-mini", "o3-mini", "o1", "chatgpt-4o-latest", "openai/anything"]
)
def test_openais_names_go_to_openai(name):
    there = endpoint_of({"OPENAI_API_KEY": "k"}, name=name)
    assert there is not None
    assert there.url == "https://api.openai.com/v1/chat/completions"
    assert (there.name, there.key) == (name.removeprefix("openai/"), "k")


@pytest.mark.parametrize(
    "name",
    [
        "cohere/x",
        "bedrock/x",
        "gemini-2.5-pro",
        "ollama/llama3",
        "o365",
        "gpt-3.5-turbo-instruct",
        "a/b",
    ],
)
def test_other_names_are_litellms(name):
    assert endpoint_of({}, name=name) is None


def test_arguments_that_only_litellm_knows_are_litellms():
    assert endpoint_of({}, name="gpt-4o", params={"api_version": "2024-10-21"}) is None


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("mine", "mine"),
        ("openai/org/mine", "org/mine"),
        ("hosted_vllm/org/mine", "org/mine"),
        ("lm_studio/mine", "mine"),
        ("llamafile/mine", "mine"),
        ("litellm_proxy/mine", "mine"),
        ("ollama/llama3:8b", "llama3:8b"),
        ("ollama_chat/llama3", "llama3"),
    ],
)
def test_an_api_base_is_where_the_model_is(name, sent):
    there = endpoint_of({}, name=name, api_base=f"{BASE}/")
    assert there is not None
    assert (there.url, there.name, there.key) == (f"{BASE}/chat/completions", sent, None)


def test_the_address_of_ollama_is_completed():
    there = endpoint_of({}, name="ollama/llama3", api_base="http://127.0.0.1:11434")
    assert there is not None and there.url == "http://127.0.0.1:11434/v1/chat/completions"


def test_a_whole_address_is_left_as_it_is():
    there = endpoint_of({}, name="mine", api_base=f"{BASE}/chat/completions")
    assert there is not None and there.url == f"{BASE}/chat/completions"


def test_the_models_base_comes_before_the_environments():
    environ = {
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "OPENAI_API_BASE": "http://127.0.0.1:2/v1",
    }
    urls = [endpoint_of(environ, name="gpt-4o", **more) for more in ({"api_base": BASE}, {})]
    del environ["OPENAI_BASE_URL"]
    urls.append(endpoint_of(environ, name="gpt-4o"))
    assert [there and there.host for there in urls] == [
        "127.0.0.1:8000",
        "127.0.0.1:1",
        "127.0.0.1:2",
    ]


def test_openais_key_is_not_sent_to_other_families():
    there = endpoint_of({"OPENAI_API_KEY": "k"}, name="hosted_vllm/mine", api_base=BASE)
    assert there is not None and there.key is None


def test_the_named_variable_holds_the_key():
    there = endpoint_of(
        {"MY_KEY": " k\n", "OPENAI_API_KEY": "other"}, name="gpt-4o", api_key_env="MY_KEY"
    )
    assert there is not None and (there.key, there.key_variable) == ("k", "MY_KEY")


@pytest.mark.parametrize(
    "settings", [{}, {"api_base": "https://api.openai.com/v1"}, {"api_key_env": "NO_KEY"}]
)
def test_a_missing_key_is_refused_by_its_variable(settings):
    with pytest.raises(Refused, match=settings.get("api_key_env", "OPENAI_API_KEY")):
        endpoint_of({}, name="gpt-4o", **settings)


def test_a_family_without_an_address_is_never_sent_to_openai():
    with pytest.raises(Refused, match="HOSTED_VLLM_API_BASE"):
        endpoint_of({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": BASE}, name="hosted_vllm/mine")


def test_messages_show_an_address_without_its_secrets():
    there = endpoint_of({}, name="mine", api_base="https://host.example/v1?key=secret")
    assert there is not None
    assert (there.host, there.display) == (
        "host.example",
        "https://host.example/v1/chat/completions?key=…",
    )


VERSION = "api-version=2024-05-01-preview"


@pytest.mark.parametrize(
    ("name", "base", "url"),
    [
        ("openai/m", f"{BASE}?{VERSION}", f"{BASE}/chat/completions?{VERSION}"),
        ("openai/m", f"{BASE}/?{VERSION}", f"{BASE}/chat/completions?{VERSION}"),
        ("openai/m", f"{BASE}/chat/completions?{VERSION}", f"{BASE}/chat/completions?{VERSION}"),
        ("openai/m", f"{BASE}/chat/completions/", f"{BASE}/chat/completions"),
        ("openai/m", f" {BASE}\n", f"{BASE}/chat/completions"),
        (
            "ollama/m",
            "http://127.0.0.1:11434/?a=1",
            "http://127.0.0.1:11434/v1/chat/completions?a=1",
        ),
        ("anthropic/m", "http://127.0.0.1:1?a=1", "http://127.0.0.1:1/v1/messages?a=1"),
        (
            "gemini/m",
            "http://127.0.0.1:1/v1?a=1",
            "http://127.0.0.1:1/v1/models/m:generateContent?a=1",
        ),
        ("gpt-5-pro", "http://127.0.0.1:1/v1/responses?a=1", "http://127.0.0.1:1/v1/responses?a=1"),
    ],
)
def test_the_query_of_a_base_follows_the_whole_path(name, base, url):
    there = endpoint_of({"OPENAI_BASE_URL": "http://127.0.0.1:9"}, name=name, api_base=base)
    assert there is not None and there.url == url
    for variable in ("OPENAI_BASE_URL",) if name == "openai/m" else ():
        there = endpoint_of({variable: base}, name=name)
        assert there is not None and there.url == url


def test_the_query_of_a_stream_joins_that_of_the_base():
    there = endpoint_of({}, name="gemini/m", api_base="http://127.0.0.1:1?key=a")
    assert there is not None
    assert (
        there.stream_url == "http://127.0.0.1:1/v1beta/models/m:streamGenerateContent?key=a&alt=sse"
    )


def test_a_fragment_is_refused():
    with pytest.raises(Refused, match="fragment"):
        endpoint_of({}, name="openai/m", api_base=f"{BASE}#x")


A = "http://127.0.0.1:1"
DEPLOYED = "/openai/deployments/mine/chat/completions"


@pytest.mark.parametrize(
    ("base", "version", "url"),
    [
        (f"{A}?{VERSION}", "", f"{A}{DEPLOYED}?{VERSION}"),
        (f"{A}?{VERSION}", "2023-01-01", f"{A}{DEPLOYED}?{VERSION}"),
        (f"{A}{DEPLOYED}?{VERSION}", "", f"{A}{DEPLOYED}?{VERSION}"),
        (f"{A}{DEPLOYED}", "2024-10-21", f"{A}{DEPLOYED}?api-version=2024-10-21"),
        (f"{A}/openai/deployments/mine", "2024-10-21", f"{A}{DEPLOYED}?api-version=2024-10-21"),
        (f"{A}/openai", "2024-10-21", f"{A}{DEPLOYED}?api-version=2024-10-21"),
        (f"{A}/openai", "", f"{A}/openai/v1/chat/completions"),
        (f"{A}/openai/v1/", "2024-10-21", f"{A}/openai/v1/chat/completions"),
        (
            f"{A}/apim/models",
            "2024-10-21",
            f"{A}/apim/models/chat/completions?api-version=2024-10-21",
        ),
        (
            f"{A}/apim/models?k=1",
            "2024-10-21",
            f"{A}/apim/models/chat/completions?k=1&api-version=2024-10-21",
        ),
        (f"{A}/apim/models", "", f"{A}/apim/models/chat/completions"),
    ],
)
def test_azures_version_holds_whatever_the_base_is(base, version, url):
    there = endpoint_of(
        {"AZURE_API_KEY": "k", "AZURE_API_VERSION": version}, name="azure/mine", api_base=base
    )
    assert there is not None and there.url == url
    by_params = endpoint_of(
        {"AZURE_API_KEY": "k"}, name="azure/mine", api_base=base, params={"api_version": version}
    )
    assert by_params is not None and by_params.url == url


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("anthropic/claude-haiku-4-5", "https://api.anthropic.com/v1/messages"),
        ("claude-haiku-4-5", "https://api.anthropic.com/v1/messages"),
        (
            "gemini/g-2",
            "https://generativelanguage.googleapis.com/v1beta/models/g-2:generateContent",
        ),
        ("groq/m", "https://api.groq.com/openai/v1/chat/completions"),
        ("openrouter/openai/gpt-4o", "https://openrouter.ai/api/v1/chat/completions"),
        ("o3-pro", "https://api.openai.com/v1/responses"),
        ("o1-pro-2025-03-19", "https://api.openai.com/v1/responses"),
        ("o3-deep-research", "https://api.openai.com/v1/responses"),
        ("o4-mini-deep-research", "https://api.openai.com/v1/responses"),
        ("gpt-5.1-codex-max", "https://api.openai.com/v1/responses"),
        ("openai/gpt-5-pro", "https://api.openai.com/v1/responses"),
        ("codex-mini-latest", "https://api.openai.com/v1/responses"),
        ("gpt-4o-preview", "https://api.openai.com/v1/chat/completions"),
    ],
)
def test_each_provider_is_called_at_its_own_address(name, url):
    keys = (
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "GROQ_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
    )
    there = endpoint_of(dict.fromkeys(keys, "k"), name=name)
    assert there is not None and (there.url, there.key) == (url, "k")


@pytest.mark.parametrize(
    "base", ["http://127.0.0.1:1", "http://127.0.0.1:1/", "http://127.0.0.1:1/v1"]
)
def test_the_version_is_added_to_anthropics_address_unless_present(base):
    there = endpoint_of({}, name="anthropic/c", api_base=base)
    assert there is not None and there.url == "http://127.0.0.1:1/v1/messages"


def test_another_servers_codex_speaks_chat_completions():
    there = endpoint_of({}, name="openai/my-codex-pro", api_base=BASE)
    assert there is not None and there.url == f"{BASE}/chat/completions"


@pytest.mark.parametrize(
    ("version", "path"),
    [
        ("", "/openai/v1/chat/completions"),
        ("2024-10-21", "/openai/deployments/mine/chat/completions?api-version=2024-10-21"),
    ],
)
def test_azure_is_called_by_deployment_where_a_version_is_set(version, path):
    base = "https://here.openai.azure.com"
    environ = {"AZURE_API_BASE": base, "AZURE_API_KEY": "k", "AZURE_API_VERSION": version}
    there = endpoint_of(environ, name="azure/mine")
    assert there is not None and (there.url, there.key) == (base + path, "k")


def test_googles_other_variable_holds_geminis_key_too():
    there = endpoint_of({"GOOGLE_API_KEY": "g"}, name="gemini/x")
    assert there is not None and (there.key, there.key_variable) == ("g", "GOOGLE_API_KEY")


def test_a_providers_key_is_refused_to_a_host_that_the_file_chose():
    with pytest.raises(Refused, match="ANTHROPIC_API_KEY is not sent to evil"):
        endpoint_of({"ANTHROPIC_API_KEY": "k"}, name="anthropic/c", api_base="https://evil.example")
