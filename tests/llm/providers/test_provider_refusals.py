from __future__ import annotations

import subprocess
import sys

import pytest

from verdict_cli.llm.providers.model_checks import check_model
from verdict_cli.model import Model


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")


@pytest.mark.parametrize(
    ("settings", "top_logprobs", "message"),
    [
        ({"name": "gpt-5-mini", "temperature": 0}, 0, "temperature is not taken"),
        ({"name": "openai/o3-mini", "top_p": 0.5}, 0, "top_p is not taken"),
        ({"name": "o3-mini", "params": {"logit_bias": {"1": 2}}}, 0, "logit_bias is not taken"),
        ({"name": "o3-mini"}, 20, "no log-probabilities"),
        ({"name": "gpt-4o-mini", "reasoning_effort": "low"}, 0, "reasoning_effort"),
        ({"name": "gpt-4o-mini", "max_tokens": 10_000_000}, 0, "max_tokens is 10,000,000"),
    ],
)
def test_what_a_model_refuses_is_reported_before_the_run(settings, top_logprobs, message):
    problem = check_model(Model(**settings), top_logprobs)
    assert problem is not None and message in problem and settings["name"] in problem


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "gpt-4o-mini", "temperature": 0},
        {"name": "o3-mini", "temperature": 1, "reasoning_effort": "low"},
        {"name": "gpt-5-mini", "temperature": 0, "api_base": "http://127.0.0.1:1/v1"},
        {"name": "nobody-knows-this/model", "temperature": 0},
    ],
)
def test_what_may_be_taken_is_no_problem(settings):
    assert check_model(Model(**settings)) is None


def test_another_base_url_is_another_model(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    assert check_model(Model(name="gpt-5-mini", temperature=0), 20) is None


def test_litellm_is_not_imported_for_it():
    code = (
        "import sys; from verdict_cli.model import Model; from verdict_cli.llm.providers.model_checks import check_model as check;"
        "check(Model(name='gpt-5-mini', temperature=0)); print('litellm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
