"""The value cases of the language, from Python."""

from __future__ import annotations

from typing import Any

import pytest

from verdict_cli import (
    ArgmaxScoreExtractor,
    BooleanScale,
    ContinuousScale,
    ConversationalUnit,
    CoTUnit,
    DiscreteScale,
    JudgeUnit,
    Layer,
    MapUnit,
    MeanPoolUnit,
    MeanVariancePoolUnit,
    ModePoolUnit,
    Pipeline,
    RegexExtractor,
    Scale,
    Schema,
    SpecError,
    Unit,
    UsageError,
    VerdictError,
    WeightedSummedScoreExtractor,
    parse_verdict,
)
from verdict_cli.language.units.base import UnitBase

POOLS: dict[str, Any] = {
    "mean": MeanPoolUnit,
    "mode": ModePoolUnit,
    "mean_variance": MeanVariancePoolUnit,
}


def scale_of(spelled: dict[str, Any]) -> Scale:
    if "boolean" in spelled:
        return BooleanScale()
    if "continuous" in spelled:
        return ContinuousScale(*spelled["continuous"])
    if "values" in spelled:
        return DiscreteScale(list(spelled["values"]))
    step = [spelled["step"]] if "step" in spelled else []
    return DiscreteScale((*spelled["range"], *step))


def upstream(values: list[Any]) -> tuple[Layer, list[dict[str, Any]]]:
    """A layer of units that give these values as `score`, and what each of them replies."""
    outputs = [value if isinstance(value, dict) else {"score": value} for value in values]
    kinds = {name: type(value) for name, value in outputs[0].items()}
    return Layer(
        [Unit(name="up", response=kinds).prompt("Rate.").via("m", retries=0) for _ in outputs]
    ), outputs


def run(layer: Layer, outputs: list[Any], last: UnitBase, recorded: Any) -> Any:
    import json

    replies = {f"up[{place}]": json.dumps(output) for place, output in enumerate(outputs)}
    return (Pipeline("p") >> layer >> last).run({}, replay=recorded(replies))


def same(actual: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return all(same(actual[name], value) for name, value in expected.items())
    if isinstance(expected, float):
        return bool(actual == pytest.approx(expected, abs=1e-9))
    return bool(actual == expected)


def test_pools(value_cases, recorded):
    for case in value_cases["pool"]:
        inputs, expected = case["given"], case["expect"]
        layer, outputs = upstream(inputs["upstream_in_order"])
        pool = POOLS[inputs["op"]](*inputs.get("fields", [inputs.get("field")]))
        if expected.get("error"):
            with pytest.raises(VerdictError):
                run(layer, outputs, pool, recorded)
        else:
            assert same(run(layer, outputs, pool, recorded), expected), case["name"]


def test_maps(value_cases, recorded):
    def raising(outputs: Any) -> Any:
        raise RuntimeError("no")

    def lowest(outputs: Any) -> Any:
        return Schema.of(score=min(output.score for output in outputs))

    for case in value_cases["map"]:
        layer, outputs = upstream(case["given"]["upstream_in_order"])
        if case["expect"].get("error"):
            with pytest.raises(VerdictError, match="RuntimeError: no"):
                run(layer, outputs, MapUnit(raising), recorded)
        else:
            assert same(run(layer, outputs, MapUnit(lowest), recorded), case["expect"]), case[
                "name"
            ]


def test_scales(value_cases):
    for case in value_cases["scale"]:
        expected = case["expect"]
        if expected.get("error"):
            with pytest.raises(UsageError):
                scale_of(case["given"]["scale"])
        else:
            assert str(scale_of(case["given"]["scale"])) == expected["display"], case["name"]


def test_token_probabilities(value_cases, recorded):
    extractors: dict[str, Any] = {
        "argmax": ArgmaxScoreExtractor,
        "weighted_sum": WeightedSummedScoreExtractor,
    }
    for case in value_cases["token_probability"]:
        inputs = case["given"]
        unit = (
            JudgeUnit(scale_of(inputs["scale"]))
            .prompt("J")
            .via("m", retries=0)
            .extract(extractors[inputs["method"]]())
        )
        position = [
            {"token": token, "logprob": logprob}
            for token, logprob in inputs["first_position_top_logprobs"]
        ]
        replay = recorded(judge={"reply": position[0]["token"], "logprobs": [position]})
        if case["expect"].get("error"):
            with pytest.raises(VerdictError):
                (Pipeline("p") >> unit).run({}, replay=replay)
        else:
            assert same((Pipeline("p") >> unit).run({}, replay=replay), case["expect"]), case[
                "name"
            ]


def test_patterns(value_cases, recorded):
    for case in value_cases["regex"]:
        inputs = case["given"]
        unit = JudgeUnit(scale_of(inputs["scale"])).prompt("J").via("m", retries=0)
        pipeline = Pipeline("p") >> unit.extract(RegexExtractor(pattern=inputs["pattern"]))
        if case["expect"].get("error"):
            with pytest.raises(VerdictError):
                pipeline.run({}, replay=recorded(judge=inputs["text"]))
        else:
            assert same(pipeline.run({}, replay=recorded(judge=inputs["text"])), case["expect"]), (
                case["name"]
            )


def test_verdicts(value_cases):
    for case in value_cases["rubric_parse"]:
        assert parse_verdict(case["given"]["text"]) == case["expect"], case["name"]


def test_conversations(value_cases, recorded):
    cases = {case["name"]: case for case in value_cases["conversation"]}
    case = cases["conversation/debate_repeat2_unnumbered"]
    roles = ["Proponent", "Opponent"]
    turns = [ConversationalUnit(role).prompt(case["given"]["turn_prompt"]) for role in roles]
    judge = JudgeUnit(BooleanScale(), scale_instructions=False).prompt(
        "Evaluate:\n{previous.conversation}"
    )
    pipeline = Pipeline("p", model="m") >> Layer(turns, 2, inner="chain", outer="last") >> judge
    replies = {f"conversational[{place}]": f"{roles[place % 2]} says {place}" for place in range(4)}
    judged = pipeline.run({}, replay=recorded(replies, judge='{"score": true}'))
    prompts = [call.request.messages[0].content for call in judged.calls]
    assert len(prompts) == case["expect"]["model_calls"]
    assert prompts[:4] == case["expect"]["turn_prompts_in_order"]
    assert prompts[4] == case["expect"]["judge_prompt"]
    dense = Pipeline("p", model="m") >> Layer(turns, 1, inner="chain", outer="dense") >> judge
    with pytest.raises(SpecError, match="2 units give 'conversation'"):
        dense.validate()


def test_propagated_values(value_cases, recorded):
    cases = {case["name"].partition("/")[2]: case["expect"] for case in value_cases["propagate"]}
    first = JudgeUnit(name="a", explanation=True).prompt("A").via("m")
    second = JudgeUnit(name="b").prompt("B {previous.explanation}").via("m", retries=2)
    passed = second.propagate(
        lambda previous, output, input: Schema.of(  # noqa: A006
            orig=previous.score, ver=output.score, why=input.explanation
        )
    )
    spelled = second.propagate(orig="previous.score", ver="output.score", why="input.explanation")
    for unit in (passed, spelled):
        replay = recorded(a='{"explanation": "E4", "score": 4}', b='{"score": 2}')
        assert (
            dict((Pipeline("p") >> first >> unit).run({}, replay=replay))
            == cases["original_and_verifier_score"]
        )
    scaled = (
        JudgeUnit(name="b")
        .prompt("B")
        .via("m")
        .propagate(lambda output: Schema.of(score=output.score / 5))
    )
    assert same(
        (Pipeline("p") >> scaled).run({}, replay=recorded(b='{"score": 3}')), cases["rescale"]
    )


def test_pinned_units_are_called_once_each(value_cases):
    cases = {case["name"].partition("/")[2]: case for case in value_cases["pin"]}
    cot, judge = (
        CoTUnit().prompt("Think."),
        JudgeUnit(BooleanScale()).prompt("{previous.thinking} {source.x}"),
    )
    pinned = (
        Pipeline("p", model="baseline/lexical")
        >> Layer(cot.pin() >> judge, 3)
        >> MeanPoolUnit("score")
    )
    inside = JudgeUnit(BooleanScale(), name="inner").prompt("{previous.thinking}")
    block = (
        Pipeline("p", model="baseline/lexical")
        >> (cot >> inside).pin()
        >> JudgeUnit(BooleanScale()).prompt("{previous.score} {source.x}")
    )
    for pipeline, name in ((pinned, "in_layer_x3"), (block, "whole_block")):
        case = cases[name]
        table = pipeline.run_dataset(
            [{"x": f"row {place}"} for place in range(case["given"]["rows"])]
        )
        assert table["calls"].sum() == case["expect"]["model_calls"]["other"]
        assert set(table["status"]) == {"ok"}
