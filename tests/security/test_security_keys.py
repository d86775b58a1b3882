"""A pipeline file cannot have a key, or another value of the environment, sent to a host of its author's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.errors import Refused, SpecError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.load import validate_document
from verdict_cli.llm.model_families import family
from verdict_cli.llm.providers.endpoint import endpoint
from verdict_cli.llm.providers.model_checks import check_model
from verdict_cli.model import Model
from verdict_cli.plan.build import build_plan

EVIL = "https://evil.example/v1"
ENVIRON = {"OPENAI_API_KEY": "sk-own", "GITHUB_TOKEN": "ghp-own", "GROQ_API_KEY": "gsk"}


Planned = Callable[..., Any]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Planned:
    """Plans a pipeline whose model has an address, with variables of the environment."""

    def of(base: str, **environ: str) -> Any:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        model = f"model: {{name: m, api_base: {json.dumps(base)}}}\n"
        file = (
            f"verdict: 1\nname: p\n{model}pipeline: [{{unit: JudgeUnit, prompt: '{{source.q}}'}}]"
        )
        return build_plan(validate_document(parse_document(file.encode(), "p.yaml"), Path())).plan

    return of


def key_of(environ: dict[str, str] | None = None, **keys: Any) -> str | None:
    model = Model(**keys)
    kind = family(model)
    assert kind is not None
    return endpoint(model, kind, {**ENVIRON, **(environ or {})}).key


@pytest.mark.parametrize(
    "base",
    [
        EVIL,
        "http://api.openai.com/v1",
        "https://api.openai.com.evil.example/v1",
        "https://evil.example/https://api.openai.com/v1",
        "https://localhost.evil.example",
        "https://evil.example/#@localhost",
        "https://127.0.0.1.evil.example",
    ],
)
def test_no_key_goes_to_a_host_that_the_file_chose(base):
    if "#" in base:  # refused before any key is looked for
        with pytest.raises(Refused, match="has a fragment"):
            key_of(name="gpt-4o", api_base=base)
    else:
        assert key_of(name="gpt-4o", api_base=base) is None
    for variable in ("OPENAI_API_KEY", "GITHUB_TOKEN"):
        with pytest.raises(Refused, match=r"is not sent to|has a fragment"):
            key_of(name="gpt-4o", api_base=base, api_key_env=variable)


@pytest.mark.parametrize(
    "base",
    [
        "http://127.0.0.2:8980\\[::1]/good/v1",
        "http://127.0.0.2:8954\\@127.0.0.1/v1",
        "http://x@127.0.0.2:8954\\@127.0.0.1",
        "http://127.0.0.2:8954\\.[::1]",
        "https://api.openai.com@evil.example/v1",
        "http://[::1].evil/v1",
        "http://evil.example\t@127.0.0.1/v1",
    ],
)
def test_an_address_that_parsers_read_differently_is_refused(base, planned):
    with pytest.raises(Refused, match="the base URL"):
        key_of({}, name="gpt-4o", api_base=base)
    with pytest.raises(Refused, match="the base URL"):
        key_of({"OPENAI_BASE_URL": base}, name="gpt-4o")
    for text in (base, "${JUDGE_BASE_URL}"):
        with pytest.raises(SpecError) as caught:
            planned(text, JUDGE_BASE_URL=base)
        (problem,) = caught.value.problems
        assert (problem.code, problem.path, problem.line) == ("bad-address", "model.api_base", 3)
    assert check_model(Model(name="anthropic/m", api_base=base)) is not None


@pytest.mark.parametrize(
    ("keys", "environ", "key"),
    [
        ({"name": "gpt-4o"}, {}, "sk-own"),
        ({"name": "gpt-4o"}, {"OPENAI_BASE_URL": "https://gate.example/v1"}, "sk-own"),
        ({"name": "m", "api_base": "http://127.0.0.1:8000/v1"}, {}, "sk-own"),
        ({"name": "m", "api_base": "http://[::1]:8000/v1"}, {}, "sk-own"),
        ({"name": "m", "api_base": "https://api.openai.com/v1"}, {}, "sk-own"),
        (
            {
                "name": "m",
                "api_base": "https://api.groq.com/openai/v1",
                "api_key_env": "GROQ_API_KEY",
            },
            {},
            "gsk",
        ),
        (
            {"name": "m", "api_base": EVIL},
            {"VERDICT_ALLOW_HOSTS": "other.example, Evil.example"},
            "sk-own",
        ),
        (
            {"name": "m", "api_base": EVIL},
            {"JUDGE_BASE_URL": "https://evil.example:8443"},
            "sk-own",
        ),
        ({"name": "m", "api_base": EVIL}, {"JUDGE_API_BASE": "evil.example"}, "sk-own"),
    ],
)
def test_a_key_goes_to_its_provider_and_to_the_users_own_hosts(keys, environ, key):
    assert key_of(environ, **keys) == key


@pytest.mark.parametrize(
    "environ",
    [
        {"GITHUB_HEAD_REF": "evil.example"},
        {"CI_COMMIT_MESSAGE": "Fix the docs, evil.example, and more"},
        {"CI_MERGE_REQUEST_TITLE": "docs,bob@evil.example"},
        {"JUDGE_BASE": EVIL},
        {"SERVER_URL": EVIL},
        {"JUDGE_BASE_URL": "https://own.example,evil.example"},
        {"VERDICT_ALLOW_HOSTS": "own.example, sub.evil.example, evil.example.org"},
    ],
)
def test_no_other_variable_lists_a_host(environ):
    assert key_of(environ, name="gpt-4o", api_base=EVIL) is None
    with pytest.raises(Refused, match="is not sent to") as caught:
        key_of(environ, name="gpt-4o", api_base=EVIL, api_key_env="OPENAI_API_KEY")
    assert "VERDICT_ALLOW_HOSTS=evil.example" in caught.value.hint


@pytest.mark.parametrize(
    "host", ["127.0.0.2", "localhost.", "0.0.0.0", "[::ffff:7f00:1]", "127.1.1.1"]
)
def test_nothing_else_is_this_machine(host):
    assert (
        key_of({"ZERO": "0", "H": host}, name="gpt-4o", api_base=f"http://{host}:8000/v1") is None
    )


def test_a_provider_key_goes_to_no_other_provider(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-own")
    trouble = check_model(Model(name="anthropic/m", api_base="https://api.groq.com/v1"))
    assert trouble is not None and "--allow-host api.groq.com" in trouble
    assert check_model(Model(name="anthropic/m", api_base="https://api.anthropic.com")) is None
    trouble = check_model(Model(name="cohere/m", api_base="https://api.groq.com/v1"))
    assert trouble is not None and "litellm would send a key" in trouble


def test_a_providers_key_does_not_go_to_another_provider():
    with pytest.raises(Refused, match="GROQ_API_KEY"):
        key_of(name="m", api_base="https://api.openai.com/v1", api_key_env="GROQ_API_KEY")


@pytest.mark.parametrize(
    "base",
    [
        "https://evil.example/${GITHUB_TOKEN}",
        "https://${GITHUB_TOKEN}.evil.example/v1",
        "https://${HOST}.evil.example/v1",
        "https://evil.example/?${HOST}",
        "https://${BRANCH}/v1",
    ],
)
def test_a_variable_does_not_become_part_of_a_foreign_address(base, planned):
    environ = {
        "BRANCH": "evil.example",
        "GITHUB_TOKEN": "ghp-own",
        "HOST": "own.example",
        "JUDGE_BASE_URL": "https://own.example/v1",
    }
    with pytest.raises(SpecError) as caught:
        planned(base, **(environ | {"VERDICT_ALLOW_HOSTS": ""}))
    assert [problem.code for problem in caught.value.problems] == ["foreign-host"]
    assert "ghp-own" not in str(caught.value)
    environ["VERDICT_ALLOW_HOSTS"] = "own.example"
    for address in (
        "https://${HOST}/v1",
        "${JUDGE_BASE_URL}",
        "https://own.example/${GITHUB_TOKEN}",
    ):
        assert planned(address, **environ).nodes


@pytest.mark.parametrize(
    "keys",
    [
        {"name": "anthropic/claude-3-5-haiku-latest", "api_base": EVIL},
        {"name": "huggingface/https://evil.example/m"},
        {"name": "anthropic/m", "params": {"api_base": EVIL}},
        {"name": "gpt-4o", "params": {"base_url": EVIL}},
        {"name": "gpt-4o", "params": {"fallbacks": [{"model": "m", "api_base": EVIL}]}},
        {"name": "gpt-4o", "params": {"extra_headers": {"x": "os.environ/GITHUB_TOKEN"}}},
        {"name": "gpt-4o", "params": {"ssl_verify": False}},
        {"name": "vertex_ai/m", "params": {"vertex_credentials": "/elsewhere/key.json"}},
        {"name": "sagemaker/m", "params": {"sagemaker_base_url": EVIL}},
        {"name": "gpt-4o", "params": {"success_callback": ["langfuse"]}},
        {"name": "gpt-4o", "params": {"callbacks": ["langfuse"]}},
        {"name": "anthropic/m", "params": {"langfuse_host": EVIL}},
        {"name": "anthropic/m", "params": {"model_alias_map": {"m": "openai/m"}}},
        {"name": "huggingface/HTTPS:\\\\evil.example/m"},
    ],
)
def test_what_litellm_would_follow_is_refused_before_the_run(keys, monkeypatch):
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    trouble = check_model(Model(**keys))
    assert trouble is not None
    assert any(
        words in trouble
        for words in ("is not allowed in params", "VERDICT_ALLOW_HOSTS", "a backslash")
    )


@pytest.mark.parametrize(
    "name", ["aws_region_name", "vertex_location", "vertex_project", "api_version"]
)
def test_a_part_of_a_providers_address_stays_within_it(name):
    for value in (
        "evil.example/",
        "evil.example#",
        "x@evil.example",
        "evil.example?",
        "a\\b",
        ["x"],
    ):
        assert "part of an address" in str(
            check_model(Model(name="vertex_ai/m", params={name: value}))
        )
    assert "part of an address" not in str(
        check_model(Model(name="vertex_ai/m", params={name: "us-central1"}))
    )


@pytest.mark.parametrize(
    "params",
    [
        {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "logit_bias": {"1": 2}, "n": 1},
        {
            "tools": [],
            "tool_choice": "auto",
            "response_format": {"type": "json_object"},
            "user": "me",
        },
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "extra_body": {"own_words": 1}},
        {
            "guided_json": {},
            "chat_template_kwargs": {"enable_thinking": False},
            "safety_settings": [],
        },
    ],
)
def test_arguments_of_a_request_are_taken(params):
    for name, base in (("cohere/command-r-08-2024", None), ("m", "http://127.0.0.1/v1")):
        assert check_model(Model(name=name, api_base=base, params=params)) is None


def test_a_misspelled_argument_has_its_nearest_spelling():
    trouble = check_model(Model(name="anthropic/m", params={"repetition_penalti": 1}))
    assert trouble is not None and "did you mean repetition_penalty?" in trouble


@pytest.mark.parametrize("place", ["extra_headers", "headers"])
@pytest.mark.parametrize("name", ["Authorization", "api-key", "X-API-Key", "cookie"])
def test_a_key_is_not_in_the_file_as_a_header(place, name):
    model = Model(
        name="openai/m", api_base="http://127.0.0.1/v1", params={place: {name: "Bearer sk-own"}}
    )
    trouble = check_model(model)
    assert trouble is not None and "api_key_env" in trouble and "sk-own" not in trouble
    fine = Model(
        name="openai/m", api_base="http://127.0.0.1/v1", params={"extra_headers": {"X-Team": "a"}}
    )
    assert check_model(fine) is None
