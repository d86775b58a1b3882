"""What `verdict init` reads in people's labels."""

import pytest

from verdict_cli.errors import UsageError
from verdict_cli.features.wizard.answers import choice_labels, parse_scale, proposed_scale
from verdict_cli.features.wizard.columns import DatasetColumn

PAIR = ["response_a", "response_b"]


@pytest.mark.parametrize(
    ("labels", "scale"),
    [
        (["yes", "No"], "boolean"),
        ([0, 1], "boolean"),
        ([1, 5, 3], "1-5"),
        ([0.2, 0.9], "0.0-1.0"),
        (["good", "bad", "ok"], "bad,ok,good"),
        (["b", "a"], "categories"),
        ([], ""),
    ],
)
def test_labels_propose_their_scale(labels, scale):
    assert proposed_scale(labels) == scale


def test_a_scale_without_the_labels_is_refused():
    with pytest.raises(UsageError, match="does not have these labels: 7"):
        parse_scale("1-5", [1, 7])


@pytest.mark.parametrize(
    ("name", "labels", "choices"),
    [
        ("winner", ["A", "b", "tie"], {"A": "A", "b": "B", "tie": "tie"}),
        ("winner", ["response_a", "response_b"], {"response_a": "A", "response_b": "B"}),
        ("winner", [0, 1, 2], {0: "A", 1: "B", 2: "tie"}),
        ("winner", [1, 2], {1: "A", 2: "B"}),
        ("winner_model_a", [0, 1], None),
        ("winner", [True, False], None),
        ("winner", ["A", "neither of them, I think"], None),
    ],
)
def test_a_column_says_which_text_is_better_or_it_is_not_read(name, labels, choices):
    assert choice_labels(PAIR, DatasetColumn((name,), labels)) == choices


@pytest.mark.parametrize(
    ("labels", "choices"),
    [
        ([1, 3], {1: "A", 3: "C"}),
        ([0, 2], {0: "A", 2: "C"}),
        (["y", "x"], {"y": "B", "x": "A"}),
        ([7, 9], None),
    ],
)
def test_an_option_is_named_by_number_letter_or_column(labels, choices):
    assert choice_labels(["x", "y", "z"], DatasetColumn(("label",), labels)) == choices
