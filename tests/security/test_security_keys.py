"""A pipeline file cannot have a key, or another value of the environment, sent to a host of its author's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.errors import Refused, SpecError
from verdict_cli.models import Model
from verdict_cli.plan import build
from verdict_cli.providers.checks import check
from verdict_cli.providers.endpoint import endpoint, family
from verdict_cli.spec.document import parse_document
from verdict_cli.spec.load import validated

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
        file = f"verdict: 1\nname: p\n{model}pipeline: [{{unit: JudgeUnit, prompt: '{{source.q}}'}}]"
        return build(validated(parse_document(file.encode(), "p.yaml"), Path())).plan

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
def test_no_key_goes_to_a_host_that_the_file_chose(base: str) -> None:
    assert key_of(name="gpt-4o", api_base=base) is None
    for variable in ("OPENAI_API_KEY", "GITHUB_TOKEN"):
        with pytest.raises(Refused, match="is not sent to"):
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
def test_an_address_that_parsers_read_differently_is_refused(base: str, planned: Planned) -> None:
    with pytest.raises(Refused, match="the base URL"):
        key_of({}, name="gpt-4o", api_base=base)
    with pytest.raises(Refused, match="the base URL"):
        key_of({"OPENAI_BASE_URL": base}, name="gpt-4o")
    for text in (base, "${JUDGE_BASE_URL}"):
        with pytest.raises(SpecError) as caught:
            planned(text, JUDGE_BASE_URL=base)
        (problem,) = caught.value.problems
        assert (problem.code, problem.path, problem.line) == ("bad-address", "model.api_base", 3)
    assert check(Model(name="anthropic/m", api_base=base)) is not None


@pytest.mark.parametrize(
    ("keys", "environ", "key"),
    [
        ({"name": "gpt-4o"}, {}, "sk-own"),
        ({"name": "gpt-4o"}, {"OPENAI_BASE_URL": "https://gate.example/v1"}, "sk-own"),
        ({"name": "m", "api_base": "http://127.0.0.1:8000/v1"}, {}, "sk-own"),
        ({"name": "m", "api_base": "http://[::1]:8000/v1"}, {}, "sk-own"),
        ({"name": "m", "api_base": "https://api.openai.com/v1"}, {}, "sk-own"),
        (
            {"name": "m", "api_base": "https://api.groq.com/openai/v1", "api_key_env": "GROQ_API_KEY"},
            {},
            "gsk",
        ),
        ({"name": "m", "api_base": EVIL}, {"VERDICT_ALLOW_HOSTS": "other.example, Evil.example"}, "sk-own"),
        ({"name": "m", "api_base": EVIL}, {"JUDGE_BASE": "https://evil.example:8443"}, "sk-own"),
    ],
)
def test_a_key_goes_to_its_provider_and_to_the_users_own_hosts(
    keys: dict[str, Any], environ: dict[str, str], key: str
) -> None:
    assert key_of(environ, **keys) == key


def test_a_providers_key_does_not_go_to_another_provider() -> None:
    with pytest.raises(Refused, match="GROQ_API_KEY"):
        key_of(name="m", api_base="https://api.openai.com/v1", api_key_env="GROQ_API_KEY")


@pytest.mark.parametrize(
    "base",
    [
        "https://evil.example/${GITHUB_TOKEN}",
        "https://${GITHUB_TOKEN}.evil.example/v1",
        "https://${HOST}.evil.example/v1",
        "https://evil.example/?${HOST}",
    ],
)
def test_a_variable_does_not_become_part_of_a_foreign_address(base: str, planned: Planned) -> None:
    environ = {"GITHUB_TOKEN": "ghp-own", "HOST": "own.example"}
    with pytest.raises(SpecError) as caught:
        planned(base, **environ)
    assert [problem.code for problem in caught.value.problems] == ["foreign-host"]
    assert "ghp-own" not in str(caught.value)
    assert planned("https://${HOST}/v1", **environ).nodes


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
    ],
)
def test_what_litellm_would_follow_is_refused_before_the_run(
    keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    trouble = check(Model(**keys))
    assert trouble is not None
    assert "cannot stand in params" in trouble or "VERDICT_ALLOW_HOSTS" in trouble


@pytest.mark.parametrize("place", ["extra_headers", "headers"])
@pytest.mark.parametrize("name", ["Authorization", "api-key", "X-API-Key", "cookie"])
def test_a_key_does_not_stand_in_the_file_as_a_header(place: str, name: str) -> None:
    model = Model(name="openai/m", api_base="http://127.0.0.1/v1", params={place: {name: "Bearer sk-own"}})
    trouble = check(model)
    assert trouble is not None and "api_key_env" in trouble and "sk-own" not in trouble
    fine = Model(name="openai/m", api_base="http://127.0.0.1/v1", params={"extra_headers": {"X-Team": "a"}})
    assert check(fine) is None
