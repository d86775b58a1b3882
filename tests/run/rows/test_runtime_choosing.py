"""Units that choose among options: orders, call numbers, and what their letters mean in the output."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from verdict_cli.errors import Refused, Rejected
from verdict_cli.language.scales.discrete import DiscreteScale
from verdict_cli.messages import Reply, Request, Result, Row
from verdict_cli.run.attempts import Context
from verdict_cli.run.row import run_row

PAIR = "- {unit: PairwiseJudgeUnit, options: [source.a, source.b], positions: both%s}"
ROW = {"a": "apple", "b": "pear"}


def options_in(request: Request) -> list[str]:
    """The options in the order in which a prompt shows them."""
    return re.findall(r"<option_.>\n(.*)\n</option_.>", request.messages[-1].content)


def prefers(text: str) -> Any:
    """A rule that chooses this text wherever it stands."""
    return lambda request: json.dumps({"choice": "ABCDEFG"[options_in(request).index(text)]})


def test_both_positions_are_calls_0_and_1_with_the_options_swapped(plan_of, model):
    fake = model(rule=prefers("pear"))
    result = fake.run(plan_of(PAIR % ""), ROW)
    assert [request.call for request in fake.requests] == [0, 1]
    assert [options_in(request) for request in fake.requests] == [
        ["apple", "pear"],
        ["pear", "apple"],
    ]
    assert result.outputs == ({"choice": "B", "consistent": True},)


@pytest.mark.parametrize("letter", ["A", "B"])
def test_a_judge_that_follows_the_position_gives_a_tie(letter, plan_of, model):
    fake = model(rule=lambda _: json.dumps({"choice": letter}))
    assert fake.run(plan_of(PAIR % ""), ROW).outputs == ({"choice": "tie", "consistent": False},)


def test_two_ties_are_consistent(plan_of, model):
    fake = model(rule=lambda _: '{"choice": "tie"}')
    output = fake.run(plan_of(PAIR % ", tie: true, original: true"), ROW).outputs[0]
    assert output == {"choice": "tie", "consistent": True, "chosen": ""}


def test_original_gives_the_chosen_options_text(plan_of, model):
    fake = model(rule=prefers("pear"))
    assert fake.run(plan_of(PAIR % ", original: true"), ROW).outputs[0]["chosen"] == "pear"


def test_post_hoc_is_a_text_call_0_and_a_structuring_call_1(plan_of, model):
    fake = model("I would say four.", '{"score": 4}')
    steps = "- {unit: JudgeUnit, prompt: Rate, extract: {type: post_hoc, model: small}}"
    result = fake.run(plan_of(steps))
    first, second = fake.requests
    assert (first.call, first.model.name, first.json_schema) == (0, "m", None)
    assert (second.call, second.model.name) == (1, "small")
    assert second.json_schema is not None
    assert "I would say four." in second.messages[-1].content
    assert result.outputs == ({"score": 4},)


def test_post_hoc_repeats_only_the_structuring_call(plan_of, model):
    fake = model("four", "nothing", '{"score": 4}')
    fake.run(plan_of("- {unit: JudgeUnit, prompt: Rate, extract: post_hoc}"))
    assert [(request.call, request.attempt) for request in fake.requests] == [
        (0, 0),
        (1, 0),
        (1, 1),
    ]


def test_post_hoc_in_both_positions_makes_calls_0_to_3(plan_of, model):
    fake = model("the first", '{"choice": "A"}', "the second", '{"choice": "B"}')
    result = fake.run(plan_of(PAIR % ", extract: post_hoc"), ROW)
    assert [request.call for request in fake.requests] == [0, 1, 2, 3]
    assert result.outputs == ({"choice": "A", "consistent": True},)


BEST = "- {unit: BestOfKJudgeUnit, options: [source.a, source.b, source.c], shuffle: true, original: true}"
THREE = {"a": "apple", "b": "pear", "c": "plum"}


def test_a_shuffle_is_seeded_by_seed_and_row_and_undone_in_the_output(plan_of, model):
    plan = plan_of(BEST)
    orders = set()
    for row_id in range(12):
        fake = model(rule=prefers("plum"))
        result = fake.run(plan, THREE, seed=1, row_id=row_id)
        assert result.outputs == ({"choice": "C", "chosen": "plum"},)
        again = model(rule=prefers("plum"))
        again.run(plan, THREE, seed=1, row_id=row_id)
        assert again.prompts() == fake.prompts()
        orders.add(tuple(options_in(fake.requests[0])))
    assert len(orders) > 1


COLOURS = "- {unit: JudgeUnit, scale: {type: discrete, values: [red, green, blue]%s}, prompt: 'Which colour?'}"


def test_a_shuffled_scale_is_listed_in_an_order_of_each_row(plan_of, model):
    plan, fake, again = (
        plan_of(COLOURS % ", shuffle: true"),
        model(rule=replies_red),
        model(rule=replies_red),
    )
    for row_id in range(12):
        fake.run(plan, seed=1, row_id=row_id)
        again.run(plan, seed=1, row_id=row_id)
    assert fake.prompts() == again.prompts() and len(set(fake.prompts())) > 1


def test_the_sentence_of_any_other_scale_is_written_once_for_all_rows(plan_of, model, monkeypatch):
    plan, fake = plan_of(COLOURS % ""), model(rule=replies_red)
    fake.run(plan)
    monkeypatch.setattr(DiscreteScale, "sentence", None)
    for row_id in range(3):
        fake.run(plan, row_id=row_id)
    assert len(set(fake.prompts())) == 1 and "exactly one of: red, green, blue" in fake.prompts()[0]


def replies_red(_: Request) -> Reply:
    return Reply('{"score": "red"}')


def test_a_ranking_that_is_no_permutation_is_retried(plan_of, model):
    steps = "- {unit: RankerUnit, options: [source.a, source.b, source.c], original: true}"
    fake = model(
        '{"ranking": ["A", "A", "B"]}', '{"ranking": ["A", "B"]}', '{"ranking": ["c", "A", "B"]}'
    )
    result = fake.run(plan_of(steps), THREE)
    assert result.outputs == ({"ranking": ["C", "A", "B"], "ranked": ["plum", "apple", "pear"]},)
    assert [call.failure for call in result.calls] == ["unreadable", "unreadable", ""]
    assert "exactly once" in fake.prompts()[1]


def test_a_tie_that_was_not_offered_is_off_scale(plan_of, model):
    fake = model(rule=lambda _: Reply('{"choice": "tie"}'))
    assert fake.run(plan_of(PAIR % ""), ROW).failure.kind == "off-scale"


def test_both_positions_are_called_at_once_and_recorded_in_order(plan_of, model):
    fake = model(rule=prefers("pear"))
    both = asyncio.Barrier(2)

    async def meet(request: Request) -> Reply:
        reply = await fake.ask(request)
        async with asyncio.timeout(5):
            await both.wait()
        if request.call == 0:
            await asyncio.sleep(0.01)
        return reply

    async def go() -> Result:
        return await run_row(plan_of(PAIR % ""), Row(0, 0, ROW), Context(meet))

    result = asyncio.run(go())
    assert [call.request.call for call in result.calls] == [0, 1]
    assert result.outputs == ({"choice": "B", "consistent": True},)


def test_a_position_that_stops_the_run_is_not_hidden_by_one_that_fails(plan_of, model):
    fake = model(rule=lambda request: Refused("no key") if request.call else Rejected("too long"))
    with pytest.raises(Refused, match="no key"):
        fake.run(plan_of(PAIR % ""), ROW)
    assert len(fake.requests) == 2
