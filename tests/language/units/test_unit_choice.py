"""Units that choose among options."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError
from verdict_cli.language.fields.types import TEXT, TRUTH, RecordType, ScaleType
from verdict_cli.language.scales.discrete import Categories, DiscreteScale
from verdict_cli.language.units.base import shown
from verdict_cli.language.units.choice import BestOfKJudgeUnit, PairwiseJudgeUnit, RankerUnit
from verdict_cli.language.units.judges import CategoricalJudgeUnit

GIVEN = {"A": "first", "B": "second", "C": "third", "D": "fourth"}


def best(**keys: Any) -> BestOfKJudgeUnit:
    return BestOfKJudgeUnit(**{"k": 4, **keys})


def pairwise(**keys: Any) -> PairwiseJudgeUnit:
    return PairwiseJudgeUnit(**keys)


def ranker(**keys: Any) -> RankerUnit:
    return RankerUnit(**{"k": 3, **keys})


@settings(deadline=None)
@given(st.integers(0, 2**64), st.sampled_from("ABCD"))
def test_a_shuffled_choice_names_the_option_that_stood_at_its_letter(draw, letter):
    unit = best(shuffle=True, original=True)
    arrangements = unit.option_orders(draw)
    assert arrangements == unit.option_orders(draw)
    (arrangement,) = arrangements
    assert sorted(arrangement) == [0, 1, 2, 3]
    options = shown(GIVEN, unit.letters(), arrangement)
    output = unit.combine_responses([{"choice": letter}], arrangements, GIVEN)
    assert output["chosen"] == options[letter] == GIVEN[output["choice"]]


def test_without_a_shuffle_the_options_keep_their_order():
    assert best().option_orders(7) == ((0, 1, 2, 3),)
    assert best().combine_responses([{"choice": "C"}], ((0, 1, 2, 3),), GIVEN) == {"choice": "C"}


@settings(deadline=None)
@given(st.sampled_from(["A", "B", "tie"]), st.sampled_from(["A", "B", "tie"]))
def test_both_orders_must_agree_else_it_is_a_tie(first_choice, second_choice):
    unit = pairwise(positions="both", original=True, tie=True)
    arrangements = unit.option_orders(0)
    assert arrangements == ((0, 1), (1, 0))
    output = unit.combine_responses(
        [{"choice": first_choice}, {"choice": second_choice}], arrangements, {"A": "x", "B": "y"}
    )
    mirrored = {"A": "B", "B": "A", "tie": "tie"}[second_choice]
    assert output["consistent"] == (first_choice == mirrored)
    assert output["choice"] == (first_choice if first_choice == mirrored else "tie")
    assert output["chosen"] == {"A": "x", "B": "y", "tie": ""}[output["choice"]]


def test_the_outputs_fields_are_those_that_the_unit_passes_on():
    read = RecordType({"choice": ScaleType(pairwise().default_scale())})
    assert pairwise().output_fields(read) == read
    both = pairwise(positions="both", original=True).output_fields(read)
    assert both.fields == {
        "choice": ScaleType(Categories(values=("A", "B", "tie"))),
        "consistent": TRUTH,
        "chosen": TEXT,
    }
    assert list(best(original=True).output_fields(read).fields) == ["choice", "chosen"]
    assert list(ranker(original=True).output_fields(RecordType({"ranking": TEXT})).fields) == [
        "ranking",
        "ranked",
    ]


@pytest.mark.parametrize(
    "extract", ["token_probability", {"type": "weighted_summed_score", "weights": {"A": 1, "B": 0}}]
)
def test_a_distribution_over_the_letters_is_passed_on_but_names_no_option(extract):
    response = {"distribution": {"A": 0.7, "B": 0.3}}
    keys = {"unit": "PairwiseJudgeUnit", "extract": extract}
    assert (
        PairwiseJudgeUnit.model_validate(keys).combine_responses([response], ((0, 1),), GIVEN)
        == response
    )
    assert PairwiseJudgeUnit.model_validate(keys).validation_error() is None
    for more in ({"positions": "both"}, {"original": True}):
        trouble = PairwiseJudgeUnit.model_validate(keys | more).validation_error()
        assert trouble is not None
        assert trouble[0] == "extract"
    shuffled = BestOfKJudgeUnit.model_validate(
        {"unit": "BestOfKJudgeUnit", "k": 2, "shuffle": True, "extract": extract}
    )
    assert (shuffled.validation_error() or ("",))[0] == "extract"
    plain = BestOfKJudgeUnit.model_validate(
        {"unit": "BestOfKJudgeUnit", "k": 2, "extract": extract}
    )
    assert plain.validation_error() is None
    assert plain.combine_responses([response], ((0, 1),), GIVEN) == response


@settings(deadline=None)
@given(st.lists(st.one_of(st.sampled_from([*"ABC", " a ", "b"]), st.text(max_size=2)), max_size=4))
def test_a_ranking_is_a_permutation_or_a_reply_error(ranking):
    unit = ranker(original=True)
    field = unit.own_fields(None)["ranking"]
    try:
        read = field.read(ranking)
    except ReplyError:
        assert sorted(letter.strip().upper() for letter in ranking) != ["A", "B", "C"]
        return
    output = unit.combine_responses([{"ranking": read}], ((0, 1, 2),), GIVEN)
    assert sorted(output["ranking"]) == ["A", "B", "C"]
    assert output["ranked"] == [GIVEN[letter] for letter in output["ranking"]]


def test_the_prompt_shows_every_option_at_its_letter():
    for unit in (best(), ranker(), pairwise()):
        prompt = unit.default_prompt()
        assert prompt is not None
        for letter in unit.letters():
            assert f"<option_{letter}>\n{{input.{letter}}}\n</option_{letter}>" in prompt


def test_options_come_from_upstream_where_no_expressions_give_them():
    assert pairwise().required_inputs() == {"A": TEXT, "B": TEXT}
    assert pairwise(options=("source.a", "source.b")).required_inputs() == {}
    assert BestOfKJudgeUnit(options=("1", "2", "3")).letters() == ("A", "B", "C")


@pytest.mark.parametrize(
    ("unit", "key"),
    [
        (pairwise(options=("a",)), "options"),
        (pairwise(options=("a", "b", "c")), "options"),
        (pairwise(scale="likert"), "scale"),
        (best(k=None), "k"),
        (best(options=("a", "b")), "options"),
        (best(k=None, options=()), "options"),
        (best(k=None, options=("a",) * 27), "options"),
        (best(scale="likert"), "scale"),
        (ranker(k=None), "k"),
        (ranker(options=("a", "b")), "options"),
        (ranker(scale="likert"), "scale"),
        (CategoricalJudgeUnit(), "categories"),
        (CategoricalJudgeUnit(categories=("a",), scale="likert"), "categories"),
        (CategoricalJudgeUnit(categories=("a", "a")), "categories.1"),
    ],
)
def test_keys_that_do_not_go_together_are_a_problem(unit, key):
    trouble = unit.validation_error()
    assert trouble is not None
    assert trouble[0] == key
    assert trouble[2]


def test_categories_are_the_scale_of_the_choice():
    unit = CategoricalJudgeUnit(categories=("safe", "unsafe"))
    assert unit.validation_error() is None
    scale = unit.default_scale()
    assert scale == Categories(values=("safe", "unsafe"))
    assert unit.own_fields(scale) == {unit.scaled_field(): ScaleType(scale)}


@pytest.mark.parametrize(
    ("values", "choices", "scale"),
    [
        (("first", "second"), ("first", "second"), ("first", "second")),
        (("A", "B"), ("A", "B"), ("A", "B")),
        (("A", "tie", "B"), ("A", "B"), ("A", "B", "tie")),
    ],
)
def test_the_scale_of_a_pairwise_judge_names_its_options(values, choices, scale):
    unit = pairwise(scale=DiscreteScale(values=values))
    assert unit.validation_error() is None
    assert unit.choices() == choices
    assert tuple(unit.default_scale().values()) == scale


@pytest.mark.parametrize(
    "keys",
    [
        {"scale": DiscreteScale(values=("a", "b", "c"))},
        {"scale": DiscreteScale(range=(1, 2))},
        {"scale": "named"},
        {"scale": DiscreteScale(values=("a", "b")), "labels": ("c", "d")},
    ],
)
def test_another_scale_of_a_pairwise_judge_is_refused(keys):
    issue = pairwise(**keys).validation_error()
    assert issue is not None and issue.key == "scale"
