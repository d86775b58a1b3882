"""The hosts that models are called at."""

import pytest

from verdict_cli.llm.model_families import host_called
from verdict_cli.model import Model


@pytest.mark.parametrize(
    ("keys", "environ", "host"),
    [
        ({"name": "gpt-4o-mini"}, {}, "api.openai.com"),
        (
            {"name": "gpt-4o-mini"},
            {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1/"},
            "127.0.0.1:8000",
        ),
        ({"name": "m", "api_base": "https://gate.example/v1"}, {}, "gate.example"),
        ({"name": "hosted_vllm/m"}, {}, None),
        ({"name": "anthropic/claude-3-5-haiku-latest"}, {}, "api.anthropic.com"),
        ({"name": "gpt-4o", "params": {"api_version": "2024-10-21"}}, {}, "api.openai.com"),
        ({"name": "claude-haiku-4-5"}, {}, "api.anthropic.com"),
        ({"name": "together_ai/m"}, {}, "api.together.xyz"),
        ({"name": "anthropic/m"}, {"ANTHROPIC_API_BASE": "https://gate.example"}, "gate.example"),
        ({"name": "huggingface/https://own.example:8443/m"}, {}, "own.example:8443"),
        ({"name": "bedrock/m"}, {}, "bedrock (litellm's address)"),
    ],
)
def test_the_host_of_a_model_is_determined_beforehand(keys, environ, host):
    assert host_called(Model(**keys), environ) == host
