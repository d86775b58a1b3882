"""A unit that is not sure asks another model, or gives no answer; neither is a failure."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from verdict_cli.errors import SpecError
from verdict_cli.messages import Alternative, Reply, Request, Row
from verdict_cli.run.estimate import estimate_run

HEAD = "model: {name: cheap, retries: 0}\nmodels: {strong: {name: large, retries: 0}, middle: mid}"
JUDGE = """
  - unit: JudgeUnit
    name: judge
    scale: boolean
    prompt: x
    extract: token_probability
    propagate: {score: "output.distribution[true] > 0.5", p: "output.distribution.values() | max"}
    escalate: {when: output.p < 0.8, to: %s}
"""


def sure(p: float) -> Reply:
    """A reply that says yes with this probability."""
    alternatives = (Alternative("yes", math.log(p)), Alternative("no", math.log(1 - p)))
    return Reply("yes", logprobs=(alternatives,), cost_usd=1.0)


def by_model(**p: float) -> Callable[[Request], Reply]:
    return lambda request: sure(p[request.model.name])


def test_a_confident_answer_is_final(plan_of, model):
    fake = model(rule=by_model(cheap=0.9))
    result = fake.run(plan_of(JUDGE % "strong", HEAD))
    assert result.outputs == ({"score": True, "p": pytest.approx(0.9), "answered_by": "cheap"},)
    assert [(stage.model, stage.answered, stage.calls) for stage in result.stages["judge"]] == [
        ("cheap", 1, 1),
        ("large", 0, 0),
    ]


def test_an_uncertain_answer_goes_to_the_next_model(plan_of, model):
    fake = model(rule=by_model(cheap=0.6, large=0.7))
    result = fake.run(plan_of(JUDGE % "strong", HEAD))
    assert [(request.model.name, request.call, request.attempt) for request in fake.requests] == [
        ("cheap", 0, 0),
        ("large", 1, 0),
    ]
    assert result.outputs[0]["answered_by"] == "large"
    assert [stage.cost_usd for stage in result.stages["judge"]] == [1.0, 1.0]


def test_a_chain_continues_only_while_no_answer_is_confident(plan_of, model):
    fake = model(rule=by_model(cheap=0.6, mid=0.95, large=0.99))
    result = fake.run(plan_of(JUDGE % "[middle, strong, abstain]", HEAD))
    assert result.outputs[0]["answered_by"] == "mid"
    assert len(fake.requests) == 2


def test_a_unit_that_abstains_gives_the_row_no_verdict_and_no_failure(plan_of, model):
    fake = model(rule=by_model(cheap=0.6, large=0.7))
    result = fake.run(plan_of(JUDGE % "[strong, abstain]", HEAD))
    assert (result.outputs, result.failure, result.abstained) == ((None,), None, True)
    assert [(stage.model, stage.answered) for stage in result.stages["judge"]][-1] == ("abstain", 1)


def test_units_behind_one_that_abstains_are_not_called(plan_of, model):
    later = "  - {unit: CoTUnit, prompt: '{previous.score}'}\n  - {unit: MapUnit, map: {x: previous.thinking}}\n"
    fake = model(rule=by_model(cheap=0.6))
    result = fake.run(plan_of(JUDGE % "abstain" + later, HEAD))
    assert (result.outputs, result.failure, result.abstained) == ((None, None, None), None, True)
    assert len(fake.requests) == 1


LAYER = """
  - layer:
      - {unit: JudgeUnit, name: judge, scale: boolean, prompt: x, extract: token_probability,
         propagate: {score: "output.distribution[true] > 0.5", p: "output.distribution.values() | max"},
         escalate: {when: output.p < 0.8, to: abstain}}
    models: [a, b, c]
  - {unit: ModePoolUnit, field: score, quorum: 2%s}
"""


def test_a_pool_leaves_out_units_that_abstain(plan_of, model):
    result = model(rule=by_model(a=0.1, b=0.6, c=0.05)).run(plan_of(LAYER % "", HEAD))
    assert (result.outputs[-1], result.abstained) == ({"score": False}, False)


def test_a_pool_with_too_few_units_left_abstains_too(plan_of, model):
    result = model(rule=by_model(a=0.6, b=0.6, c=0.05)).run(plan_of(LAYER % "", HEAD))
    assert (result.outputs[-1], result.failure, result.abstained) == (None, None, True)


def test_a_pool_abstains_where_its_units_disagree(plan_of, model):
    agreed = "outputs | selectattr('score', 'equalto', output.score) | list | length < 3"
    plan = plan_of(LAYER % f', escalate: {{when: "{agreed}", to: abstain}}', HEAD)
    assert model(rule=by_model(a=0.9, b=0.1, c=0.1)).run(plan).abstained
    assert not model(rule=by_model(a=0.1, b=0.1, c=0.1)).run(plan).abstained


AGREED = ", agreement: true, escalate: {when: output.agreement < 0.8, to: abstain}"


@pytest.mark.parametrize(
    ("votes", "agreement"),
    [({"a": 0.1, "b": 0.1, "c": 0.1}, 1.0), ({"a": 0.9, "b": 0.1, "c": 0.1}, 2 / 3), ({"a": 0.6, "b": 0.1, "c": 0.1}, 1.0)],
)  # fmt: skip
def test_a_vote_says_how_large_a_share_agrees_and_escalates_by_it(plan_of, model, votes, agreement):
    result = model(rule=by_model(**votes)).run(plan_of(LAYER % ", agreement: true", HEAD))
    margin = 2 * agreement - 1
    assert result.outputs[-1] == pytest.approx(
        {"score": False, "agreement": agreement, "margin": margin}
    )
    assert model(rule=by_model(**votes)).run(plan_of(LAYER % AGREED, HEAD)).abstained == (
        agreement < 0.8
    )


def test_agreement_is_of_the_votes_weights_and_of_several_fields_the_least(plan_of, model):
    steps = """
  - layer:
      - {unit: MapUnit, name: a, map: {x: "1", y: "1"}}
      - {unit: MapUnit, name: b, map: {x: "1", y: "2"}}
      - {unit: MapUnit, name: c, map: {x: "2", y: "1"}}
  - {unit: ModePoolUnit, fields: [x, y], agreement: true, weights: [1, 2, 1]}
"""
    result = model(rule=by_model()).run(plan_of(steps, HEAD))
    assert result.outputs[-1] == {"x": 1, "y": 1, "agreement": 0.5, "margin": 0.0}


TIE = """
  - layer:
      - {unit: MapUnit, name: a, map: {x: "'no'"}}
      - {unit: MapUnit, name: b, map: {x: "'yes'"}}
  - {unit: ModePoolUnit, name: vote, field: x, ties: %s}
"""


@pytest.mark.parametrize(
    ("ties", "kind", "abstained"),
    [("first", None, False), ("fail", "tie", False), ("abstain", None, True)],
)
def test_a_tied_vote_ends_as_ties_says(plan_of, model, ties, kind, abstained):
    result = model(rule=by_model()).run(plan_of(TIE % ties, HEAD))
    assert (result.failure and result.failure.kind, result.abstained) == (kind, abstained)
    expected = {"x": "no", "agreement": 0.5, "margin": 0.0}
    assert result.outputs[-1] == (expected if ties == "first" else None)


def test_a_tie_is_drawn_the_same_way_each_time(plan_of, model):
    first, second = [
        model(rule=by_model()).run(plan_of(TIE % "random", HEAD)).outputs[-1] for _ in range(2)
    ]
    assert first == second and first["x"] in ("no", "yes")


def test_a_layer_that_stops_early_takes_no_rule_for_ties(plan_of):
    steps = """
  - layer: [{unit: JudgeUnit, name: j, scale: boolean, prompt: "x"}]
    repeat: 5
    until: {confidence: 0.9}
  - {unit: ModePoolUnit, ties: fail}
"""
    with pytest.raises(SpecError, match="ties: fail"):
        plan_of(steps, HEAD)


def test_a_pooled_field_cannot_bear_the_name_of_the_agreement(plan_of):
    steps = """
  - layer:
      - {unit: MapUnit, map: {x: "1", agreement: "1"}}
    repeat: 2
  - {unit: ModePoolUnit, agreement: true%s}
"""
    with pytest.raises(SpecError, match="gives itself"):
        plan_of(steps % "", HEAD)
    plan_of(steps % ", field: x", HEAD)


def test_both_orders_go_to_the_next_model(plan_of, model):
    steps = """
  - {unit: PairwiseJudgeUnit, name: judge, positions: both, prompt: '{input.options}', options: ["'p'", "'q'"],
     extract: {type: regex, fields: {choice: A|B}}, escalate: {when: not output.consistent, to: strong}}
"""
    fake = model(
        rule=lambda request: "A" if request.model.name == "cheap" else "AB"[request.call % 2]
    )
    result = fake.run(plan_of(steps, HEAD))
    assert [request.call for request in fake.requests] == [0, 1, 2, 3]
    assert result.outputs[0]["answered_by"] == "large"


def test_a_condition_that_is_neither_true_nor_false_fails_the_row(plan_of, model):
    result = model(rule=by_model(cheap=0.6)).run(
        plan_of((JUDGE % "strong").replace("output.p < 0.8", "output.p"), HEAD)
    )
    assert "not true or false" in result.failure.message


def test_the_estimate_counts_the_cheap_model_for_sure_and_the_others_at_most(plan_of):
    lines = estimate_run(plan_of(JUDGE % "[middle, strong]", HEAD), [Row(0, 0, {})], 10)
    assert [(line.model, line.least, line.calls) for line in lines] == [
        ("cheap", 10, 10),
        ("mid", 0, 10),
        ("large", 0, 10),
    ]


def test_the_fingerprint_knows_the_stages(plan_of):
    spelled = [JUDGE % to for to in ("strong", "middle", "abstain", "[strong, abstain]")]
    marks = {
        plan_of(steps, HEAD).fingerprint for steps in [*spelled, spelled[0].replace("0.8", "0.9")]
    }
    assert len(marks) == 5
    assert (
        plan_of(spelled[0], HEAD).fingerprint
        == plan_of(JUDGE % "{name: large, retries: 0}", HEAD).fingerprint
    )


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (JUDGE % "[abstain, strong]", "`abstain` ends the chain"),
        ((JUDGE % "strong").replace("output.p", "output.q"), "'q'"),
        (JUDGE % "strong" + "    pin: true\n", "asked once for all rows"),
        (LAYER % ", escalate: {when: output.score, to: strong}", "calls no model"),
        (
            (JUDGE % "strong")
            .replace("p: ", "answered_by: ")
            .replace("output.p", "output.answered_by"),
            "of its own",
        ),
    ],
)
def test_what_makes_no_sense_is_an_error(plan_of, steps, message):
    with pytest.raises(SpecError) as caught:
        plan_of(steps, HEAD)
    assert message in str(caught.value)
