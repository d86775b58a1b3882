"""Calls that share a long prefix: the first is answered before the others are made."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from virtual_time import run_in_virtual_time

from verdict_cli.errors import Retryable
from verdict_cli.llm.middleware.prefix_leader import PrefixLeaders
from verdict_cli.llm.prompt_prefix import PromptPrefixes, cacheable_minimum, message_bytes
from verdict_cli.messages import Message, Reply, Request, Row
from verdict_cli.model import Model

MODEL = Model(name="openai/own", api_base="http://127.0.0.1:1/v1")
DOCUMENT = "".join(random.Random(1).choices("abcdefgh ", k=8000))


def request(text: str, model: Model = MODEL) -> Request:
    return Request(Row(0, "a", {}), "judge", model, (Message("user", text),))


class Server:
    """Notes when each call came, and answers after a second; a text with ``fault`` in it is refused."""

    def __init__(self) -> None:
        self.came: list[tuple[float, str]] = []

    async def ask(self, request: Request) -> Reply:
        text = request.messages[0].content
        self.came.append((round(asyncio.get_running_loop().time(), 3), text[-1]))
        await asyncio.sleep(1)
        if "fault" in text:
            raise Retryable("no", kind="unavailable")
        return Reply("ok")

    def times(self, requests: Sequence[Request]) -> list[tuple[float, str]]:
        async def run() -> None:
            ask = PrefixLeaders().around(self.ask)
            await asyncio.gather(*(ask(request) for request in requests), return_exceptions=True)

        run_in_virtual_time(run())
        return self.came


def test_the_first_call_is_answered_before_others_with_its_prefix_are_sent():
    others = [request(f"{'z' * 5000}{name}") for name in "xy"]
    came = Server().times([*(request(f"{DOCUMENT} {number}") for number in range(3)), others[0]])
    assert came == [(0.0, "0"), (0.0, "x"), (1.0, "1"), (1.0, "2")]


def test_calls_with_a_shared_preamble_wait_for_it_and_then_for_their_own_document():
    documents = [DOCUMENT[::-1], DOCUMENT.upper()]
    came = Server().times(
        [request(f"{DOCUMENT}{text}{name}") for text in documents for name in "ab"]
    )
    assert came == [(0.0, "a"), (1.0, "b"), (1.0, "a"), (2.0, "b")]


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("short", MODEL),
        (DOCUMENT[:4000], MODEL),
        (DOCUMENT, MODEL.model_copy(update={"prompt_cache": "off"})),
        (DOCUMENT, Model(name="together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo")),
        (DOCUMENT, Model(name="claude-haiku-4-5")),
    ],
)
def test_nothing_waits_where_the_provider_would_not_cache(text, model):
    assert {
        when for when, _ in Server().times([request(f"{text}{name}", model) for name in "abc"])
    } == {0.0}


def test_other_schemas_and_models_share_nothing():
    first = request(f"{DOCUMENT}a")
    requests = [
        first,
        replace(first, json_schema={"type": "object"}),
        replace(first, model=Model(name="gpt-4o")),
    ]
    assert [when for when, _ in Server().times(requests)] == [0.0, 0.0, 0.0]


def test_after_a_failed_call_all_others_are_sent_at_once():
    came = Server().times([request(f"{DOCUMENT}fault{number}") for number in range(4)])
    assert [when for when, _ in came] == [0.0, 1.0, 1.0, 1.0]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=20
    )
)
@settings(max_examples=40, deadline=None)
def test_every_call_is_made_once_and_hits_what_an_earlier_one_has_cached(
    drawn,
):
    texts = [f"{str(a) * 5000}{str(b) * 3000}{c}" for a, b, c in drawn]
    server = Server()
    came = server.times([request(text) for text in texts])
    assert sorted(name for _, name in came) == sorted(text[-1] for text in texts)
    prefixes = PromptPrefixes()
    firsts = {digest for text in texts for _, digest in prefixes.of(request(text))[:1]}
    assert sum(when == 0.0 for when, _ in came) == len(firsts)


@given(st.text(min_size=600), st.text(), st.text())
@settings(max_examples=40, deadline=None)
def test_equal_prefixes_have_equal_digests_and_others_do_not(shared, first_text, second_text):
    base = shared * (1 + 5000 // len(shared))
    prefixes = [PromptPrefixes().of(request(base + text)) for text in (first_text, second_text)]
    texts = [message_bytes(request(base + text).messages) for text in (first_text, second_text)]
    for (end, digest), (_, other_digest) in zip(*prefixes, strict=False):
        assert (digest == other_digest) == (texts[0][:end] == texts[1][:end])


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("gpt-4o-mini", 1024),
        ("claude-sonnet-4-5", 1024),
        ("anthropic/claude-haiku-4-5", 4096),
        ("gemini/gemini-2.5-flash", 2048),
        ("gemini/gemini-3-flash-preview", 4096),
        ("together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo", None),
        ("baseline/lexical", None),
        ("nobody/knows", 1024),
    ],
)
def test_the_minimum_is_that_of_the_price_data(name, least):
    assert cacheable_minimum(Model(name=name)) == least
