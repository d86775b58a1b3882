"""The usual chat completion is read in one step, to what the reader of every form gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.llm.providers.chat_completions import read_body
from verdict_cli.llm.providers.plain_reply import read_plain_reply
from verdict_cli.messages import Message, Request, Row
from verdict_cli.model import Model

REQUEST = Request(Row(0, 0, {}), "judge", Model(name="gpt-4o-mini"), (Message("user", "Rate."),))


def body(content: Any = "4", usage: Any = None, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more.pop("message", {})}
    choice = {"index": 0, "message": message, "finish_reason": "stop", **more.pop("choice", {})}
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11} | (usage or {})
    return {"id": "x", "model": "gpt-4o-mini-2024-07-18", "choices": [choice], "usage": usage, **more}


@given(
    st.text(min_size=1).filter(lambda text: not text.isspace()),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.sampled_from([{}, {"message": {"refusal": None}}, {"choice": {"logprobs": None}}, {"service_tier": "flex"}]),
)
def test_a_usual_body_gives_the_same_reply(content: str, read: int, written: int, more: dict[str, Any]) -> None:
    usage = {"prompt_tokens": read, "completion_tokens": written, "prompt_tokens_details": {"cached_tokens": 0}}
    text = json.dumps(body(content, usage, **more)).encode()
    plain = read_plain_reply(text, REQUEST, 0.5, "{}")
    assert plain is not None
    assert plain == read_body(text, REQUEST, 0.5, "{}")


@pytest.mark.parametrize(
    "unusual",
    [
        body(" "),
        body(None),
        body([{"type": "text", "text": "4"}]),
        body(message={"refusal": "no"}),
        body(message={"tool_calls": [{"function": {"name": "reply", "arguments": "{}"}}]}),
        body(choice={"logprobs": {"content": []}}),
        body(choice={"finish_reason": "content_filter"}),
        body(choice={"finish_reason": None}),
        body(usage={"cost": 0.1}),
        body(usage={"estimated_cost": 0.1}),
        body(usage={"cost_in_usd_ticks": 7}),
        body(usage={"prompt_cache_hit_tokens": 3}),
        body(usage={"cached_tokens": 3}),
        body(usage={"prompt_tokens_details": {"cached_tokens": 3}}),
        body(usage={"prompt_tokens": -1}),
        body(usage={"prompt_tokens": True}),
        body(usage={"completion_tokens": 10**13}),
        body() | {"choices": []},
        body() | {"usage": None},
        body() | {"model": "m" * 501},
        [],
    ],
)
def test_any_other_body_is_left_to_the_reader_of_every_form(unusual: Any) -> None:
    assert read_plain_reply(json.dumps(unusual).encode(), REQUEST, 0.5, "") is None


@pytest.mark.parametrize("text", [b"", b"{", b"NaN", b"[" * 10**6, json.dumps(body("\udc80")).encode()])
def test_what_cannot_be_decoded_is_left_to_it_too(text: bytes) -> None:
    assert read_plain_reply(text, REQUEST, 0.5, "") is None
