"""A layer that stops early asks until its pool is settled, and no longer."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from verdict_cli.errors import SpecError
from verdict_cli.messages import Request, Row
from verdict_cli.plan.early_stopping import EarlyStop, Mean, Vote
from verdict_cli.run.estimate import estimate_run
from verdict_cli.run.stopping_rule import first_batch, is_decided, vote

JURY = """
  - layer:
      - {unit: JudgeUnit, name: judge, scale: boolean, prompt: x, extract: {type: regex, fields: {score: yes|no}}%s}
    repeat: %d
    until: %s
  - {unit: %s, name: pool}
"""


def jury(until: str, repeat: int = 9, more: str = "", pool: str = "ModePoolUnit") -> str:
    return JURY % (more, repeat, until, pool)


def early(most: int, confidence: float, rule: Vote | Mean, first: int = 1) -> EarlyStop:
    leaves = tuple(range(most))
    return EarlyStop(tuple((leaf,) for leaf in leaves), leaves, most, 1, confidence, first, 1, rule)


def winner(values: list[int]) -> int:
    return max(values, key=lambda value: (values.count(value), -values.index(value)))


def by_urn(values: list[int], kinds: int, votes_left: int) -> Fraction:
    """The same probability unit by unit: each says a value as often as it was said before, plus one."""
    probability = Fraction(0)
    for others in product(range(kinds), repeat=votes_left):
        urn, chance = list(values), Fraction(1)
        for value in others:
            chance *= Fraction(urn.count(value) + 1, len(urn) + kinds)
            urn.append(value)
        probability += chance * (winner(urn) == winner(values))
    return probability


@given(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.integers(3, 4), st.integers(0, 4))
def test_the_votes_probability_is_that_of_polyas_urn(values, kinds, votes_left):
    counts = [values.count(value) for value in dict.fromkeys(values)]
    assert vote(tuple(counts), kinds, votes_left) == pytest.approx(
        float(by_urn(values, kinds, votes_left)), abs=1e-12
    )


@pytest.mark.parametrize(("kinds", "confidence"), [(2, 0.9), (2, 0.95), (4, 0.9)])
def test_votes_drawn_by_the_rules_assumption_keep_the_promised_share(kinds, confidence):
    rng = np.random.default_rng(1)
    layer, agreements = early(9, confidence, Vote((("x", kinds),))), 0
    for _ in range(1500):
        values = rng.choice(kinds, 9, p=rng.dirichlet(np.ones(kinds))).tolist()
        calls = first_batch(layer)
        while not is_decided(layer, [{"x": value} for value in values[:calls]], 9 - calls):
            calls += 1
        agreements += winner(values[:calls]) == winner(values)
    assert agreements / 1500 >= confidence - 2 * (confidence * (1 - confidence) / 1500) ** 0.5


def test_certainty_stops_only_what_nothing_can_change():
    layer = early(9, 1.0, Vote((("x", 2),)))
    four, five = [{"x": True}] * 4, [{"x": True}] * 5
    assert not is_decided(layer, four, 5)
    assert is_decided(layer, five, 4)
    assert is_decided(layer, [{"x": True}, *([{"x": False}] * 5)], 3)


def test_a_tie_goes_to_the_earliest_value_as_in_the_pool():
    layer = early(4, 1.0, Vote((("x", 2),)))
    assert is_decided(layer, [{"x": "a"}, {"x": "a"}], 2)
    assert not is_decided(layer, [{"x": "b"}, {"x": "a"}, {"x": "a"}], 1)


def test_a_mean_is_settled_where_no_value_left_could_move_it_across():
    layer = early(5, 1.0, Mean("x", 0, 1, 0.5, None))
    assert is_decided(layer, [{"x": 1.0}] * 3, 2)
    assert is_decided(layer, [{"x": 0.0}] * 3, 2)
    assert not is_decided(layer, [{"x": 1.0}] * 2, 3)


def test_a_mean_that_can_only_end_at_the_threshold_or_above_is_settled():
    layer = early(4, 1.0, Mean("x", 0, 1, 0.5, None))
    assert is_decided(layer, [{"x": 1.0}] * 2, 2)  # 0.5 at least, which is above the threshold
    assert not is_decided(layer, [{"x": 0.0}] * 2, 2)  # 0.5 at most: may still reach it


def test_equal_first_values_do_not_settle_a_mean():
    assert not is_decided(early(20, 0.95, Mean("x", 1, 5, None, 0.25)), [{"x": 3.0}] * 2, 18)
    assert not is_decided(early(20, 0.95, Mean("x", 1, 5, 2.5, None)), [{"x": 3.0}] * 2, 18)


def test_units_are_called_in_order_and_no_further_than_needed(plan_of, model):
    plan = plan_of(jury("{confidence: 0.95, max: 9}"))
    fake = model(rule=lambda request: "yes")
    result = fake.run(plan)
    assert [request.node for request in fake.requests] == ["judge[0]", "judge[1]", "judge[2]"]
    assert result.failure is None
    assert result.outputs[-1] == {"score": True}
    assert result.outputs[3:9] == (None,) * 6
    assert result.saved == {"pool": 6}


def test_an_open_vote_is_called_to_the_end(plan_of, model):
    fake = model(rule=lambda request: "yes" if int(request.node[6:-1]) % 2 else "no")
    result = fake.run(plan_of(jury("{confidence: 0.95}")))
    assert len(fake.requests) == 9
    assert result.saved == {}


def test_repeat_below_max_is_called_side_by_side_first(plan_of, model):
    fake = model(rule=lambda request: "yes")
    fake.run(plan_of(jury("{confidence: 0.9, max: 9}", repeat=5)))
    assert len(fake.requests) == 5


def test_a_batch_is_called_as_a_whole(plan_of, model):
    fake = model(rule=lambda request: "no" if request.node == "judge[0]" else "yes")
    fake.run(plan_of(jury("{confidence: 0.95, batch: 3}")))
    assert len(fake.requests) % 3 == 0


def test_a_skipped_unit_is_no_vote(plan_of, model):
    fake = model(rule=lambda request: "?" if request.node == "judge[1]" else "yes")
    plan = plan_of(
        jury("{confidence: 0.96}", more=", on_failure: skip, model: {name: m, retries: 0}")
    )
    result = fake.run(plan)
    assert [request.node for request in fake.requests] == [f"judge[{place}]" for place in range(4)]
    assert result.outputs[-1] == {"score": True}


def test_after_a_failure_no_further_unit_is_called(plan_of, model):
    fake = model(rule=lambda request: "?" if request.node == "judge[1]" else "yes")
    result = fake.run(plan_of(jury("{confidence: 0.95}", more=", model: {name: m, retries: 0}")))
    assert result.failure is not None and result.failure.node == "judge[1]"
    assert {request.node for request in fake.requests} == {"judge[0]", "judge[1]", "judge[2]"}


def test_the_quorum_is_called_whatever_the_first_say(plan_of, model):
    fake = model(rule=lambda request: "yes")
    plan = plan_of(jury("{confidence: 0.5}").replace("name: pool", "name: pool, quorum: 6"))
    assert fake.run(plan).outputs[-1] == {"score": True}
    assert len(fake.requests) == 6


def test_a_block_is_called_as_one_unit(plan_of, model):
    steps = """
  - layer:
      - block:
          - {unit: CoTUnit, name: think, prompt: x}
          - {unit: JudgeUnit, name: judge, scale: boolean, prompt: x, extract: {type: regex, fields: {score: yes|no}}}
    repeat: 9
    until: {confidence: 0.95}
  - unit: ModePoolUnit
"""
    fake = model(rule=lambda request: "yes" if "judge" in request.node else '{"thinking": "x"}')
    result = fake.run(plan_of(steps))
    assert len(fake.requests) == 6
    assert result.saved == {"mode_pool": 12}


def test_a_mean_of_ratings_stops_too(plan_of, model):
    steps = """
  - layer: [{unit: JudgeUnit, name: judge, prompt: x, extract: {type: regex, fields: {score: FIRST_INT}}}]
    repeat: 20
    until: {confidence: 0.9, threshold: 3}
  - {unit: MeanPoolUnit, field: score}
"""
    fake = model(rule=lambda request: "5")
    assert fake.run(plan_of(steps)).outputs[-1] == {"score": 5.0}
    assert 2 <= len(fake.requests) <= 6


def test_the_estimate_says_the_least_and_the_most(plan_of):
    lines = estimate_run(plan_of(jury("{confidence: 0.95}")), [Row(0, 0, {}), Row(1, 1, {})], 2)
    assert (sum(line.least for line in lines), sum(line.calls for line in lines)) == (6, 18)
    assert all(line.prompt_tokens is not None for line in lines)


def test_the_pipelines_fingerprint_knows_when_it_stops(plan_of):
    marks = {
        plan_of(jury(until)).fingerprint
        for until in ("{confidence: 0.9}", "{confidence: 0.95, batch: 2}")
    }
    assert len(marks) == 2


def wrong() -> Iterator[tuple[str, str]]:
    yield (
        jury("{confidence: 0.9}", pool="MaxPoolUnit"),
        "no rule says when a MaxPoolUnit is decided",
    )
    yield (
        jury("{confidence: 0.9}", pool="MeanPoolUnit"),
        "a mean needs either `threshold` or `within`",
    )
    yield jury("{confidence: 0.9, within: 0.1}"), "`within` is for a mean, pool takes a vote"
    yield jury("{confidence: 0.9, max: 5}"), "`max` is 5, but the layer has 9 units"
    yield jury("{confidence: 0.9}", repeat=1), "`until` needs at least two units"
    yield jury("{confidence: 0.9}", repeat=101), "takes at most 100"
    yield (
        jury("{confidence: 0.9}").replace("repeat: 9", ""),
        "needs a layer with `repeat` or `models`",
    )
    yield (
        jury("{confidence: 0.9}").replace("repeat: 9", "repeat: 9\n    inner: chain"),
        "independent",
    )
    yield (
        jury("{confidence: 0.9}").split("  - {unit: ModePoolUnit")[0],
        "needs a pool as the next step",
    )
    weighed = "name: pool, weights: [1, 1, 1, 1, 1, 1, 1, 1, 1]"
    yield jury("{confidence: 0.9}").replace("name: pool", weighed), "weighs its units"
    again = jury("{confidence: 0.9}") + "  - {unit: CoTUnit, prompt: '{previous.judge[3].score}'}\n"
    yield again, "uses judge[3], which is not always asked"
    free = "response: {x: float}, prompt: x"
    yield (
        jury("{confidence: 0.9, within: 1}", pool="MeanPoolUnit")
        .replace("JudgeUnit", "Unit")
        .replace(
            "scale: boolean, prompt: x, extract: {type: regex, fields: {score: yes|no}}", free
        ),
        "'x' has no ends",
    )


@pytest.mark.parametrize(("steps", "message"), list(wrong()))
def test_a_layer_that_cannot_stop_early_says_why(plan_of, steps, message):
    with pytest.raises(SpecError) as caught:
        plan_of(steps)
    assert message in str(caught.value)
    assert [problem.code for problem in caught.value.problems] == ["bad-until"]


def test_a_late_reply_changes_nothing(plan_of, model):
    """Units asked side by side are looked at together, whichever answered first."""

    def rule(request: Request) -> str:
        return "no" if request.node == "judge[2]" else "yes"

    calls = {
        tuple(r.node for r in fake.requests)
        for fake in (model(rule=rule) for _ in range(3))
        if fake.run(plan_of(jury("{confidence: 0.95}")))
    }
    assert len(calls) == 1


def within_needed(values: list[float], most: int, confidence: float) -> float:
    """The smallest `within` at which the rule settles, by bisection."""
    low, high = 0.0, 4.0
    for _ in range(60):
        middle = (low + high) / 2
        layer = early(most, confidence, Mean("x", 1, 5, None, middle))
        settled = is_decided(layer, [{"x": value} for value in values], most - len(values))
        low, high = (low, middle) if settled else (middle, high)
    return high


@pytest.mark.parametrize("values", [[3.0, 3.0, 3.0], [2.0, 4.0, 3.0, 3.0, 5.0], [4.0] * 8])
def test_the_variance_of_a_mean_is_shrunk_to_the_scales_largest_as_one_observation(
    values,
):
    """The oracle is the conjugate normal model with a scaled inverse chi-squared prior (Gelman et al., 2013, section 3.3)
    of one degree of freedom at the largest variance on 1 to 5, (4 / 2)², and the finite population's correction."""
    n, most, confidence = len(values), 200, 0.9
    prior_freedom, prior_variance = 1, 2.0**2
    freedom = prior_freedom + n - 1
    variance = (prior_freedom * prior_variance + (n - 1) * np.var(values, ddof=1)) / freedom
    error = np.sqrt(variance * (1 / n - 1 / most))
    assert within_needed(values, most, confidence) == pytest.approx(
        t.ppf((1 + confidence) / 2, freedom) * error
    )
