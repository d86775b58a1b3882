"""The scale that `verdict init` proposes for labels: by their meaning, never by the alphabet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.features.wizard.scaffold_labels import LabelScale, meaning_order, misfit, parse_scale, proposed_scale

ORDERS = [
    "bad,ok,good",
    "poor,fair,good,excellent",
    "Bad,Poor,Fair,Good,Excellent",
    "low,medium,high",
    "never,rarely,sometimes,often,always",
    "strongly disagree,disagree,neutral,agree,strongly agree",
    "very_dissatisfied,dissatisfied,satisfied,very_satisfied",
    "very unlikely,unlikely,likely",
    "very negative,negative,neutral,positive",
    "not relevant,partially relevant,relevant,highly relevant",
    "incorrect,partially correct,correct",
    "very unhelpful,unhelpful,slightly helpful,helpful",
    "minor,major,critical",
    "none,partial,full",
    "F,D,C,B,A",
    "B-,B,A",
    "beginner,intermediate,expert",
    "much worse,worse,same,better",
    "so-so,good",
    "1 star,2 stars,5 stars",
    "1 - poor,3 - fair,5 - excellent",
    "sehr schlecht,schlecht,gut",
    "差,一般,好",
    "falsch,teilweise richtig,richtig",
    "reject,accept",
]


@given(st.sampled_from(ORDERS), st.randoms(use_true_random=False))
def test_words_are_ordered_by_their_meaning(order: str, random: Any) -> None:
    words = order.split(",")
    shuffled = random.sample(words, len(words))
    assert meaning_order(shuffled) == tuple(words)


@pytest.mark.parametrize("words", ["billing,shipping,other", "A,B,C", "good,decent,ok", "ok,fair,good", "red,green"])
def test_an_order_that_is_not_known_is_not_guessed(words: str) -> None:
    assert meaning_order(words.split(",")) is None
    assert proposed_scale(words.split(",") * 2) is None


@pytest.mark.parametrize(
    ("labels", "scale"),
    [
        ([True, False], LabelScale("boolean")),
        (["yes", "No", ""], LabelScale("boolean")),
        ([0, 1, None], LabelScale("boolean")),
        (["0", "1"], LabelScale("boolean")),
        ([2, 3, 4], LabelScale("range", ("1", "5"))),
        (["1", "3"], LabelScale("range", ("1", "3"))),
        ([1, 4, 7], LabelScale("range", ("1", "7"))),
        ([0, 2, 4], LabelScale("range", ("0", "4"))),
        (["Sim", "não"], LabelScale("boolean")),
        (["3 apples", "5 pears"], None),
        ([1.5, 4.0], LabelScale("range", ("1", "5"))),
        ([0, 3, 10], LabelScale("range", ("0", "10"))),
        ([7, 64], LabelScale("range", ("0", "100"))),
        ([-1, 0, 1], LabelScale("range", ("-1", "1"))),
        ([0.2, 1], LabelScale("continuous", ("0.0", "1.0"))),
        (["ok", "bad"], LabelScale("ordered", ("bad", "ok"))),
        (["safe", "unsafe"], LabelScale("nominal", ("unsafe", "safe"))),
        (["supported", "not supported"], LabelScale("nominal", ("not supported", "supported"))),
        (["yes", "no", "partly"], LabelScale("nominal", ("no", "partly", "yes"))),
        ([], None),
        ([None, ""], None),
        ([0, 1000], None),
        ([f"text {place}" for place in range(99)], None),
        (["same", "same"], None),
        ([["a"], ["b"]], None),
    ],
)
def test_labels_say_which_scale_they_are_on(labels: list[Any], scale: LabelScale | None) -> None:
    assert proposed_scale(labels) == scale
    if scale is not None:
        assert parse_scale(scale.option(), labels) == scale or scale.kind == "nominal"
        assert misfit(scale, labels) == ""


@pytest.mark.parametrize(
    ("text", "labels", "said"),
    [
        ("good", [], "is not a scale"),
        ("5-1", [], "is not a scale"),
        ("bad,good", ["ok", "bad"], "does not have these labels: ok"),
        ("1-3", [1, 4, "x"], "does not have these labels: 4, x"),
        ("boolean", ["fine"], "does not have these labels: fine"),
        ("categories", ["same"], "2 to 12 different labels, here are 1"),
    ],
)
def test_a_scale_that_does_not_fit_the_labels_is_refused(text: str, labels: list[Any], said: str) -> None:
    found = parse_scale(text, labels)
    assert isinstance(found, str)
    assert said in found
