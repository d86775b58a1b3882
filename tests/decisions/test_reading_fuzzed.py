"""No body that a server can send is a silent score, in either format."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from verdict_cli.errors import ProviderError
from verdict_cli.llm.providers.decision_protocols import OPENAI_DECISIONS, SYSTEM_ONE
from verdict_cli.llm.providers.http_errors import Source
from verdict_cli.llm.providers.read_reply import read_body
from verdict_cli.messages import Message, Option, Question, Request, Row
from verdict_cli.model import Model

TRUTH = (Option("yes", "yes"), Option("no", "no"))
WORDS = tuple(Option(word, word) for word in ("a", "b", "c"))
QUESTIONS = (
    Question("predicate", "?", TRUTH),
    Question("choice", "?", WORDS),
    Question("score", "?", WORDS),
)
NUMBERS = st.one_of(
    st.floats(-0.5, 1.5),
    st.sampled_from([0, 1, 0.5, 1.7, -1, True, None, "0.5", math.nan, math.inf, 10**400]),
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(["q1", "q2", "q3", "q4", "", None])
MAPS = st.dictionaries(st.sampled_from(["a", "b", "c", "0", "1", "2", "d"]), NUMBERS, max_size=5)
ENTRIES = st.lists(
    st.fixed_dictionaries(
        {"value": st.sampled_from(["a", "b", "c", 0, 1, 2, True, None, []]), "probability": NUMBERS}
    ),
    max_size=5,
)
ANSWERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["noul", "predicate", "choice", "score", "refusal", "box", None])},
    optional={
        "name": NAMES,
        "noul": NUMBERS,
        "probability": NUMBERS,
        "choice": st.sampled_from(["a", "b", "z"]),
        "score": NUMBERS,
        "confidence": NUMBERS,
        "probabilities": MAPS | ENTRIES | JSON,
        "legend": JSON,
    },
)
BODIES = st.fixed_dictionaries(
    {
        "answers": st.lists(ANSWERS | JSON, max_size=4)
        | st.dictionaries(st.sampled_from(["q1", "q2", "q3", "x"]), ANSWERS | JSON, max_size=4)
        | JSON
    },
    optional={
        "usage": JSON,
        "model": JSON,
        "error": JSON,
        "result": JSON,
        "truncated": JSON,
        "detail": JSON,
    },
)


def request() -> Request:
    model = Model(name="systemone/m", api_base="http://127.0.0.1:1")
    return Request(
        Row(0, 0, {}),
        "j",
        model,
        (Message("system", "?"), Message("user", "s")),
        questions=QUESTIONS,
    )


def check(body: bytes, protocol: Any) -> None:
    """Every answer is a distribution over the question's options that the body states, or an error."""
    try:
        reply = read_body(body, request(), Source("m"), protocol=protocol)
    except ProviderError:
        return
    assert len(reply.answers) == len(QUESTIONS)
    for question, answer in zip(QUESTIONS, reply.answers, strict=True):
        if answer.failure:
            assert answer.failure in ("refused", "invalid")
            assert answer.error
            continue
        tokens = {
            alternative.token: math.exp(alternative.logprob) for alternative in answer.alternatives
        }
        assert set(tokens) == {option.token for option in question.options}
        assert math.isclose(sum(tokens.values()), 1, abs_tol=1e-6)
        assert tokens[answer.token] == max(tokens.values())
        assert not json.loads(body).get("truncated")


@example({"answers": {"q1": {"type": [], "noul": 0.5}}}, SYSTEM_ONE)  # once a TypeError
@example(
    {"answers": {"q3": {"type": "score", "probabilities": [None]}}}, SYSTEM_ONE
)  # once an AttributeError
@given(BODIES, st.sampled_from([OPENAI_DECISIONS, SYSTEM_ONE]))
def test_any_json_of_the_forms_is_a_distribution_or_an_error(body, protocol):
    check(json.dumps(body).encode(), protocol)


@given(
    st.binary(max_size=40) | JSON.map(json.dumps).map(str.encode),
    st.sampled_from([OPENAI_DECISIONS, SYSTEM_ONE]),
)
def test_any_body_is_an_error(body, protocol):
    check(body, protocol)


@given(st.integers(0, 400), st.sampled_from([OPENAI_DECISIONS, SYSTEM_ONE]))
def test_a_body_that_is_cut_is_an_error(length, protocol):
    answers = {
        "q1": {"type": "noul", "noul": 0.5},
        "q2": {"type": "choice", "probabilities": {"a": 0.5, "b": 0.25, "c": 0.25}},
        "q3": {"type": "score", "probabilities": {"0": 0.5, "1": 0.25, "2": 0.25}},
    }
    whole: Any = answers
    if protocol is OPENAI_DECISIONS:
        whole = [{"name": name, **answer} for name, answer in answers.items()]
    check(orjson.dumps({"model": "m", "answers": whole})[:length], protocol)
