"""What `verdict init` recognises in columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.features.wizard.scaffold import Scaffold, pipeline_text
from verdict_cli.features.wizard.scaffold_columns import (
    column_type,
    compared_scores,
    identifier,
    label_likeness,
    nested_columns,
    suggested_columns,
)
from verdict_cli.features.wizard.scaffold_labels import LabelScale, parse_scale
from verdict_cli.features.wizard.scaffold_pairs import compared_pair, pair_labels
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.load import validated
from verdict_cli.plan.build import build_plan


def scaled(text: str) -> LabelScale:
    made = parse_scale(text)
    assert isinstance(made, LabelScale)
    return made


TALK = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([TALK], "conversation"),
        ([TALK, None], "conversation?"),
        ([["a"], []], "list[str]"),
        ([["a"], None], "list[str]?"),
        ([["a"], [1]], None),
        ([None], None),
        (["a"], None),
    ],
)
def test_types_are_declared_where_every_value_has_them(values: list[Any], kind: str | None) -> None:
    assert column_type(values) == kind


def test_a_column_of_the_dataset_goes_before_a_path_of_the_same_name() -> None:
    assert nested_columns({"a": [{"b": 1, "c": {"d": 2}}, None], "a.b": [3, 4]}) == {
        "a.c": (("a", "c"), [{"d": 2}, None]),
        "a.c.d": (("a", "c", "d"), [2, None]),
    }


@pytest.mark.parametrize(
    ("values", "scale", "lines"),
    [
        ([True, False], "boolean", ["prediction: output.score", "target: source.scores.x"]),
        ([1, 0.0], "boolean", ["prediction: output.score", 'target: "source.scores.x == 1"']),
        (["C", "I"], "boolean", ["prediction: output.score", "target: \"source.scores.x == 'C'\""]),
        ([0.5, 1], "1-5", ["prediction: output.score", "target: source.scores.x", "kind: numeric", "metrics: [spearman]"]),
    ],
)  # fmt: skip
def test_another_tools_scores_are_targets(values: list[Any], scale: str, lines: list[str]) -> None:
    assert compared_scores({"scores": [{"x": value} for value in values]}, scaled(scale)) == [("their_x", lines)]


@pytest.mark.parametrize(("values", "scale"), [(["good"], "boolean"), ([True], "1-5"), ([0.5], "bad,good"), ([1, None], "boolean"), ([[1]], "boolean")])  # fmt: skip
def test_scores_that_cannot_be_compared_are_left_out(values: list[Any], scale: str) -> None:
    assert compared_scores({"scores": [{"x": value} for value in values]}, scaled(scale)) == []
    assert compared_scores({"scores": ["x"]}, scaled(scale)) == compared_scores({}, scaled(scale)) == []


@given(st.dictionaries(st.text(), st.sampled_from([True, 0.5, 1, "C"]), min_size=1, max_size=4), st.sampled_from(["boolean", "1-5", "bad,good"]))  # fmt: skip
def test_whatever_scores_are_called_the_file_is_a_valid_pipeline(scores: dict[str, Any], scale: str) -> None:
    start = Scaffold("judge", "Good?", ("text",), scaled(scale), "gpt-4o-mini", compared=compared_scores({"scores": [scores] * 2}, scaled(scale)))  # fmt: skip
    build_plan(validated(parse_document(pipeline_text(start).encode(), "judge.yaml"), Path()))


def test_labels_annotators_and_ids_are_not_proposed_as_what_the_judge_reads() -> None:
    samples = {
        "ticket_id": ["T-1", "T-2", "T-3"],
        "customer_message": ["Where is it?", "It is broken.", "Thanks"],
        "reply": ["On its way", "Sorry", "Sure"],
        "quality": ["good", "bad", "good"],
        "csat": ["5", "1", "4"],
        "annotator": ["ann", "bob", "ann"],
        "annotator_comment": ["I like the tone of this", "It is rude to the user", "It is short but clear"],
        "rationale": ["the tone of it is right", "rude to the user, really", "short but clear to me"],
        "is_safe": ["yes", "no", "yes"],
        "created_at": ["2026-01-01", "2026-01-02", "2026-01-03"],
    }
    assert suggested_columns(samples)[:2] == ["customer_message", "reply"]
    assert not {"quality", "csat", "annotator", "ticket_id", "is_safe", "rationale", "created_at"} & set(
        suggested_columns(samples)
    )
    assert [name for name in samples if label_likeness(name, samples[name])] == ["quality", "csat", "is_safe"]


def test_single_words_are_read_only_beside_other_single_words() -> None:
    samples = {"Ticket": ["Wo ist es?", "Es fehlt."], "Bewertung": ["gut", "schlecht"]}
    assert suggested_columns(samples) == ["Ticket"]
    assert suggested_columns({"land": ["Peru", "Chile"], "stadt": ["Lima", "Santiago"]}) == ["land", "stadt"]


def test_ratings_of_a_rater_are_labels_and_its_name_is_none() -> None:
    assert label_likeness("rater_1", ["5", "4"]) == label_likeness("annotator", ["good", "bad"]) == 2
    assert label_likeness("rater", ["ann", "bob", "ann"]) == 0


@pytest.mark.parametrize(
    ("name", "is_label"),
    [(name, True) for name in ("is_correct", "Is Correct", "was-right", "isCorrect", "hasErrors", "IsOK", "HAS_ERRORS")]
    + [(name, False) for name in ("issue", "isbn", "ISBN", "hash", "wassup", "Island", "wasp", "hashtag")],
)
def test_a_name_of_is_was_or_has_with_a_separator_is_a_label(name: str, is_label: bool) -> None:
    assert (label_likeness(name, ["17", "23", "29"]) > 0) == is_label


def test_short_answers_are_read_although_they_repeat() -> None:
    samples = {"question": ["2+2?", "1+3?", "5-1?"], "model answer": ["4", "4", "4"], "label": ["5", "5", "4"]}
    assert suggested_columns(samples) == ["question", "model answer"]


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        (["question", "response_a", "response_b"], ("response_a", "response_b")),
        (["answer1", "answer2"], ("answer1", "answer2")),
        (["firstReply", "secondReply"], ("firstReply", "secondReply")),
        (["prompt", "chosen", "rejected"], ("chosen", "rejected")),
        (["model_a", "model_b"], None),
        (["question", "answer"], None),
    ],
)
def test_pairs_differ_in_a_letter_or_a_number(names: list[str], pair: tuple[str, str] | None) -> None:
    assert compared_pair({name: ["some text", f"other {name}"] for name in names}) == pair


@pytest.mark.parametrize(
    ("labels", "meant"),
    [
        (["A", "B", "tie"], ["A", "B", "tie"]),
        (["model_a", "model_b", "tie (bothbad)", None], ["A", "B", "tie"]),
        ([1, 2], ["A", "B"]),
        (["A>B", "B >> A", "A=B"], ["A", "B", "tie"]),
        (["answer_a", "answer_b"], ["A", "B"]),
        ([0, 1], ["A", "B"]),
        ([2, 0, 1], ["tie", "A", "B"]),
        ([-1, 0, 1], ["B", "tie", "A"]),
        ([0, 5], None),
        ([True, False], None),
        (["yes", "no"], None),
        (["1", "2", "3"], ["A", "B", "tie"]),
    ],
)
def test_labels_of_pairs_say_which_text_is_better(labels: list[Any], meant: list[str] | None) -> None:
    found = pair_labels(("answer_a", "answer_b"), labels)
    assert (found and list(found.values())) == meant


@pytest.mark.parametrize(
    ("name", "labels", "meant"),
    [
        ("a_is_better", [True, False], ["A", "B"]),
        ("prefers_b", ["yes", "no"], ["B", "A"]),
        ("a_is_long", [True, False], None),
        ("preference", [1, 4, 7], ["A", "tie", "B"]),
        ("preference_strength", [-3, 0, 2], ["A", "tie", "B"]),
        ("score", [1, 4, 7], None),
        ("winner", [0, 7], None),
        ("verdict", ["Response A is much better", "prefer B", "both bad"], ["A", "B", "tie"]),
        ("verdict", ["a good one", "b"], None),
    ],
)
def test_the_name_of_labels_says_how_they_are_read(name: str, labels: list[Any], meant: list[str] | None) -> None:
    found = pair_labels(("answer_a", "answer_b"), labels, name)
    assert (found and list(found.values())) == meant


def test_of_two_sentences_a_number_says_whether_they_mean_the_same() -> None:
    assert pair_labels(("sentence1", "sentence2"), [0, 1], "label") is None
    assert pair_labels(("sol1", "sol2"), [0, 1], "label") == {0: "A", 1: "B"}


def test_an_id_may_be_within_a_column() -> None:
    assert identifier({"conv": [{}, {}], "conv.id": ["a", "b"], "text": ["x", "y"]}) == "conv.id"
    assert identifier({"conv.id": ["a", "b"], "ticketId": [1, 2]}) == "ticketId"
    assert identifier({"id": ["a", "a"], "key": ["a", None]}) is None
