"""Every code block of the seeds runs as printed, but for its imports."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl

import verdict_cli


def blocks(shared: Path, seed: str, fence: str) -> list[str]:
    """The fenced code blocks of a seed that hold Python."""
    (path,) = (shared / "seeds").glob(f"{seed}_*.txt")
    sources = re.findall(
        rf"^{fence}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return [block for block in sources if "Unit" in block]


def run_block(block: str, **names: Any) -> tuple[Any, dict[str, Any]]:
    """The value of the block's last expression or assignment, and the names that it leaves."""
    tree = ast.parse(re.sub(r"^from verdict.*\n", "", block, flags=re.MULTILINE))
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        tree.body[-1] = ast.copy_location(
            ast.Assign([ast.Name("made", ast.Store())], last.value), last
        )
        ast.fix_missing_locations(tree)
    space: dict[str, Any] = {
        name: getattr(verdict_cli, name) for name in verdict_cli.__all__
    } | names
    exec(compile(tree, "a seed", "exec"), space)
    return space.get("made", space.get("pipeline")), space


def test_the_debate_of_figure_4_runs(shared, recorded):
    debate, _ = blocks(shared, "000", "```")
    pipeline, _ = run_block(debate)
    assert pipeline.name == "debate"
    turns = {f"conversational[{place}]": f"turn {place}" for place in range(6)}
    judged = pipeline.run({}, model="gpt-4o", replay=recorded(turns, judge='{"score": true}'))
    assert judged.score is True
    assert [turn["role"] for turn in judged.nodes["conversational[5]"].conversation] == [
        "Proponent",
        "Opponent",
    ] * 3
    (request,) = (call.request for call in judged.calls if call.request.node == "judge")
    assert "<Opponent>\nturn 5\n</Opponent>" in request.messages[0].content


def test_the_g_eval_of_figure_5_runs(shared, recorded):
    _, geval = blocks(shared, "000", "```")
    pipeline, _ = run_block(
        geval,
        TASK="Rate the summary.",
        criteria_name="Coherence",
        criteria_description="it hangs together",
    )
    alternatives = [
        {"token": "4", "logprob": -0.6931471805599453},
        {"token": "5", "logprob": -0.6931471805599453},
    ]
    judges = {f"judge[{place}]": {"reply": "4", "logprobs": [alternatives]} for place in range(5)}
    thoughts = {
        f"cot[{place}]": {"row": -1, "id": "pinned", "reply": f"steps {place}"}
        for place in range(5)
    }
    replay = recorded(judges)
    replay.write_text(
        replay.read_text()
        + jsonl(
            {"id": "pinned", "unit": unit, "reply": line["reply"]}
            for unit, line in thoughts.items()
        )
    )
    judged = pipeline.run({"source": "A long text.", "summary": "A text."}, replay=replay)
    assert judged.mean == pytest.approx(4.5) and judged.variance == pytest.approx(0, abs=1e-12)
    prompts = {call.request.node: call.request.messages[0].content for call in judged.calls}
    assert "Coherence (1, 2, 3, 4, 5) - it hangs together" in prompts["judge[3]"]
    assert "steps 3" in prompts["judge[3]"] and "A long text." in prompts["judge[3]"]
    models = {call.request.node.partition("[")[0]: call.request.model for call in judged.calls}
    assert (models["cot"].name, models["cot"].temperature) == ("gpt-4o", 0.6)
    assert (models["judge"].name, models["judge"].temperature, models["judge"].retries) == (
        "gpt-4o-mini",
        0.0,
        3,
    )


def test_the_first_block_of_the_unit_page_runs(shared, recorded):
    chained, _ = blocks(shared, "003", "```python")
    unit, _ = run_block(f"(\n{chained})")
    pipeline = verdict_cli.Pipeline("empathy") >> unit
    judged = pipeline.run({}, replay=recorded({"CXEmpathyJudge": "I say 4 of 5"}))
    assert judged.score == 0.8
    node = pipeline.plan().nodes[0]
    assert node.name == "CXEmpathyJudge" and list(node.output.fields) == ["score"]


def test_the_custom_unit_of_the_unit_page_runs(shared, recorded):
    _, custom = blocks(shared, "003", "```python")
    _, names = run_block(custom)
    pipeline = verdict_cli.Pipeline("pair", model="gpt-4o") >> names["PairwiseJudgeUnit"]()
    judged = pipeline.run(
        {"A": "the left one", "B": "the right one"},
        replay=recorded(pairwise_judge='{"winner": "B"}'),
    )
    assert dict(judged) == {"winner": "the right one"}
    content = judged.calls[0].request.messages[0].content
    assert content.startswith("You must choose the better option") and "A:\nthe left one" in content


FIGURES = {
    "the debate on the first page": ("000", 0),
    "the G-Eval on the first page": ("000", 1),
    "figure 3, the debate": ("001", 0),
    "figure 4, the jury": ("001", 1),
    "figure 5, the G-Eval": ("001", 2),
}


@pytest.mark.parametrize("number", FIGURES)
def test_a_pipeline_of_the_paper_is_the_same_in_yaml(shared, number):
    seed, place = FIGURES[number]
    names = {
        "TASK": "Rate.",
        "criteria_name": "Coherence",
        "criteria_description": "it hangs together",
    }
    block = blocks(shared, seed, "```")[place]
    pipeline, _ = run_block(block, qa_judge_prompt="Rate {source.answer}", **names)
    text = pipeline.via("gpt-4o").to_yaml()
    again = verdict_cli.Pipeline.from_yaml(text)
    assert again.fingerprint == pipeline.via("gpt-4o").fingerprint
    assert again.graph() == pipeline.via("gpt-4o").graph()


def test_the_first_block_of_the_unit_page_in_yaml(shared, recorded):
    pipeline = verdict_cli.Pipeline.from_yaml("""\
verdict: 1
name: empathy
pipeline:
  - unit: JudgeUnit
    name: CXEmpathyJudge
    scale: 1-5
    model: {name: gpt-4o, retries: 3, temperature: 1.4}
    prompt: Score the following customer support conversation on empathy.
    extract: {type: regex, pattern: FIRST_INT}
    propagate: {score: output.score / 5}
""")
    assert pipeline.run({}, replay=recorded({"CXEmpathyJudge": "I say 4 of 5"})).score == 0.8


def test_the_custom_unit_of_the_unit_page_in_yaml(shared, recorded):
    pipeline = verdict_cli.Pipeline.from_yaml("""\
verdict: 1
name: pair
model: gpt-4o
pipeline:
  - unit: PairwiseJudgeUnit
    original: true
    propagate: {winner: output.chosen}
""")
    row = {"A": "the left one", "B": "the right one"}
    assert dict(pipeline.run(row, replay=recorded(pairwise_judge='{"choice": "B"}'))) == {
        "winner": "the right one"
    }


ALTERNATIVES = [{"token": "yes", "logprob": -0.5}, {"token": "no", "logprob": -1.5}]


def test_the_log_probability_is_a_final_score(recorded):
    """Section 3.2: "One can then extract the log probability as a final score"."""
    pipeline = verdict_cli.Pipeline.from_yaml("""\
verdict: 1
name: p
model: gpt-4o
pipeline:
  - {unit: JudgeUnit, scale: boolean, prompt: "{source.a}", extract: {type: token_probability, log: true}}
""")
    shares = [math.exp(item["logprob"]) for item in ALTERNATIVES]
    for reply in ("yes", "no"):
        replay = recorded(judge={"reply": reply, "logprobs": [ALTERNATIVES]})
        judged = pipeline.run({"a": 1}, replay=replay)
        assert judged.score == pytest.approx(math.log(shares[0] / sum(shares)))
    none_best = pipeline.to_yaml().replace("scale: boolean", "scale: {values: [yes, no]}")
    with pytest.raises(verdict_cli.SpecError, match="no value of the scale is the best"):
        verdict_cli.Pipeline.from_yaml(none_best).validate()


def test_a_weighted_sum_has_weights(recorded):
    """Section 3.2: "a weighted sum (with potentially learned weights …)"; tests/features/calibrate learns some."""
    pipeline = verdict_cli.Pipeline.from_yaml("""\
verdict: 1
name: p
model: gpt-4o
pipeline:
  - unit: JudgeUnit
    scale: 1-2
    prompt: "{source.a}"
    extract: {type: weighted_summed_score, weights: {1: 0.25, 2: 0.75}}
""")
    logprobs = [
        [{"token": "1", "logprob": math.log(0.5)}, {"token": "2", "logprob": math.log(0.5)}]
    ]
    replay = recorded(judge={"reply": "1", "logprobs": logprobs})
    assert pipeline.run({"a": 1}, replay=replay).score == pytest.approx(0.5)


def test_a_distribution_is_read_by_values_and_by_what_is_written(recorded):
    judge = verdict_cli.JudgeUnit(verdict_cli.DiscreteScale((1, 5))).prompt("{source.a}")
    pipeline = verdict_cli.Pipeline("p", model="gpt-4o") >> judge.extract(
        verdict_cli.TokenProbabilityExtractor()
    )
    logprobs = [
        [{"token": "4", "logprob": math.log(0.75)}, {"token": "5", "logprob": math.log(0.25)}]
    ]
    replay = recorded(judge={"reply": "4", "logprobs": logprobs})
    distribution = pipeline.run({"a": 1}, replay=replay).distribution
    assert distribution[4] == distribution["4"] == pytest.approx(0.75)
    with pytest.raises(KeyError):
        distribution["6"]
    for key in ("'4'", "4"):
        passed = judge.extract(verdict_cli.TokenProbabilityExtractor()).propagate(
            score=f"output.distribution[{key}]"
        )
        mapped = verdict_cli.Pipeline("p", model="gpt-4o") >> passed
        assert mapped.run({"a": 1}, replay=replay).score == pytest.approx(0.75)


def test_a_debater_is_a_conversational_unit():
    assert issubclass(verdict_cli.DebateUnit, verdict_cli.ConversationalUnit)


def test_a_pair_has_its_own_names(recorded):
    pipeline = verdict_cli.Pipeline.from_yaml("""\
verdict: 1
name: p
model: gpt-4o
pipeline:
  - unit: PairwiseJudgeUnit
    options: [source.left, source.right]
    labels: [Assistant 1, Assistant 2]
    positions: both
    original: true
""")
    row = {"left": "the left one", "right": "the right one"}
    replies = {"pairwise_judge": [{"reply": '{"choice": "Assistant 2"}'}]}
    swapped = {"reply": '{"choice": "Assistant 1"}', "call": 1}
    judged = pipeline.run(
        row, replay=recorded({"pairwise_judge": [replies["pairwise_judge"][0], swapped]})
    )
    assert (judged.choice, judged.chosen, judged.consistent) == (
        "Assistant 2",
        "the right one",
        True,
    )
    prompt = judged.calls[0].request.messages[0].content
    assert "Assistant 1:\n<option>\nthe left one" in prompt and "'A'" not in prompt
    same = pipeline.to_yaml().replace("Assistant 1", "Assistant 2")
    with pytest.raises(verdict_cli.SpecError, match="the labels are not two"):
        verdict_cli.Pipeline.from_yaml(same).validate()


def test_two_classes_of_one_char_are_refused():
    def custom(char: str, name: str) -> Any:
        fields = {"__annotations__": {"good": bool}}
        return type(
            name,
            (verdict_cli.Unit,),
            {
                "_char": char,
                "_prompt": "x",
                "ResponseSchema": type("R", (verdict_cli.Schema,), fields),
            },
        )

    first, second = custom("Judge", "Strict"), custom("Judge", "Lenient")
    pipeline = verdict_cli.Pipeline("p", model="m") >> first()
    assert (pipeline >> first()).plan().nodes[1].id
    with pytest.raises(
        verdict_cli.UsageError, match="Strict and Lenient both give units the name 'judge'"
    ):
        (pipeline >> verdict_cli.Layer(second())).validate()
    assert (pipeline >> second(name="other")).plan()
