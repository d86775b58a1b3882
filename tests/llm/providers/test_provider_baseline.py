from __future__ import annotations

import asyncio
import json
import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import Refused
from verdict_cli.llm.providers.baseline import NAMES, BaselineProvider
from verdict_cli.messages import Message, Reply, Request, Row

Make = Callable[..., Request]
LIKERT = ("1", "2", "3", "4", "5")
SCORE = {"type": "object", "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}}}


def ask(request: Request) -> Reply:
    return asyncio.run(BaselineProvider().ask(request))


def about(
    make: Make, answer: str, context: str = "The capital of France is Paris.", **fields: Any
) -> Request:
    messages = (Message("user", f"{context}\nAnswer: {answer}"),)
    return make(messages=messages, inserted=(answer,), **fields)


def test_an_answer_that_occurs_whole_around_it_gets_the_best_value(request_for):
    reply = ask(about(request_for, "Paris, the capital", json_schema=SCORE))
    assert json.loads(reply.text) == {"score": 5}


def test_an_answer_that_occurs_nowhere_around_it_gets_the_worst_value(request_for):
    reply = ask(about(request_for, "Berlin obviously", json_schema=SCORE))
    assert json.loads(reply.text) == {"score": 1}


def test_an_enum_is_read_worst_first(request_for):
    schema = {"type": "object", "properties": {"choice": {"enum": ["unsafe", "unclear", "safe"]}}}
    choices = [
        json.loads(ask(about(request_for, answer, json_schema=schema)).text)["choice"]
        for answer in ("Berlin", "Paris Berlin", "Paris")
    ]
    assert choices == ["unsafe", "unclear", "safe"]


def test_half_an_overlap_is_true(request_for):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    assert json.loads(ask(about(request_for, "Paris Berlin", json_schema=schema)).text) == {
        "ok": True
    }


def test_the_answer_itself_does_not_count_as_text_around_it(request_for):
    request = request_for(
        messages=(Message("user", "zebra"),), inserted=("zebra",), json_schema=SCORE
    )
    assert json.loads(ask(request).text) == {"score": 1}


def test_a_word_that_an_earlier_value_has_too_is_removed_at_the_answer(
    request_for,
):
    messages = (Message("user", "Question: Is it Paris? Answer: Paris"),)
    request = request_for(messages=messages, inserted=("Is it Paris?", "Paris"), json_schema=SCORE)
    assert json.loads(ask(request).text) == {"score": 5}


def test_without_inserted_values_the_last_user_message_is_the_answer(request_for):
    messages = (Message("system", "Paris is the capital"), Message("user", "capital Paris"))
    assert json.loads(ask(request_for(messages=messages, inserted=(), json_schema=SCORE)).text) == {
        "score": 5
    }


def test_string_fields_name_the_overlap_and_the_words(request_for):
    schema = {"type": "object", "properties": {"explanation": {"type": "string"}}}
    text = json.loads(ask(about(request_for, "Paris Berlin", json_schema=schema)).text)[
        "explanation"
    ]
    assert "1 of 2 content words" in text and "(paris)" in text and "overlap 0.50" in text


@pytest.mark.parametrize("name", ["baseline/lexical", "baseline/random"])
def test_a_text_holds_one_number_which_is_the_score_on_the_scale(request_for, name):
    text = ask(request_for(name, support=LIKERT)).text
    (number,) = re.findall(r"\d+(?:\.\d+)?", text)
    assert number in LIKERT
    assert text.endswith(f"SCORE: {number}")
    assert ("VERDICT: PASS" in text) == (int(number) >= 3)


@pytest.mark.parametrize("name", ["baseline/lexical", "baseline/random"])
def test_token_probabilities_sum_to_one_and_the_chosen_comes_first(request_for, name):
    reply = ask(request_for(name, top_logprobs=20, support=LIKERT))
    assert reply.logprobs is not None
    (alternatives,) = reply.logprobs
    assert sorted(alternative.token for alternative in alternatives) == list(LIKERT)
    assert alternatives[0].token == reply.text
    assert math.isclose(sum(math.exp(alternative.logprob) for alternative in alternatives), 1)
    assert alternatives[0].logprob == max(alternative.logprob for alternative in alternatives)


def test_no_more_alternatives_than_requested(request_for):
    reply = ask(request_for(top_logprobs=2, support=LIKERT))
    assert reply.logprobs is not None and len(reply.logprobs[0]) == 2


def test_token_probabilities_can_be_had_from_a_schema_of_one_field(request_for):
    reply = ask(request_for(top_logprobs=5, json_schema=SCORE))
    assert reply.logprobs is not None
    assert json.loads(reply.text)["score"] == int(reply.logprobs[0][0].token)


def test_random_depends_on_seed_row_node_call_and_attempt_alone(request_for):
    def drawn(**fields: Any) -> str:
        return ask(request_for("baseline/random", **fields)).text

    assert drawn() == drawn(messages=(Message("user", "other"),))
    changed = [
        drawn(seed=1),
        drawn(row=Row(0, "b", {})),
        drawn(node="judge[1]"),
        drawn(call=1),
        drawn(attempt=1),
    ]
    assert len({drawn(), *changed}) == 6


def test_random_is_the_same_in_every_process(request_for):
    code = (
        "import asyncio; from verdict_cli.messages import *; from verdict_cli.model import Model;"
        "from verdict_cli.llm.providers.baseline import BaselineProvider as P;"
        "r = Request(Row(0, 'a', {}), 'judge', Model(name='baseline/random'), (Message('user', ''),));"
        "print(asyncio.run(P().ask(r)).text, end='')"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert other == ask(request_for("baseline/random")).text


def test_random_draws_every_value_equally_often(request_for):
    draws = Counter(
        json.loads(ask(request_for("baseline/random", row=Row(n, n, {}), json_schema=SCORE)).text)[
            "score"
        ]
        for n in range(2000)
    )
    assert set(draws) == {1, 2, 3, 4, 5}
    assert all(330 < count < 470 for count in draws.values())


def test_a_ranking_is_a_permutation(request_for):
    items = {"enum": ["A", "B", "C", "D"]}
    ranking = {"type": "array", "items": items, "minItems": 4, "maxItems": 4}
    schema = {"type": "object", "properties": {"ranking": ranking}}
    orders = {
        tuple(
            json.loads(ask(request_for("baseline/random", attempt=n, json_schema=schema)).text)[
                "ranking"
            ]
        )
        for n in range(20)
    }
    assert len(orders) > 5
    assert all(sorted(order) == ["A", "B", "C", "D"] for order in orders)


def test_echo_replies_with_the_last_user_message(request_for):
    messages = (Message("user", "one"), Message("assistant", "two"), Message("user", "three"))
    assert ask(request_for("baseline/echo", messages=messages, json_schema=SCORE)).text == "three"


def test_echo_puts_the_message_into_fields_that_are_texts(request_for):
    schema = {"type": "object", "properties": {"thinking": {"type": "string"}}}
    reply = ask(request_for("baseline/echo", messages=(Message("user", "hm"),), json_schema=schema))
    assert json.loads(reply.text) == {"thinking": "hm"}


def test_echo_leaves_json_as_it_is(request_for):
    schema = {"type": "object", "properties": {"thinking": {"type": "string"}}}
    messages = (Message("user", '{"thinking": "x"}'),)
    assert (
        ask(request_for("baseline/echo", messages=messages, json_schema=schema)).text
        == messages[0].content
    )


@pytest.mark.parametrize("name", NAMES)
def test_floors_cost_nothing_and_count_words(request_for, name):
    reply = ask(request_for(name))
    assert reply.cost_usd == 0.0
    assert reply.usage.prompt_tokens == 16
    assert reply.usage.completion_tokens == len(reply.text.split())
    assert reply.model == name


def test_an_unknown_baseline_is_refused_with_those_there_are(request_for):
    with pytest.raises(Refused, match=r"baseline/lexicl[\s\S]*baseline/lexical"):
        ask(request_for("baseline/lexicl"))


leaf = st.one_of(
    st.just({"type": "string"}),
    st.just({"type": "boolean"}),
    st.lists(
        st.one_of(st.text(max_size=5), st.integers()), min_size=1, max_size=5, unique=True
    ).map(lambda values: {"enum": values}),
    st.tuples(st.integers(-9, 9), st.integers(0, 9)).map(
        lambda pair: {"type": "integer", "minimum": pair[0], "maximum": pair[0] + pair[1]}
    ),
    st.tuples(st.floats(-9, 9), st.floats(0, 9)).map(
        lambda pair: {"type": "number", "minimum": pair[0], "maximum": pair[0] + pair[1]}
    ),
    st.integers(0, 3).map(lambda n: {"type": "array", "items": {"type": "string"}, "minItems": n}),
)
leaf |= leaf.map(lambda schema: {"anyOf": [schema, {"type": "null"}]})
leaf |= leaf.map(lambda schema: {"type": "array", "items": schema})
schemas = st.recursive(
    st.dictionaries(st.text(max_size=4), leaf, min_size=1, max_size=4),
    lambda inner: st.dictionaries(
        st.text(max_size=4), inner.map(lambda p: {"type": "object", "properties": p})
    ),
    max_leaves=6,
).map(lambda properties: {"type": "object", "properties": properties, "required": list(properties)})


@settings(deadline=None)
@given(
    schema=schemas,
    answer=st.text(max_size=40),
    name=st.sampled_from(["baseline/lexical", "baseline/random"]),
    top=st.integers(0, 3),
)
def test_every_reply_satisfies_its_schema(request_for, schema, answer, name, top):
    reply = ask(about(request_for, answer, model=name, json_schema=schema, top_logprobs=top))
    jsonschema.validate(json.loads(reply.text), schema)


@settings(deadline=None)
@given(values=st.lists(st.text(max_size=20), max_size=3), prompt=st.text(max_size=60))
def test_any_text_can_be_judged(request_for, values, prompt):
    messages = (Message("user", prompt + " ".join(values)),)
    assert ask(request_for(messages=messages, inserted=tuple(values))).text
