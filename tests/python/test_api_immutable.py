"""Steps and pipelines are values: whatever is done with one, it stays what it was."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from verdict_cli import (
    BooleanScale,
    CoTUnit,
    DiscreteScale,
    JudgeUnit,
    Layer,
    MaxPoolUnit,
    MeanPoolUnit,
    Pipeline,
    RawExtractor,
    Schema,
    Unit,
    UsageError,
)


def unit() -> JudgeUnit:
    return JudgeUnit(BooleanScale()).prompt("Judge {source.x}").via("m")


@pytest.mark.parametrize(
    "change",
    [
        lambda judge: judge.prompt("Other"),
        lambda judge: judge.via("other", temperature=1.0),
        lambda judge: judge.extract(RawExtractor()),
        lambda judge: judge.propagate(score="output.score"),
        lambda judge: judge.propagate(lambda output: Schema.of(x=1)),
        lambda judge: judge.pin(),
        lambda judge: judge.stream(),
        lambda judge: judge.named("other"),
        lambda judge: judge >> judge,
    ],
)
def test_every_method_of_a_unit_gives_a_new_one(change):
    judge = unit()
    before = (Pipeline("p") >> judge).fingerprint
    assert change(judge) is not judge
    assert (Pipeline("p") >> judge).fingerprint == before


def test_one_block_in_two_pipelines_changes_neither():
    block = CoTUnit().prompt("Think of {source.x}") >> unit()
    pipeline = Pipeline("p", model="m") >> block
    before = pipeline.fingerprint
    two = Pipeline("p", model="m") >> Layer(block, 3) >> MeanPoolUnit()
    longer = pipeline >> MaxPoolUnit()
    assert pipeline.fingerprint == before
    assert len({before, two.fingerprint, longer.fingerprint}) == 3
    assert pipeline.graph("json")["outputs"] == ["judge"]


def test_one_block_twice_in_a_pipeline_is_two_copies():
    block = CoTUnit().prompt("Think of {source.x}") >> JudgeUnit().prompt("{previous.thinking}")
    graph = (Pipeline("p", model="m") >> Layer([block, block]) >> MeanPoolUnit("score")).graph(
        "json"
    )
    assert [node["id"] for node in graph["nodes"]] == [
        "cot[0]",
        "judge[0]",
        "cot[1]",
        "judge[1]",
        "mean_pool",
    ]


def test_chaining_makes_one_block_whatever_the_brackets():
    a, b, c = (CoTUnit(name=name).prompt("T") for name in "abc")
    from_left = Pipeline("p", model="m") >> ((a >> b) >> c)
    right = Pipeline("p", model="m") >> (a >> (b >> c))
    assert (
        from_left.fingerprint
        == right.fingerprint
        == (Pipeline("p", model="m") >> a >> b >> c).fingerprint
    )


@pytest.mark.parametrize(
    ("instance", "name"),
    [
        (unit(), "name"),
        (unit(), "_functions"),
        (unit(), "prompt"),
        (Layer(unit()), "items"),
        (Layer(unit(), 3), "repeat"),
        (Pipeline("p"), "steps"),
        (Pipeline("p"), "name"),
        (DiscreteScale((1, 5)), "values"),
        (Schema.of(x=1), "x"),
    ],
)
def test_setting_an_attribute_is_refused(instance, name):
    with pytest.raises(UsageError, match=f"'{name}'.* cannot be set"):
        setattr(instance, name, 1)


def test_a_unit_of_the_user_may_have_settings():
    class Bounded(Unit):
        def __init__(self, least: int) -> None:
            self.least = least
            super().__init__(DiscreteScale((1, 5)))

        def validate(self, response: Any, input: Any) -> None:  # noqa: A002
            assert response.score >= self.least

    low, high = Bounded(1).prompt("J"), Bounded(4).prompt("J")
    assert (Pipeline("p", model="m") >> low).fingerprint != (
        Pipeline("p", model="m") >> high
    ).fingerprint
    assert low.via("x").least == 1


def test_scales_are_equal_by_value_and_survive_copying():
    assert DiscreteScale((1, 5)) == DiscreteScale((1, 5)) != DiscreteScale((1, 4))
    assert len({DiscreteScale((1, 5)), DiscreteScale((1, 5))}) == 1
    for value in (DiscreteScale((1, 5)), Schema.of(a=[{"b": 1}])):
        assert copy.deepcopy(value) == value == pickle.loads(pickle.dumps(value))
