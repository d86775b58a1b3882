"""Scales of a few values."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError, UsageError
from verdict_cli.language.scales.discrete import LIKERT, Categories, DiscreteScale

WORDS = st.lists(
    st.text(
        st.characters(codec="ascii", categories=["L", "N"], include_characters=" -_"),
        min_size=1,
        max_size=8,
    )
    .map(str.strip)
    .filter(bool),
    min_size=1,
    max_size=6,
    unique_by=str.lower,
)
SCALES = st.one_of(
    WORDS.map(lambda values: DiscreteScale(values=values)),
    WORDS.map(lambda values: Categories(values=values)),
    st.tuples(st.integers(-50, 50), st.integers(0, 30), st.integers(1, 7)).map(
        lambda drawn: DiscreteScale(range=(drawn[0], drawn[0] + drawn[1], drawn[2]))
    ),
    st.tuples(st.integers(-5, 5), st.sampled_from([0.1, 0.2, 0.25, 0.5, 1.0])).map(
        lambda drawn: DiscreteScale(range=(float(drawn[0]), drawn[0] + 2.0, drawn[1]))
    ),
    st.sampled_from([("a", "e"), ("A", "Z"), ("а", "д")]).map(
        lambda ends: DiscreteScale(range=ends)
    ),
    st.lists(st.integers(), min_size=1, max_size=6, unique=True).map(
        lambda values: DiscreteScale(values=values)
    ),
)
AROUND = st.sampled_from(
    ["{}", " {} ", '"{}"', "'{}'", "{}.", '"{}."', '"{}".', "\n“{}”\n", "`{}`"]
)
CASES = st.sampled_from([str, str.upper, str.lower, str.title, str.swapcase])


@settings(deadline=None)
@given(SCALES, AROUND, CASES, st.data())
def test_every_value_is_read_from_its_token_in_any_case_with_quotes_and_a_period(
    scale, around, case, data
):
    assert scale.validation_error() is None
    token, value = data.draw(st.sampled_from(scale.tokens()))
    read = scale.read(around.format(case(token)))
    assert read == value
    assert type(read) is type(value)


@settings(deadline=None)
@given(SCALES)
def test_every_value_is_read_back_as_it_is(scale):
    assert [scale.read(value) for value in scale.written_values()] == list(scale.written_values())


@settings(deadline=None)
@given(
    SCALES,
    st.one_of(
        st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.integers())
    ),
)
def test_nothing_off_the_scale_is_ever_read(scale, value):
    try:
        read = scale.read(value)
    except ReplyError as error:
        assert error.failure == "off-scale"
    else:
        assert read in scale.written_values()
        if not isinstance(value, str):
            assert read == value


@settings(deadline=None)
@given(st.integers(1, 5), st.text(st.characters(categories=["L"]), min_size=1, max_size=4))
def test_a_value_with_more_text_around_it_is_not_read(value, more):
    with pytest.raises(ReplyError):
        LIKERT.read(f"{value}{more}")
    with pytest.raises(ReplyError):
        LIKERT.read(f"{more} {value}")


@pytest.mark.parametrize(
    "text", ["4/10", "4 out of 10", "**4**", "4..", "45", "", ".", '""', "1_0", "six", "4,000"]
)
def test_anything_but_a_value_is_an_extraction_error(text):
    with pytest.raises(ReplyError, match="is not on the scale 1, 2, 3, 4, 5"):
        LIKERT.read(text)


def test_a_number_written_in_another_way_is_the_same_value():
    assert LIKERT.read("4.0") == 4
    assert LIKERT.read(4.0) == 4
    assert DiscreteScale(range=(0, 1, 0.1)).read("0.10") == 0.1
    assert DiscreteScale(range=(0, 1, 0.1)).read(".3") == 0.3


def test_a_boolean_is_no_number_of_a_scale():
    with pytest.raises(ReplyError):
        LIKERT.read(True)


def test_values_that_differ_only_in_case_are_distinguished():
    scale = DiscreteScale(values=("m", "M"))
    assert (scale.read("m"), scale.read(" M.")) == ("m", "M")
    with pytest.raises(ReplyError):
        DiscreteScale(values=("aB", "Ab")).read("AB")


def test_values_that_end_in_a_period_or_are_in_quotes_are_read():
    scale = DiscreteScale(values=("No.", "'tis", "x"))
    assert [scale.read(text) for text in ("No.", "no.", "no", "'TIS", "tis")] == [
        "No.",
        "No.",
        "No.",
        "'tis",
        "'tis",
    ]


def test_a_message_stays_short_whatever_the_reply():
    with pytest.raises(ReplyError) as caught:
        LIKERT.read("x" * 100_000)
    assert len(str(caught.value)) < 400


def test_both_ends_of_a_range_are_included():
    assert DiscreteScale(range=(0, 1, 0.25)).written_values() == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert DiscreteScale(range=("a", "e")).written_values() == ("a", "b", "c", "d", "e")
    assert DiscreteScale(range=(1, 10)).written_values() == tuple(range(1, 11))
    assert DiscreteScale(range=(0.1, 0.7, 0.1)).written_values() == (
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
    )


def test_a_flipped_scale_has_its_worst_value_at_the_end():
    scale = DiscreteScale(values=("good", "bad"), end_is_worst=True)
    assert scale.values() == ("bad", "good")
    assert scale.json_schema() == {"type": "string", "enum": ["bad", "good"]}
    assert scale.sentence("score") == (
        "The score must be one of: good, bad, where bad is the worst and good the best."
    )
    assert (
        Categories(values=("x", "y")).sentence("choice")
        == "The choice must be exactly one of: x, y."
    )


def test_scores_give_words_a_number_and_without_them_they_have_none():
    scored = DiscreteScale(values=("unsafe", "safe"), scores={"unsafe": 0, "safe": 1})
    assert (scored.number("safe"), scored.numeric()) == (1, True)
    bare = DiscreteScale(values=("unsafe", "safe"))
    assert (bare.number("safe"), bare.numeric()) == (None, False)
    assert (LIKERT.number(4), LIKERT.numeric()) == (4.0, True)
    assert DiscreteScale(values=(False, True)).number(True) == 1.0


@pytest.mark.parametrize(
    ("keys", "key", "reason"),
    [
        ({}, "", "needs either `range` or `values`"),
        ({"range": (1, 2), "values": ("a",)}, "", "needs either `range` or `values`"),
        ({"values": ("a", "a")}, "values.1", "is a duplicate"),
        ({"values": (1, 1.0)}, "values.1", "is a duplicate"),
        ({"values": (True, 1)}, "values.1", "is a duplicate"),
        ({"values": ("1", 1)}, "values.1", "is a duplicate"),
        ({"values": ("a", " ")}, "values.1", "is not a word"),
        ({"range": (5, 1)}, "range", "runs from 5 down to 1"),
        ({"range": ("e", "a")}, "range", "runs from 'e' down to 'a'"),
        ({"range": (1, 5, 0)}, "range", "the step 0"),
        ({"range": (1, 5, -1)}, "range", "the step -1"),
        ({"range": (1, 5, True)}, "range", "the step True"),
        ({"range": (1, "e")}, "range", "not of one type"),
        ({"range": (False, True)}, "range", "not of one type"),
        ({"range": ("A", "z")}, "range", "letters"),
        ({"range": ("ab", "c")}, "range", "letters"),
        ({"range": ("a", "e", 0.5)}, "range", "letters"),
        ({"range": (1, 1_000_000)}, "range", "1000000 values"),
        ({"range": (0.0, 1e300, 1e-300)}, "range", "values, more than 1000"),
        ({"range": (0.0, 1e300, 1e-300)}, "range", "has 1.0e+600 values"),
        ({"values": ("a", "b"), "scores": {"c": 1}}, "scores", "'c' is not a value"),
        ({"values": ("a", "b"), "scores": {"a": 1}}, "scores", "'b' has no score"),
        ({"values": ("a", "b"), "scores": {}}, "scores", "'a' has no score"),
    ],
)
def test_a_scale_that_makes_no_sense_says_which_key_and_why(keys, key, reason):
    trouble = DiscreteScale.model_validate(keys).validation_error()
    assert trouble is not None
    assert trouble[0] == key
    assert reason in trouble[1]
    assert trouble[2]


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=2)
        ),
        min_size=2,
        max_size=3,
    )
)
@example([10**28 + 1, 10**28 + 1])
@example([10**28 - 998, 10**28 + 1])
@example([1e20, 1e20 + 32768, 1])
def test_any_range_is_a_scale_or_a_problem(ends):
    scale = DiscreteScale.model_validate({"range": ends})
    if scale.validation_error() is None:
        values = scale.written_values()
        assert 1 <= len(values) <= 1000
        assert values[0] == ends[0]
        assert len(set(values)) == len(values)
        assert [scale.read(value) for value in values] == list(values)


def test_the_shared_cases_of_scales_hold(value_cases):
    for case in value_cases["scale"]:
        keys, expect = dict(case["given"]["scale"]), case["expect"]
        if "step" in keys:
            keys["range"] = (*keys["range"], keys.pop("step"))
        if expect.get("error"):
            with pytest.raises(UsageError, match="at least 1 item"):
                DiscreteScale(**keys)
            continue
        scale = DiscreteScale(**keys)
        assert scale.validation_error() is None, case["name"]
        assert list(scale.values()) == expect["values"], case["name"]
        assert {type(value).__name__ for value in scale.values()} == {expect["type"]}, case["name"]
        assert scale.display() == expect["display"], case["name"]
        assert [token for token, _ in scale.tokens()] == expect["token_support"], case["name"]


@pytest.mark.parametrize(
    ("scale", "ordered"),
    [
        (LIKERT, True),
        (DiscreteScale(range=("a", "e")), True),
        (DiscreteScale(values=(1, 3)), True),
        (DiscreteScale(values=("bad", "good"), scores={"bad": 0, "good": 1}), True),
        (DiscreteScale(["bad", "good"], ordered=True), True),
        (DiscreteScale(["good", "bad"], end_is_worst=True), True),
        (DiscreteScale(["no_error", "error"]), False),
        (DiscreteScale(values=(1, 2), ordered=False), False),
        (DiscreteScale(values=(False, True)), False),
        (Categories(values=(1, 2)), False),
    ],
)
def test_only_an_ordered_scale_names_a_worst_and_a_best_end(scale, ordered):
    assert scale.validation_error() is None
    assert scale.ordered is ordered
    assert ("is the worst" in scale.sentence("score")) is ordered
    assert (scale.best() is not None) is ordered


def test_a_nominal_scale_has_the_same_sentence_from_a_file_and_from_python():
    sentences = {
        scale.sentence("choice")
        for scale in (
            DiscreteScale(["yes", "no"]),
            DiscreteScale.model_validate({"type": "discrete", "values": ["yes", "no"]}),
            Categories(values=("yes", "no")),
        )
    }
    assert sentences == {"The choice must be exactly one of: yes, no."}


def test_a_shuffled_nominal_scale_lists_each_value_once_in_the_drawn_order():
    scale = DiscreteScale(["a1", "b1", "c1"], shuffle=True)
    sentences = [scale.shuffled_sentence("score", draw) for draw in range(60)]
    assert sentences == [scale.shuffled_sentence("score", draw) for draw in range(60)]
    orders = {
        tuple(text.removeprefix("The score must be exactly one of: ")[:-1].split(", "))
        for text in sentences
    }
    assert len(orders) == 6
    assert {frozenset(order) for order in orders} == {frozenset(("a1", "b1", "c1"))}


@pytest.mark.parametrize(
    "keys",
    [
        {"range": [1, 5], "shuffle": True},
        {"values": [1, 2], "shuffle": True},
        {"range": [1, 5], "ordered": False},
        {"values": ["a1", "b1"], "scores": {"a1": 0, "b1": 1}, "ordered": False},
    ],
)
def test_an_order_that_contradicts_the_scale_is_a_problem(keys):
    assert DiscreteScale.model_validate(keys).validation_error() is not None


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        ([1, 5], True),
        ([-1, 1], True),
        ([-5, -1], True),
        ([-1, 0], False),
        ([0, 1], False),
        ([1, 3, 5], False),
        (["1", "5"], False),
    ],
)
def test_two_numbers_as_values_are_warned_of(values, warned):
    issue = DiscreteScale(values).warning()
    assert (issue is not None) is warned
    assert issue is None or "did you mean range" in issue[1]
    assert (
        DiscreteScale(values, ordered=True if not isinstance(values[0], str) else None).warning()
        is None
    )


def test_scores_that_are_no_mapping_are_refused_in_python():
    with pytest.raises(UsageError, match="DiscreteScale: scores: "):
        DiscreteScale(["a", "b"], scores=3)  # type: ignore[arg-type]
