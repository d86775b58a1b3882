"""Distributions over a scale, read from a reply's log-probabilities."""

from __future__ import annotations

import gzip
import json
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.token_probability import (
    ArgmaxScoreExtractor,
    SampleScoreExtractor,
    TokenProbabilityExtractor,
    WeightedSummedScoreExtractor,
    ambiguity,
    spell_token,
)
from verdict_cli.language.extractors.token_probability import distribution as evidence
from verdict_cli.language.fields.types import MASS_TYPE, NUMBER, TEXT, RecordType, ScaleType
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.boolean import BooleanScale
from verdict_cli.language.scales.continuous import ContinuousScale
from verdict_cli.language.scales.discrete import LIKERT, Categories, DiscreteScale
from verdict_cli.messages import Alternative, Reply, Request, Row
from verdict_cli.model import Model

TEN = DiscreteScale(range=(1, 10))
WORDS = DiscreteScale(values=("unsafe", "safe"))
EXTRACTORS = (
    TokenProbabilityExtractor(),
    ArgmaxScoreExtractor(),
    SampleScoreExtractor(),
    WeightedSummedScoreExtractor(),
)


def request(row: int = 0, seed: int = 0, attempt: int = 0) -> Request:
    return Request(Row(row, row, {}), "judge", Model(name="m"), (), seed=seed, attempt=attempt)


def reply(*positions: list[tuple[str, float]]) -> Reply:
    """A reply with these alternatives (token, log-probability) at each position, the chosen token first."""
    text = "".join(spell_token(position[0][0]) for position in positions if position)
    return Reply(
        text,
        logprobs=tuple(
            tuple(Alternative(*alternative) for alternative in position) for position in positions
        ),
    )


def at(*probabilities: tuple[str, float]) -> list[tuple[str, float]]:
    return [(token, math.log(p)) for token, p in probabilities]


def distribution(answer: Reply, scale: Scale) -> dict[Any, float]:
    return evidence(answer, scale)[0]


FAILURES = {"unreadable", "no-logprobs", "low-mass"}


def refused(scale: BooleanScale | DiscreteScale, *positions: list[tuple[str, float]]) -> str:
    with pytest.raises(ReplyError) as caught:
        distribution(reply(*positions), scale)
    assert caught.value.failure in FAILURES
    return caught.value.message


SCALES = st.sampled_from(
    [
        LIKERT,
        TEN,
        WORDS,
        BooleanScale(),
        DiscreteScale(range=("a", "e")),
        DiscreteScale(values=("m", "M")),
    ]
)
TOKENS = st.one_of(
    st.sampled_from(["1", "2", "3", "10", "0", "yes", "no", "Yes", "NO", "true", "safe", "unsafe", "uns", "un", "a", "b", "E", "m", "M", "The", " ", "", "▁1", "Ġ2", " yes"]),
    st.text(max_size=3),
)  # fmt: skip
LOGPROBS = st.one_of(
    st.floats(-30, 0),
    st.sampled_from([float("nan"), float("-inf"), float("inf"), 0.5, -9999.0, -744.5]),
)


@settings(deadline=None, max_examples=120)
@given(SCALES, st.lists(st.lists(st.tuples(TOKENS, LOGPROBS), max_size=6), max_size=4))
def test_any_reply_gives_probabilities_that_sum_to_one_or_a_reply_error(scale, positions):
    try:
        probabilities = distribution(reply(*positions), scale)
    except ReplyError as error:
        assert error.failure in FAILURES
    else:
        assert list(probabilities) == list(dict.fromkeys(value for _, value in scale.tokens()))
        assert math.fsum(probabilities.values()) == pytest.approx(1)
        assert all(0 <= p <= 1 for p in probabilities.values())


@settings(deadline=None)
@given(
    st.lists(st.floats(-20, 0), min_size=5, max_size=5),
    st.lists(
        st.tuples(st.sampled_from(["The", "I", "\n", "Six", "6"]), st.floats(-20, 0)), max_size=3
    ),
    st.permutations(range(5)),
)
def test_probabilities_are_normalised_over_the_support_alone_in_any_order(logprobs, further, order):
    mass = [math.exp(logprob) for logprob in logprobs]
    position = [(str(place + 1), logprobs[place]) for place in order] + further
    probabilities, raw = evidence(reply(position), LIKERT)
    assert raw == pytest.approx(min(1.0, sum(mass)))
    assert probabilities == pytest.approx(
        {place + 1: mass[place] / sum(mass) for place in range(5)}
    )


def test_tokens_that_differ_only_in_surrounding_space_or_in_case_are_merged():
    probabilities = distribution(
        reply(
            at(("Yes", 0.2), (" yes", 0.1), ("YES\n", 0.1), ("▁yes", 0.1), ("no", 0.3), ("No", 0.2))
        ),
        BooleanScale(),
    )
    assert probabilities == pytest.approx({True: 0.5, False: 0.5})


def test_case_counts_where_two_values_differ_only_in_case():
    probabilities = distribution(
        reply(at(("M", 0.6), (" M", 0.1), ("m", 0.3))), DiscreteScale(values=("m", "M"))
    )
    assert probabilities == pytest.approx({"m": 0.3, "M": 0.7})


@pytest.mark.parametrize(
    "tokens",
    [["**", "2", "**"], ['"', "2", '"'], ['"2', '"'], [" 2", "."], ["▁2"], ["**2", ".**"], ["2."], ["\n", "2", "\n"], ["2", "<|eot|>"]],
)  # fmt: skip
def test_the_position_where_the_value_begins_is_read(tokens):
    place = next(index for index, token in enumerate(tokens) if "2" in token)
    positions = [at((token, 0.98), ("5", 0.02)) for token in tokens]
    positions[place] = at((tokens[place], 0.9), (tokens[place].replace("2", "1"), 0.05))
    answer = reply(*positions)
    probabilities, mass = evidence(
        Reply(answer.text.removesuffix("<|eot|>"), logprobs=answer.logprobs), LIKERT
    )
    assert mass == pytest.approx(0.95)
    assert probabilities == pytest.approx({1: 0.05 / 0.95, 2: 0.9 / 0.95, 3: 0, 4: 0, 5: 0})


@pytest.mark.parametrize(
    ("scale", "tokens"),
    [
        (LIKERT, ["The", " score", " is", " ", "4"]),
        (LIKERT, ["42"]),
        (LIKERT, ["4", "2"]),
        (LIKERT, ["4", "/", "5"]),
        (LIKERT, ["4", ".", "."]),
        (LIKERT, ["4", ".", "0"]),
        (
            Categories(values=("A", "B")),
            ["A", " closer", " look", " shows", " that", " B", " is", " better", "."],
        ),
        (BooleanScale(), ["Based", " on", " this", " yes"]),
    ],
)
def test_text_beside_the_value_makes_a_reply_unreadable(scale, tokens):
    with pytest.raises(ReplyError) as caught:
        evidence(reply(*(at((token, 0.9), ("4", 0.05), ("B", 0.05)) for token in tokens)), scale)
    assert caught.value.failure == "unreadable"


def test_a_position_with_little_probability_on_the_scale_is_low_mass():
    answer = reply(at(("4", 1e-5), ("The", 0.99)))
    with pytest.raises(ReplyError) as caught:
        score(ArgmaxScoreExtractor(), LIKERT, answer)
    assert caught.value.failure == "low-mass"
    assert score(ArgmaxScoreExtractor(min_mass=0), LIKERT, answer) == 4


def test_with_first_token_its_alternatives_are_read_whatever_the_reply_says():
    answer = reply(at(("Both", 0.4), ("A", 0.36), ("B", 0.24)), at((" are", 1.0)))
    scale = Categories(values=("A", "B"))
    values, mass = evidence(answer, scale, first_token=True, min_mass=0.5)
    assert (values, mass) == (pytest.approx({"A": 0.6, "B": 0.4}), pytest.approx(0.6))
    with pytest.raises(ReplyError):
        evidence(answer, scale, first_token=True, min_mass=0.7)


def test_after_a_text_the_value_may_follow_reasons():
    extractor = WeightedSummedScoreExtractor(after="Score:")
    tokens = [
        at((token, 0.9))
        for token in ("Score:", " 1", " is", " low", ".", "\n", "**", "Score:", "**")
    ]
    answer = reply(*tokens, at((" 4", 0.6), (" 2", 0.4)), at((".", 1.0)))
    assert score(extractor, LIKERT, answer) == pytest.approx(3.2)
    for bad in (
        reply(at(("4", 1.0))),
        reply(at(("Score:", 1.0)), at((" 4", 1.0)), at((" or", 1.0)), at((" 5", 1.0))),
    ):
        with pytest.raises(ReplyError) as caught:
            score(extractor, LIKERT, bad)
        assert caught.value.failure == "unreadable"


AROUND = " \n\"'`*_"


def written_value(text: str) -> str:
    """The oracle, from language-2.md, A2: without surrounding white space, quotes, markdown emphasis and a final period."""
    return re.sub(rf"^[{AROUND}]+|[{AROUND}]*\.?[{AROUND}]*$", "", text)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(["1", "2", "5", "12", " 3", "**", '"', ".", "_", "\n", " ", "A", "The", "0", "/5", ".5"]), min_size=1, max_size=4))  # fmt: skip
def test_a_reply_is_read_exactly_where_its_text_is_one_value(tokens):
    value = written_value("".join(tokens))
    try:
        probabilities, mass = evidence(
            reply(*(at((token, 0.7), ("4", 0.2)) for token in tokens)), LIKERT
        )
    except ReplyError:
        assert value not in {"1", "2", "3", "4", "5"}
    else:
        assert value in {"1", "2", "3", "4", "5"}
        assert mass == pytest.approx(0.9)
        assert probabilities[int(value)] == pytest.approx(0.7 / 0.9)


def test_a_values_unique_beginning_counts_for_it():
    assert distribution(
        reply(at(("uns", 0.75), ("safe", 0.25)), at(("afe", 1.0))), WORDS
    ) == pytest.approx({"unsafe": 0.75, "safe": 0.25})
    assert distribution(
        reply(at(("very", 1.0)), at((" good", 1.0))), DiscreteScale(values=("bad", "very good"))
    ) == {
        "bad": 0.0,
        "very good": 1.0,
    }


@pytest.mark.parametrize("positions", [None, (), ((),), ((), ())])
def test_a_reply_without_log_probabilities_is_no_score(positions):
    with pytest.raises(ReplyError) as caught:
        distribution(Reply("4", logprobs=positions), LIKERT)
    assert caught.value.failure == "no-logprobs"


def test_what_is_no_probability_is_no_score():
    assert "not a log-probability" in refused(LIKERT, [("4", math.nan), ("3", -0.1)])
    assert "not a log-probability" in refused(LIKERT, [("4", 0.5)])
    assert "not a log-probability" in refused(LIKERT, [("4", math.inf)])
    assert "a probability of 0 together" in refused(LIKERT, [("4", -math.inf)])
    assert "a probability of 0 together" in refused(LIKERT, [("4", -9999.0), ("3", -9999.0)])
    assert "not exactly one value" in refused(LIKERT, at(("The", 0.9), ("four", 0.1)))


@pytest.mark.parametrize(
    ("scale", "positions"),
    [
        (TEN, [at(("1", 0.9), ("2", 0.1)), at(("0", 1.0))]),
        (TEN, [at(("1", 1.0)), at(("0", 1.0)), at((".", 1.0))]),
        (
            DiscreteScale(values=("safe", "safe-ish")),
            [at(("safe", 1.0)), at(("-", 1.0)), at(("ish", 1.0))],
        ),
        (DiscreteScale(range=(0, 1, 0.5)), [at(("0", 1.0)), at((".", 1.0)), at(("5", 1.0))]),
        (
            DiscreteScale(range=(0, 1, 0.5)),
            [at(("1", 0.6), ("0", 0.4)), at((".", 1.0)), at(("0", 1.0))],
        ),
    ],
)
def test_a_value_that_the_model_writes_in_several_tokens_is_refused(scale, positions):
    assert "in several tokens" in refused(scale, *positions)


@pytest.mark.parametrize(
    "scale",
    [
        DiscreteScale(values=("very good", "very bad")),
        DiscreteScale(values=("A1", "A2")),
        DiscreteScale(range=(-2, 2)),
        BooleanScale(yes=("definitely yes",), no=("definitely no",)),
        DiscreteScale(values=("-", "-ish")),
    ],
)
def test_values_that_begin_with_the_same_token_are_refused_before_anything_runs(scale):
    assert ambiguity(scale) is not None
    trouble = ArgmaxScoreExtractor().validation_error(RecordType({"score": ScaleType(scale)}))
    assert trouble is not None
    assert "begin with the same token" in trouble[1]


@pytest.mark.parametrize("scale", [LIKERT, TEN, WORDS, BooleanScale(), DiscreteScale(values=("m", "M")), DiscreteScale(values=(-1, 1)), DiscreteScale(range=(0, 1, 0.25))])  # fmt: skip
def test_values_that_begin_with_tokens_of_their_own_are_fit(scale):
    assert ambiguity(scale) is None
    assert (
        TokenProbabilityExtractor().validation_error(RecordType({"score": ScaleType(scale)}))
        is None
    )


@pytest.mark.parametrize("extractor", EXTRACTORS)
@pytest.mark.parametrize(
    "response",
    [
        RecordType({"score": ScaleType(ContinuousScale())}),
        RecordType({"score": TEXT}),
        RecordType({"explanation": TEXT, "score": ScaleType(LIKERT)}),
    ],
)
def test_anything_but_one_field_on_a_discrete_or_boolean_scale_is_a_problem(extractor, response):
    trouble = extractor.validation_error(response)
    assert trouble is not None
    assert f"`{extractor.type}` needs" in trouble[1]


def score(extractor: Any, scale: Scale, answer: Reply, sent_request: Request | None = None) -> Any:
    response = RecordType({"score": ScaleType(scale)})
    assert extractor.validation_error(response) is None
    value, _ = extractor.bind(response).read(answer, sent_request or request()).values()
    return value


def test_the_reading_asks_for_alternatives_and_names_the_support_worst_first():
    reading = TokenProbabilityExtractor().bind(RecordType({"score": ScaleType(BooleanScale())}))
    assert reading.top_logprobs == 20
    assert reading.support == ("no", "false", "yes", "true")
    assert list(reading.output.fields) == ["distribution", "mass"]
    assert reading.token_cap == 10
    assert "the value alone" in reading.instruction
    assert WeightedSummedScoreExtractor().bind(
        RecordType({"score": ScaleType(LIKERT)})
    ).output == RecordType({"score": NUMBER, "mass": MASS_TYPE})


def test_the_mode_the_expectation_and_own_weights():
    answer = reply(at(("4", 0.5), ("2", 0.3), ("1", 0.2)))
    assert score(ArgmaxScoreExtractor(), LIKERT, answer) == 4
    assert score(WeightedSummedScoreExtractor(), LIKERT, answer) == pytest.approx(2.8)
    weights = {1: 0.0, 2: 0.0, 3: 0.0, 4: 10.0, 5: 0.0}
    assert score(WeightedSummedScoreExtractor(weights=weights), LIKERT, answer) == pytest.approx(5)
    scored = DiscreteScale(values=("unsafe", "safe"), scores={"unsafe": -1, "safe": 1})
    assert score(
        WeightedSummedScoreExtractor(), scored, reply(at(("safe", 0.75), ("unsafe", 0.25)))
    ) == pytest.approx(0.5)


def test_a_draw_is_seeded_and_follows_the_distribution():
    answer = reply(at(("1", 0.7), ("5", 0.3)))
    draws = [score(SampleScoreExtractor(), LIKERT, answer, request(row)) for row in range(400)]
    assert draws == [
        score(SampleScoreExtractor(), LIKERT, answer, request(row)) for row in range(400)
    ]
    assert draws != [
        score(SampleScoreExtractor(), LIKERT, answer, request(row, seed=1)) for row in range(400)
    ]
    assert draws != [
        score(SampleScoreExtractor(), LIKERT, answer, request(row, attempt=1)) for row in range(400)
    ]
    assert set(draws) == {1, 5}
    assert 230 < draws.count(1) < 330


@pytest.mark.parametrize(
    ("scale", "weights", "key", "message"),
    [
        (WORDS, None, "", "have no number"),
        (LIKERT, {1: 0.5, 9: 1.0}, "weights", "9 is not a value"),
        (LIKERT, {1: 0.5}, "weights", "the value 2 has no weight"),
    ],
)
def test_an_expectation_needs_a_number_for_every_value(scale, weights, key, message):
    trouble = WeightedSummedScoreExtractor(weights=weights).validation_error(
        RecordType({"score": ScaleType(scale)})
    )
    assert trouble is not None
    assert trouble[0] == key
    assert message in trouble[1]


WIN_RATES = {
    "claude-2": 17.188240,
    "Mixtral-8x7B-Instruct-v0.1_concise": 13.744040,
    "gpt-3.5-turbo-1106": 9.177965,
    "NullModel": 76.919792,
}


@pytest.mark.parametrize("model", WIN_RATES)
def test_recorded_log_probabilities_of_a_real_judge_give_the_published_win_rate(shared, model):
    """AlpacaEval 2: P(m) / (P(m) + P(M)), every recorded preference to 1e-9 from the bare tokens that it counted.

    With the tokens that differ only in surrounding space merged, as the language asks, the rate stays the same to 1e-4.
    Three replies drew a word such as `Both`, which is no value: AlpacaEval counts them, the language does not.
    """
    path = shared / "data" / "alpacaeval_logprobs" / f"{model}.jsonl.gz"
    if not path.exists():
        pytest.skip("the recorded log-probabilities are not there")
    rates: dict[bool, list[float]] = {True: [], False: []}
    longer_preferences = []
    for line in gzip.decompress(path.read_bytes()).splitlines():
        row = json.loads(line)
        if not row["identical_outputs"] and row["text"].strip() not in ("m", "M"):
            position = tuple(Alternative(*alternative) for alternative in row["top_logprobs"])
            with pytest.raises(ReplyError):
                evidence(Reply(row["text"], logprobs=(position,)), Categories(values=("m", "M")))
            longer_preferences.append(row["preference"])
            continue
        for bare, preferences in rates.items():
            preference = 1.5
            if not row["identical_outputs"]:
                counted = [
                    alternative
                    for alternative in row["top_logprobs"]
                    if not bare or alternative[0] == alternative[0].strip()
                ]
                answer = Reply(
                    row["text"],
                    logprobs=(tuple(Alternative(*alternative) for alternative in counted),),
                )
                p = score(TokenProbabilityExtractor(), Categories(values=("m", "M")), answer)["m"]
                preference = 1 + p if row["switched"] else 2 - p
            preferences.append(preference)
        assert rates[True][-1] == pytest.approx(row["preference"], abs=1e-9)
    assert len(rates[True]) + len(longer_preferences) == 805
    assert len(longer_preferences) <= 2
    for bare, tolerance in ((True, 1e-6), (False, 1e-4)):
        mean = math.fsum([*rates[bare], *longer_preferences]) / 805
        assert 100 * (mean - 1) == pytest.approx(WIN_RATES[model], abs=tolerance)
