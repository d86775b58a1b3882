"""The yes/no scale."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError
from verdict_cli.language.scales.boolean import BooleanScale


@settings(deadline=None)
@given(
    st.sampled_from([("yes", True), ("true", True), ("no", False), ("false", False)]),
    st.sampled_from(["{}", " {} ", '"{}"', "'{}.'", "{}.", "“{}”"]),
    st.sampled_from([str, str.upper, str.title, str.swapcase]),
)
def test_yes_no_true_and_false_are_read_in_any_case_with_quotes_and_a_period(word, around, case):
    assert BooleanScale().read(around.format(case(word[0]))) is word[1]


@settings(deadline=None)
@given(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.lists(st.booleans())))
def test_nothing_else_is_ever_read(value):
    is_boolean_text = isinstance(value, str) and value.strip("\"'`“”‘’. \n\t").casefold() in (
        "yes",
        "true",
        "no",
        "false",
    )
    if not is_boolean_text:
        with pytest.raises(ReplyError):
            BooleanScale().read(value)


def test_json_booleans_are_read_and_numbers_are_not():
    assert (BooleanScale().read(True), BooleanScale().read(False)) == (True, False)
    for value in (1, 0, "1", "y", "yes!", "yes, it is"):
        with pytest.raises(ReplyError) as caught:
            BooleanScale().read(value)
        assert caught.value.failure == "off-scale"


def test_own_tokens_replace_the_usual_ones():
    scale = BooleanScale(yes=("safe", "ok."), no=("unsafe",))
    assert [scale.read(text) for text in ("SAFE", "ok", "Ok.", "unsafe")] == [
        True,
        True,
        True,
        False,
    ]
    with pytest.raises(ReplyError, match="not on the scale safe, unsafe"):
        scale.read("yes")
    assert scale.tokens() == (("safe", True), ("ok.", True), ("unsafe", False))


def test_the_support_has_yes_before_no_and_the_values_the_worst_first():
    assert [value for _, value in BooleanScale().tokens()] == [True, True, False, False]
    assert BooleanScale().values() == (False, True)
    assert BooleanScale(end_is_worst=True).values() == (True, False)


def test_booleans_count_one_and_zero_whichever_end_is_worse():
    for scale in (BooleanScale(), BooleanScale(end_is_worst=True)):
        assert [scale.number(value) for value in (True, False)] == [1.0, 0.0]
        assert scale.numeric()


@pytest.mark.parametrize(
    "tokens", [{"yes": ("a", "b"), "no": ("B",)}, {"yes": ("a",), "no": ("a.",)}]
)
def test_a_token_that_means_both_is_a_problem(tokens):
    trouble = BooleanScale.model_validate(tokens).validation_error()
    assert trouble is not None
    assert "means both yes and no" in trouble[1]


def test_a_blank_token_is_a_problem():
    assert (BooleanScale.model_validate({"yes": [" "]}).validation_error() or ("",))[0] == "yes"
    assert (BooleanScale.model_validate({"no": ["no", ""]}).validation_error() or ("",))[0] == "no"
    assert BooleanScale().validation_error() is None


def test_the_prompt_names_the_first_tokens_and_the_schema_is_a_boolean():
    assert BooleanScale().sentence("score") == 'Answer with "yes" or "no" as the score.'
    assert BooleanScale().display() == "yes, no"
    assert BooleanScale().json_schema() == {"type": "boolean"}
