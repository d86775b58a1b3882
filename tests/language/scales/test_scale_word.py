"""What is forgiven in a written value, and what is not."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.language.scales.written_number import (
    fold_case,
    match_value,
    parse_number,
    strip_quotes,
)


@pytest.mark.parametrize(
    "text",
    [
        "safe",
        " safe ",
        '"safe"',
        "'safe'",
        "“safe”",
        "`safe`",
        "safe.",
        '"safe".',
        '"safe."',
        "\tsafe.\n",
    ],
)
def test_spaces_quotes_and_a_final_period_are_taken_off(text):
    assert strip_quotes(text) == "safe"


@pytest.mark.parametrize(
    "text", ["safe..", "safe...", "safe!", "**safe**", "safe,", "(safe)", "safe/unsafe"]
)
def test_anything_else_stays(text):
    assert strip_quotes(text) != "safe"


@settings(deadline=None)
@given(st.text())
def test_a_text_with_words_is_never_reduced_to_nothing(text):
    assert bool(strip_quotes(text)) == bool(text.strip())


@settings(deadline=None)
@given(st.text())
def test_the_folded_text_has_one_case(text):
    assert fold_case(text) == strip_quotes(text).casefold()


def test_as_little_is_forgiven_as_is_needed():
    tokens = [("A", 1), ("A.", 2), ("a", 3)]
    assert match_value("A", tokens) == (1,)
    assert match_value("A.", tokens) == (2,)
    assert match_value(" a ", tokens) == (3,)
    assert match_value('"A"', tokens) is None, "with the quotes forgiven, both A and A. are meant"


def test_several_tokens_of_one_value_are_no_conflict():
    assert match_value("YES", [("yes", True), ("Yes", True), ("no", False)]) == (True,)


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", "4"), ("4.", "4"), ("-0.5", "-0.5"), ("+3", "3"), (".5", "0.5"), ("1e2", "100")],
)
def test_a_written_number_is_read_exactly(text, value):
    assert parse_number(text) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["", "four", "1_0", "1,000", "nan", "inf", "1e9999", "4/5", "0x10", "4 5", "- 4"]
)
def test_what_is_no_plain_number_is_none(text):
    assert parse_number(text) is None
