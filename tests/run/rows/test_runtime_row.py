"""One row through a graph: conversations, skipped units, pinned units, and failures that leave the rest alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import BudgetError, PinnedError, Refused, SpecError
from verdict_cli.messages import Reply, Request, Result, Row
from verdict_cli.plan.node import Plan
from verdict_cli.run.attempts import Context
from verdict_cli.run.row import run_row

TURNS = """
- layer:
    - {unit: ConversationalUnit, role_name: Proponent, prompt: &turn "You are {unit.role_name}.\\n[[{input.conversation}]]"}
    - {unit: ConversationalUnit, role_name: Opponent, prompt: *turn}
  repeat: %d
  inner: chain
  outer: %s
"""


def test_a_chain_of_turns_hands_the_conversation_on(plan_of, model, value_case):
    expected = value_case("conversation/debate_repeat2_unnumbered")

    def speak(request: Request) -> str:
        prompt = request.messages[-1].content
        if prompt.startswith("Evaluate"):
            return '{"score": true}'
        role = prompt.partition("You are ")[2].partition(".")[0]
        return f"{role} says {prompt.count('</')}"

    judge = '- {unit: JudgeUnit, scale: boolean, scale_instructions: false, prompt: "Evaluate:\\n{previous.conversation}"}'
    fake = model(rule=speak)
    result = fake.run(plan_of(TURNS % (2, "last") + judge))
    assert len(fake.requests) == expected["model_calls"]
    assert fake.prompts() == [*expected["turn_prompts_in_order"], expected["judge_prompt"]]
    assert result.outputs[-1] == {"score": True}


def test_a_field_that_two_dependencies_have_is_refused_before_any_call(plan_of):
    judge = "- {unit: JudgeUnit, prompt: '{previous.conversation}'}"
    with pytest.raises(SpecError, match="conversational") as caught:
        plan_of(TURNS % (1, "dense") + judge)
    assert caught.value.problems[0].line > 0


def test_turns_are_numbered_by_their_place(plan_of, model):
    steps = "- {unit: ConversationalUnit, role_name: Pro, number: true, prompt: go}\n" * 2
    result = model(rule=lambda _: "words").run(plan_of(steps))
    assert [turn["role"] for turn in result.outputs[1]["conversation"]] == ["Pro #1", "Pro #2"]


def test_propagate_replaces_the_output_and_sees_its_input(plan_of, model, value_case):
    steps = """
- {unit: JudgeUnit, explanation: true, prompt: Rate}
- unit: JudgeUnit
  prompt: Check
  input: {explanation: str}
  propagate: {orig: previous.score, ver: output.score, why: input.explanation}
"""
    fake = model('{"explanation": "E4", "score": 4}', '{"score": 2}')
    assert fake.run(plan_of(steps)).outputs[1] == value_case(
        "propagate/original_and_verifier_score"
    )


def test_propagate_rescales(plan_of, model, value_case):
    fake = model('{"score": 3}')
    output = fake.run(
        plan_of("- {unit: JudgeUnit, prompt: Rate, propagate: {score: output.score / 5}}")
    ).outputs[0]
    assert output == value_case("propagate/rescale")


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        (
            "pin/in_layer_x3",
            "- layer:\n    - block:\n        - {unit: CoTUnit, prompt: Think, pin: true}\n"
            "        - {unit: JudgeUnit, prompt: '{previous.thinking}'}\n  repeat: 3\n- {unit: MeanPoolUnit}",
        ),
        (
            "pin/whole_block",
            "- {unit: CoTUnit, prompt: Think, pin: true}\n"
            "- {unit: JudgeUnit, name: first, prompt: '{previous.thinking}', pin: true}\n"
            "- {unit: JudgeUnit, prompt: '{previous.score}'}",
        ),
    ],
)
def test_a_pinned_unit_is_called_once_for_all_rows(name, steps, plan_of, model, value_case):
    from verdict_cli.run.row import run_pinned

    expected = value_case(name)["model_calls"]
    plan = plan_of(steps)
    fake = model(rule=lambda request: '{"score": 3}' if request.json_schema else "thinking")

    async def go() -> list[Result]:
        context = Context(fake.ask)
        context.pinned, calls = await run_pinned(plan, context)
        assert len(calls) == len(fake.requests) == expected["pinned"]
        return [await run_row(plan, Row(place, place, {}), context) for place in range(5)]

    results = asyncio.run(go())
    assert len(fake.requests) == expected["total"]
    assert all(result.failure is None for result in results)
    assert len({json.dumps(result.outputs) for result in results}) == 1


def test_a_pinned_unit_that_fails_stops_the_run(plan_of, model):
    steps = "- {unit: JudgeUnit, name: shared, prompt: Think, pin: true}\n- {unit: JudgeUnit, prompt: '{previous.score}'}"
    fake = model(rule=lambda _: "?")
    with pytest.raises(PinnedError, match="shared"):
        fake.run(plan_of(steps), pinned=True)
    assert len(fake.requests) == 3


def test_a_pinned_unit_that_is_skipped_is_skipped_for_every_row(plan_of, model):
    steps = """
- layer:
    - {unit: JudgeUnit, name: shared, prompt: Think, pin: true, on_failure: skip}
    - {unit: JudgeUnit, name: own, prompt: Rate}
- {unit: MeanPoolUnit, field: score}
"""
    fake = model(rule=lambda request: "?" if request.node == "shared" else '{"score": 2}')
    result = fake.run(plan_of(steps), pinned=True)
    assert result.outputs == (None, {"score": 2}, {"score": 2})


SKIPPING = """
- layer:
    - {unit: JudgeUnit, name: judge, prompt: Rate, on_failure: skip}
  repeat: 3
"""


def failing(*nodes: str) -> Any:
    """A rule by which these nodes give nothing readable; judge[2] says 3."""
    return lambda request: (
        "?" if request.node in nodes else json.dumps({"score": int(request.node[-2]) + 1})
    )


def test_a_skipped_unit_is_left_out_of_a_pool(plan_of, model):
    plan = plan_of(SKIPPING + "- {unit: MeanPoolUnit}")
    result = model(rule=failing("judge[0]")).run(plan)
    assert result.failure is None
    assert result.outputs == (None, {"score": 2}, {"score": 3}, {"score": 2.5})


def test_a_pool_below_its_quorum_fails_the_row(plan_of, model):
    plan = plan_of(SKIPPING + "- {unit: MeanPoolUnit, quorum: 2}")
    assert model(rule=failing("judge[0]")).run(plan).outputs[-1] == {"score": 2.5}
    failure = model(rule=failing("judge[0]", "judge[1]")).run(plan).failure
    assert (failure.kind, failure.node) == ("quorum", "mean_pool")


def test_weights_stay_with_their_units_when_one_is_skipped(plan_of, model):
    plan = plan_of(SKIPPING + "- {unit: MeanPoolUnit, weights: [5, 1, 3]}")
    assert model(rule=failing("judge[0]")).run(plan).outputs[-1] == {"score": 2.75}


def test_a_skipped_unit_is_none_among_the_outputs(plan_of, model):
    plan = plan_of(SKIPPING + "- {unit: MapUnit, map: {seen: 'outputs[1] is none'}}")
    output = model(rule=failing("judge[1]")).run(plan).outputs[-1]
    assert output["seen"] is True
    plan = plan_of(SKIPPING + "- {unit: MapUnit, map: {n: '(outputs | select | list | length)'}}")
    assert model(rule=failing("judge[1]")).run(plan).outputs[-1] == {"n": 2}


def test_a_prompt_that_needs_a_skipped_unit_fails_the_row(plan_of, model):
    steps = "- {unit: JudgeUnit, name: first, prompt: Rate, on_failure: skip}\n- {unit: JudgeUnit, prompt: 'Was {previous.score}'}"
    fake = model(rule=lambda _: "?")
    result = fake.run(plan_of(steps))
    assert result.failure.node == "judge"
    assert len(fake.requests) == 3


WIDE = """
- layer:
    - block:
        - {unit: CoTUnit, name: think, prompt: Think}
        - {unit: JudgeUnit, name: judge, prompt: '{previous.thinking}'}
  repeat: 3
- {unit: MeanPoolUnit}
"""


def run_in_order(plan: Plan, order: list[int], fails: set[str]) -> tuple[Result, list[str]]:
    """The row's outcome when the calls in flight end in an order that the numbers decide."""
    order_of_calls: list[str] = []

    async def go() -> Result:
        waiting: list[tuple[Request, asyncio.Future[Reply]]] = []
        picks = iter(order)

        async def ask(request: Request) -> Reply:
            order_of_calls.append(request.node)
            future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            waiting.append((request, future))
            return await future

        row = asyncio.create_task(run_row(plan, Row(0, 0, {}), Context(ask)))
        while not row.done():
            await asyncio.sleep(0)
            if waiting:
                request, future = waiting.pop(next(picks, 0) % len(waiting))
                text = '{"score": 3}' if request.json_schema else "thinking"
                future.set_result(Reply("?" if request.node in fails else text))
        return await row

    return asyncio.run(go()), order_of_calls


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 5), max_size=12),
    st.sets(st.sampled_from([f"judge[{place}]" for place in range(3)])),
)
def test_the_outcome_does_not_depend_on_which_call_comes_back_first(wide, order, fails):
    result, order_of_calls = run_in_order(wide, order, fails)
    assert sorted(set(order_of_calls)) == [
        f"{name}[{place}]" for name in ("judge", "think") for place in range(3)
    ]
    for node, output in zip(wide.nodes, result.outputs, strict=True):
        assert (output is None) == (node.id in fails or (node.id == "mean_pool" and bool(fails)))
    assert (result.failure.node if result.failure else None) == (min(fails) if fails else None)
    assert [call.request.node for call in result.calls] == sorted(
        (call.request.node for call in result.calls), key=[node.id for node in wide.nodes].index
    )


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    from verdict_cli.language.load import load
    from verdict_cli.plan.build import build_plan

    path = tmp_path_factory.mktemp("wide") / "pipeline.yaml"
    path.write_text(f"verdict: 1\nname: t\nmodel: {{name: m, retries: 0}}\npipeline:{WIDE}")
    return build_plan(load(path)).plan


@pytest.mark.parametrize(
    "error", [Refused("bad key"), BudgetError("spent")], ids=["refused", "budget"]
)
def test_what_stops_the_run_waits_for_the_calls_in_flight(wide, error):
    ended: list[str] = []

    async def ask(request: Request) -> Reply:
        if request.node == "think[1]":
            raise error
        await asyncio.sleep(0.01)
        ended.append(request.node)
        return Reply("thinking")

    with pytest.raises(type(error)):
        asyncio.run(run_row(wide, Row(0, 0, {}), Context(ask)))
    assert ended == ["think[0]", "think[2]"]


def test_a_row_that_is_cancelled_leaves_no_call_behind(wide):
    cancelled: list[str] = []

    async def ask(request: Request) -> Reply:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(request.node)
            raise
        raise AssertionError

    async def go() -> None:
        row = asyncio.create_task(run_row(wide, Row(0, 0, {}), Context(ask)))
        await asyncio.sleep(0.01)
        row.cancel()
        with pytest.raises(asyncio.CancelledError):
            await row

    asyncio.run(go())
    assert sorted(cancelled) == ["think[0]", "think[1]", "think[2]"]


def test_a_hundred_units_side_by_side_are_called_at_once(plan_of):
    plan = plan_of(SKIPPING.replace("repeat: 3", "repeat: 100"))
    most = running = 0

    async def ask(_: Request) -> Reply:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return Reply('{"score": 3}')

    asyncio.run(run_row(plan, Row(0, 0, {}), Context(ask)))
    assert most == 100
