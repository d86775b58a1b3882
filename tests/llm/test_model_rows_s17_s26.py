"""Findings S17, S26 and S31: usage that counts nothing, models that write no text, several choices."""

import pytest

from verdict_cli.llm.providers.model_checks import check_model
from verdict_cli.llm.providers.usage import charged_cost, read_usage
from verdict_cli.messages import Usage
from verdict_cli.model import Model

GPT = Model(name="gpt-4o-mini")


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        {"input_tokens": 0, "output_tokens": 3},
    ],
)
def test_s17_usage_without_a_prompt_is_unknown(usage):
    assert read_usage(usage) is None


def test_s17_one_token_of_a_prompt_counts():
    assert read_usage({"prompt_tokens": 1, "completion_tokens": 0}) == Usage(1, 0)


@pytest.mark.parametrize("stated", [1e-300, 1e-9])
def test_s17_a_stated_cost_far_below_the_list_does_not_outweigh_it(stated):
    usage = Usage(1_000_000, 0)
    listed = charged_cost(GPT, {}, usage)
    assert listed and charged_cost(GPT, {"cost": stated}, usage) == listed


def test_s17_a_discount_is_believed():
    usage = Usage(1_000_000, 0)
    listed = charged_cost(GPT, {}, usage)
    assert listed and charged_cost(GPT, {"cost": listed / 4}, usage) == listed / 4


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("text-embedding-3-small", "an embedding model"),
        ("cohere/embed-english-v3.0", "an embedding model"),
        ("whisper-1", "a speech recognition model"),
        ("tts-1-hd", "a speech model"),
        ("voyage/voyage-3", "an embedding model"),
        ("gpt-realtime", "a speech model"),
        ("dall-e-3", "an image model"),
        ("omni-moderation-latest", "a moderation model"),
        ("cohere/rerank-v3.5", "a reranking model"),
    ],
)
def test_s26_a_model_that_writes_no_text_is_refused_before_a_call(name, kind):
    assert kind in (check_model(Model(name=name)) or "")


@pytest.mark.parametrize("name", ["gpt-audio", "amazon.nova-2-lite-v1:0", "gpt-4o", "xai/grok-4"])
def test_s26_a_chat_model_is_no_other_kind(name):
    assert "writes no text" not in (check_model(Model(name=name)) or "")


def test_s26_a_model_at_a_private_address_may_have_any_name():
    model = Model(name="openai/my-reranker", api_base="http://127.0.0.1:1/v1")
    assert "writes no text" not in (check_model(model) or "")
