from __future__ import annotations

import pytest

from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.model_checks import check_model
from verdict_cli.model import Model


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "MY_KEY",
        "HOSTED_VLLM_API_BASE",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "baseline/lexcal"}, "did you mean baseline/lexical?"),
        (
            {"name": "baseline/zzz"},
            "the built-in models are baseline/lexical, baseline/random, baseline/echo",
        ),
        ({"name": "replay/nowhere.jsonl"}, "no recording at nowhere.jsonl"),
        ({"name": "gpt-4o-mini"}, "OPENAI_API_KEY is not set"),
        ({"name": "openai/gpt-4o", "api_key_env": "MY_KEY"}, "MY_KEY (api_key_env) is not set"),
        ({"name": "anthropic/x", "api_key_env": "MY_KEY"}, "MY_KEY (api_key_env) is not set"),
        ({"name": "hosted_vllm/x"}, "set api_base or HOSTED_VLLM_API_BASE"),
        ({"name": "x", "api_base": "localhost:8000"}, "not an http address"),
        ({"name": "x", "api_base": "http://h:99999/v1"}, "not an http address"),
        ({"name": "x", "api_base": "http://h/v1", "params": {"api_key": "sk-1"}}, "api_key_env"),
        ({"name": "anthropic/x", "params": {"stream": True}}, "stream is not allowed in params"),
        ({"name": "anthropic/x", "params": {"num_retries": 0}}, "set the model's own `retries`"),
    ],
)
def test_what_cannot_answer_is_reported_before_the_run(settings, message):
    problem = check_model(Model(**settings))
    assert problem is not None and message in problem
    assert "sk-1" not in problem


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "baseline/random"},
        {"name": "cohere/command-r-08-2024"},
        {"name": "mine", "api_base": "http://127.0.0.1:8000/v1"},
        {"name": "hosted_vllm/mine", "api_base": "http://127.0.0.1:8000/v1"},
        {"name": "ollama/llama3"},
    ],
)
def test_what_may_answer_is_no_problem(settings):
    assert check_model(Model(**settings)) is None


def test_a_recording_that_is_there_is_no_problem(tmp_path):
    assert check_model(Model(name=f"replay/{tmp_path}")) is None


def test_another_base_url_needs_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    assert check_model(Model(name="gpt-4o-mini")) is None


def test_baselines_and_recordings_are_local():
    assert is_local("baseline/echo") and is_local("replay/runs/a")
    assert not is_local("gpt-4o-mini") and not is_local("my/baseline/x")
