"""The hosts that litellm is kept from."""

import asyncio

import pytest

from verdict_cli.errors import Refused
from verdict_cli.llm.providers.litellm import LitellmProvider
from verdict_cli.model import Model


@pytest.mark.parametrize(
    "keys",
    [
        {"name": "anthropic/m", "api_base": "https://evil.example/v1"},
        {"name": "huggingface/https://evil.example/m"},
        {"name": "huggingface/https:\\\\evil.example/m"},
    ],
)
def test_litellm_is_not_called_at_a_foreign_host(keys, request_for):
    provider = LitellmProvider()
    with pytest.raises(Refused, match=r"evil\.example|a backslash"):
        asyncio.run(provider.ask(request_for(Model(**keys))))
