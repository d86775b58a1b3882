"""A pipeline from YAML and the same one from Python are one spec."""

from __future__ import annotations

from pathlib import Path

import pytest
from paths import ROOT
from shell import needs

from verdict_cli import (
    ArgumentUnit,
    BestOfKJudgeUnit,
    Block,
    BooleanScale,
    CategoricalJudgeUnit,
    ContinuousScale,
    ConversationalUnit,
    CoTUnit,
    DebateUnit,
    DiscreteScale,
    JudgeUnit,
    Layer,
    LikertScale,
    MapUnit,
    MaxPoolUnit,
    MeanPoolUnit,
    MeanVariancePoolUnit,
    MedianFilterUnit,
    ModePoolUnit,
    PairwiseJudgeUnit,
    Pipeline,
    PostHocExtractor,
    Prompt,
    RankerUnit,
    RegexExtractor,
    RubricUnit,
    Schema,
    Unit,
    WeightedSummedScoreExtractor,
)
from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan

CONFIGS = ROOT / "configs"


def from_file(path: Path) -> str:
    return build_plan(load(path)).plan.fingerprint


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=path.stem, marks=[needs("rank")] if path.stem.startswith("arena") else []
        )
        for path in sorted(CONFIGS.glob("*.yaml"))
    ],
)
def test_a_config_read_by_python_is_the_same_pipeline(path):
    pipeline = Pipeline.from_yaml(path)
    assert pipeline.plan().fingerprint == from_file(path)
    again = Pipeline.from_yaml(pipeline.to_yaml().replace("published: ", f"published: {CONFIGS}/"))
    assert again.fingerprint == pipeline.fingerprint


def test_xstest_written_in_python_is_the_file():
    file = load(CONFIGS / "xstest.yaml").file
    cot, layer = file.pipeline[0].prompt_key, file.pipeline[1].layer[0].prompt_key  # type: ignore[union-attr]
    safety = DiscreteScale(["unsafe", "safe"], scores={"unsafe": 0, "safe": 1})
    pipeline = (
        Pipeline(
            "XSTest",
            model="gpt-4o-mini",
            dataset={"id": "id", "schema": {"label": {"enum": ["unsafe", "safe"]}}},
        )
        >> CoTUnit().prompt(cot)
        >> Layer(JudgeUnit(safety, scale_instructions=False).prompt(layer), repeat=2)
        >> MeanPoolUnit("score")
    )
    assert pipeline.fingerprint == from_file(CONFIGS / "xstest.yaml")


DEBATE = """\
verdict: 1
name: debate
model: {name: gpt-4o, temperature: 0.5}
pipeline:
  - layer:
      - {unit: ConversationalUnit, role_name: Proponent, prompt: &turn "Argue.\\n{input.conversation}"}
      - {unit: ConversationalUnit, role_name: Opponent, prompt: *turn}
    repeat: 3
    inner: chain
    outer: last
  - unit: JudgeUnit
    scale: boolean
    prompt: |
      Evaluate:
      {previous.conversation}
"""


def debate(prompt: str = "Argue.\n{input.conversation}") -> Pipeline:
    return (
        Pipeline("Debate")
        >> Layer(
            [ConversationalUnit(role).prompt(prompt) for role in ("Proponent", "Opponent")],
            3,
            inner="chain",
            outer="last",
        )
        >> JudgeUnit(BooleanScale()).prompt("""
            Evaluate:
            {previous.conversation}
        """)
    ).via("gpt-4o", temperature=0.5)


def test_a_debate_written_in_python_is_the_file(tmp_path):
    path = tmp_path / "debate.yaml"
    path.write_text(DEBATE)
    assert debate().fingerprint == from_file(path)
    assert debate().graph("json") == Pipeline.from_yaml(path).graph("json")
    assert debate("Argue well.\n{input.conversation}").fingerprint != from_file(path)


def test_names_of_scales_models_and_blocks_do_not_count():
    with_names = Pipeline.from_yaml("""\
verdict: 1
name: jury
models: {small: gpt-4o-mini}
scales: {verdict: {type: discrete, range: [1, 5]}}
blocks:
  vote: [{unit: JudgeUnit, scale: verdict, model: small, prompt: "Judge {source.x}"}]
pipeline:
  - {layer: [{use: vote}], repeat: 2}
  - {unit: MeanPoolUnit, field: score}
""")
    judge = JudgeUnit(LikertScale()).via("gpt-4o-mini").prompt("Judge {source.x}")
    assert (
        Pipeline("jury") >> Layer([judge, judge]) >> MeanPoolUnit("score")
    ).fingerprint == with_names.fingerprint


@pytest.mark.parametrize(
    "unit",
    [
        JudgeUnit(DiscreteScale((1, 7))),
        JudgeUnit(ContinuousScale(0, 10)),
        JudgeUnit(explanation=True),
        JudgeUnit(name="other"),
        JudgeUnit().via("gpt-4o"),
        JudgeUnit().via("gpt-4o-mini", temperature=1.0),
        JudgeUnit().via(["gpt-4o-mini", "gpt-4o"]),
        JudgeUnit().extract(RegexExtractor(pattern="FIRST_INT")),
        JudgeUnit().extract(WeightedSummedScoreExtractor()),
        JudgeUnit().extract(WeightedSummedScoreExtractor({1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4, 5: 0.5})),
        JudgeUnit().extract(PostHocExtractor("gpt-4o")),
        JudgeUnit().propagate(score="output.score / 5"),
        JudgeUnit(validate=["response.score > 1"]),
        JudgeUnit(on_failure="skip"),
        JudgeUnit(response={"why": str}),
        JudgeUnit().propagate(lambda output: Schema.of(score=output.score)),
    ],
)
def test_whatever_changes_a_request_changes_the_fingerprint(unit):
    plain = Pipeline("p", model="gpt-4o-mini") >> JudgeUnit().prompt("Judge {source.x}")
    assert (
        Pipeline("p", model="gpt-4o-mini") >> unit.prompt("Judge {source.x}")
    ).fingerprint != plain.fingerprint


def test_every_unit_written_as_yaml_loads_as_the_same_pipeline():
    class Verifier(Unit):
        InputSchema = Schema
        _prompt = "Is this right?\n{previous.cot.thinking}"

        class ResponseSchema(Schema):
            right: bool
            parts: list[str]
            grade: DiscreteScale = DiscreteScale(("a", "e"))

    pipelines = [
        Pipeline("a", model=[{"name": "m", "retries": 1}, "n"], description='Says: "hi".')
        >> JudgeUnit().prompt("J {source.x}"),
        Pipeline("b", model="m") >> CoTUnit().prompt("T").pin() >> Verifier(),
        Pipeline("c", model="m")
        >> CategoricalJudgeUnit(["yes", "no"]).prompt("C")
        >> ModePoolUnit(),
        Pipeline("d", model="m")
        >> PairwiseJudgeUnit(options=["source.a", "source.b"], positions="both", original=True),
        Pipeline("e", model="m") >> BestOfKJudgeUnit(4, shuffle=True),
        Pipeline("f", model="m") >> RankerUnit(3),
        Pipeline("g", model="m") >> RubricUnit(["short", "true"]).prompt("{source.x}"),
        Pipeline("h", model="m") >> RubricUnit(n=3).prompt("{source.x}"),
        Pipeline("i", model="m") >> ArgumentUnit("for", "answer A").prompt("{source.x}"),
        Pipeline("j", model="m")
        >> DebateUnit("Pro", "A is right", number=True).prompt("{source.x}").stream(),
        Pipeline("k", model="m")
        >> Layer(JudgeUnit().prompt("J"), models=["a", {"name": "b", "temperature": 0}])
        >> MaxPoolUnit("score", quorum=2),
        Pipeline("l", model="m")
        >> Layer(JudgeUnit().prompt("J"), 3)
        >> MedianFilterUnit(["score"]),
        Pipeline("m", model="m")
        >> Layer(JudgeUnit().prompt("J"), 3)
        >> MeanVariancePoolUnit("score"),
        Pipeline("n", model="m")
        >> Layer(JudgeUnit().prompt("J"), 3)
        >> MapUnit({"top": "outputs | map(attribute='score') | max"}),
        Pipeline("o", model="m")
        >> Block([CoTUnit().prompt("T"), JudgeUnit().prompt("{previous.thinking}")]).via("z").pin(),
        Pipeline("q", model="m")
        >> JudgeUnit().prompt(Prompt.from_jinja("{% if source.x %}J{% endif %}")),
        Pipeline("r", model="m", gates=[{"metric": "run.cost_usd", "max": 5}])
        >> JudgeUnit(name="s", validate=["response.score > 1"]).prompt("J"),
    ]
    for pipeline in pipelines:
        again = Pipeline.from_yaml(pipeline.to_yaml())
        assert again.fingerprint == pipeline.fingerprint, pipeline
        assert again.graph("json") == pipeline.graph("json")


def test_a_prompt_file_is_written_into_the_yaml(tmp_path):
    (tmp_path / "judge.md").write_text("Judge this:\n{source.x}\n")
    pipeline = Pipeline("p", model="m") >> JudgeUnit().prompt(
        Prompt.from_file(tmp_path / "judge.md")
    )
    inline = Pipeline("p", model="m") >> JudgeUnit().prompt("Judge this:\n{source.x}")
    assert pipeline.fingerprint == inline.fingerprint
    assert str(tmp_path) not in pipeline.to_yaml() and "Judge this:" in pipeline.to_yaml()


def test_a_pipeline_of_a_file_takes_further_steps(tmp_path):
    path = tmp_path / "debate.yaml"
    path.write_text(DEBATE)
    longer = Pipeline.from_yaml(path) >> MeanPoolUnit("score")
    assert longer.graph("json")["outputs"] == ["mean_pool"]
    assert Pipeline.from_yaml(path).graph("json")["outputs"] == ["judge"]


def test_another_models_name_keeps_the_settings_of_the_pipelines_model():
    pipeline = Pipeline("p") >> JudgeUnit().prompt("Rate {source.x}")
    (model,) = pipeline.via("a", temperature=0.25, retries=7).plan("openai/b").nodes[0].work.models
    assert (model.name, model.temperature, model.retries) == ("openai/b", 0.25, 7)
