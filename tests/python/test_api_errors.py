"""Bad use is told at once, in one message: where, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from verdict_cli import (
    ArgmaxScoreExtractor,
    Block,
    CategoricalJudgeUnit,
    ContinuousScale,
    ConversationalUnit,
    CoTUnit,
    DiscreteScale,
    Judge,
    JudgeUnit,
    Layer,
    LikertScale,
    MapUnit,
    MeanPoolUnit,
    Pipeline,
    PostHocExtractor,
    RegexExtractor,
    Schema,
    SpecError,
    Unit,
    UsageError,
    VerdictError,
)

J: Any = JudgeUnit
BAD: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: J(explenation=True),
        "JudgeUnit takes no `explenation`\n    did you mean `explanation`",
    ),
    (lambda: J(unit="CoTUnit"), "JudgeUnit takes no `unit`"),
    (
        lambda: J().via("m", temprature=1),
        "JudgeUnit.via takes no `temprature`\n    did you mean `temperature`",
    ),
    (lambda: J().via("m", temperature="hot"), "JudgeUnit.via: temperature"),
    (lambda: J().via("m", api_key="s"), "a pipeline never contains an API key"),
    (lambda: J().via(["a", "b"], temperature=1), "settings go with a single model's name"),
    (lambda: J().via(3), "a model is a name"),
    (lambda: J().prompt(3), "a prompt is a text, not 3"),
    (lambda: J().extract("regex"), "takes an extractor, not 'regex'"),
    (lambda: J().extract(ArgmaxScoreExtractor), r"write `ArgmaxScoreExtractor\(\)`"),
    (RegexExtractor, "either `pattern` or `fields`"),
    (lambda: DiscreteScale("abc"), "takes a tuple or a list"),
    (lambda: DiscreteScale((5, 1)), "the range runs from 5 down to 1"),
    (lambda: DiscreteScale(["a", "a"]), "is a duplicate"),
    (lambda: ContinuousScale(1, 0), "is not below max"),
    (lambda: Layer([]), "a Layer holds at least one"),
    (lambda: Layer(["JudgeUnit"]), "a Layer holds units, layers and blocks, not 'JudgeUnit'"),
    (lambda: Layer([J]), r"write `JudgeUnit\(\)`"),
    (lambda: Block([Pipeline("p")]), "a Block holds units, layers and blocks"),
    (lambda: J() >> "x", "`>>` links units, layers and blocks, not 'x'"),
    (lambda: Pipeline("p") >> "x", "`>>` adds units, layers and blocks, not 'x'"),
    (lambda: Pipeline("p") >> Pipeline("q"), "not a pipeline"),
    (lambda: Pipeline(J()), "a pipeline's name is a text"),
    (lambda: Pipeline("!?"), "is not a valid name of a pipeline"),
    (MapUnit, "MapUnit takes a function or expressions"),
    (lambda: Layer(J(), repat=2), "Layer takes no `repat`\n    did you mean `repeat`"),  # type: ignore[call-arg]
    (Layer, "Layer: missing a required argument: 'items'"),  # type: ignore[call-arg]
    (lambda: Block(J(), J()), "Block: too many positional arguments"),  # type: ignore[call-arg, arg-type]
    (lambda: Pipeline("p", modle="m"), "Pipeline takes no `modle`\n    did you mean `model`"),  # type: ignore[call-arg]
    (lambda: Pipeline("p").run({}, modle="m"), "Pipeline.run takes no `modle`"),  # type: ignore[call-arg]
    (
        lambda: Pipeline("p").run_dataset([{}], max_rows=3),
        "Pipeline.run_dataset takes no `max_rows`",
    ),  # type: ignore[call-arg]
    (
        lambda: (Pipeline("p", model="m") >> J().prompt("x")).run({}, replay=3),
        "replay is a path, not 3",
    ),  # type: ignore[arg-type]
    (lambda: Pipeline("p").run_dataset([{}], out=3), "out is a path, not 3"),  # type: ignore[arg-type]
    (lambda: Pipeline.from_yaml(None), "the pipeline file is a path, not None"),  # type: ignore[arg-type]
    (lambda: Judge(3), "Judge takes a Pipeline, not 3"),  # type: ignore[arg-type]
    (Judge, "Judge: missing a required argument: 'pipeline'"),  # type: ignore[call-arg]
    (lambda: J().prompt(), "JudgeUnit.prompt: missing a required argument: 'prompt'"),  # type: ignore[call-arg]
    (
        lambda: ConversationalUnit(prompt="x"),
        "ConversationalUnit: missing a required argument: 'role_name'",
    ),  # type: ignore[call-arg]
    (lambda: LikertScale(3), "LikertScale: too many positional arguments"),  # type: ignore[call-arg]
    (lambda: RegexExtractor(fields=["a"]), "`fields` is a mapping, not"),  # type: ignore[arg-type]
    (lambda: PostHocExtractor(3), "a model is a name, a mapping or a list of these, not 3"),  # type: ignore[arg-type]
    (
        lambda: MapUnit(lambda o: {"n": 1}, fields=3),
        "`fields` is a list of names or a mapping of types, not 3",
    ),  # type: ignore[arg-type]
    (lambda: MeanPoolUnit(3), "takes the names of the fields to pool"),
    (lambda: Pipeline("p").graph("png"), "unknown format 'png'"),
]


@pytest.mark.parametrize(("bad", "words"), BAD, ids=[words[:30] for _, words in BAD])
def test_bad_use_is_refused_with_its_place(bad, words):
    with pytest.raises(UsageError, match=words):
        bad()


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (JudgeUnit(), r"Pipeline\('p'\): pipeline\[0\]: a JudgeUnit needs a `prompt`"),
        (JudgeUnit(name="no name").prompt("J"), r"pipeline\[0\]\.name: 'no name': must match"),
        (JudgeUnit().prompt("{previous.score}"), "no unit before this one gives 'score'"),
        (JudgeUnit("safety").prompt("J"), "unknown scale 'safety'"),
        (ConversationalUnit("").prompt("J"), "role_name.*must not be empty"),
        (CategoricalJudgeUnit().prompt("J"), "the unit needs `categories`"),
        (
            JudgeUnit(ContinuousScale()).prompt("J").extract(ArgmaxScoreExtractor()),
            "discrete or boolean scale",
        ),
        (Layer(JudgeUnit().prompt("J"), repeat=0), r"pipeline\[0\]\.repeat: 0: must be >= 1"),
        (Layer(JudgeUnit().prompt("J"), inner="chian"), "did you mean 'chain'"),  # type: ignore[arg-type]
        (CoTUnit().prompt("T") >> MeanPoolUnit(), "can be pooled"),
        (Unit().prompt("J"), "a Unit needs a `response`"),
    ],
)
def test_what_the_language_refuses_is_refused_with_its_path(unit, words):
    with pytest.raises(SpecError, match=words):
        (Pipeline("p", model="m") >> unit).validate()


def test_all_problems_are_reported_at_once():
    pipeline = (
        Pipeline("p", model="m") >> JudgeUnit() >> JudgeUnit(name="b").prompt("{previous.nothing}")
    )
    with pytest.raises(SpecError) as caught:
        pipeline.validate()
    assert [problem.path for problem in caught.value.problems] == [
        "pipeline[0]",
        "pipeline[1].prompt",
    ]


def test_an_empty_pipeline_is_refused():
    with pytest.raises(SpecError, match="pipeline"):
        Pipeline("p").validate()


def test_a_pattern_for_several_fields_is_refused():
    unit = (
        Unit(response={"a": int, "b": int}).prompt("J").extract(RegexExtractor(pattern="FIRST_INT"))
    )
    with pytest.raises(SpecError, match="for a response of one field, here are a, b"):
        (Pipeline("p", model="m") >> unit).validate()


def test_a_pipeline_without_a_model_is_warned_of_and_does_not_run():
    pipeline = Pipeline("p") >> JudgeUnit().prompt("J {source.x}")
    (warning,) = pipeline.validate()
    assert warning.code == "no-model" and "run(row, model=…)" in warning.hint
    with pytest.raises(SpecError, match="the unit has no model"):
        pipeline.run({})
    assert "model" not in pipeline.to_yaml()


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (dict[str, int], "is no type of a field"),
        (DiscreteScale, "is no type of a field"),
        (object, "is no type of a field"),
    ],
)
def test_a_schema_with_an_unknown_type_is_refused(field, words):
    with pytest.raises(UsageError, match=words):
        type("Bad", (Schema,), {"__annotations__": {"a": field}})


def test_a_schema_has_its_fields_only():
    class Given(Schema):
        a: int
        b: str = "x"

    assert dict(Given(a=1)) == {"a": 1, "b": "x"}
    with pytest.raises(UsageError, match="has no field 'c'\n    its fields are a, b"):
        Given(a=1, c=2)
    with pytest.raises(UsageError, match="needs the field 'a'"):
        Given()


def test_a_yaml_text_is_refused_with_line_and_column(tmp_path):
    text = "verdict: 1\nname: p\nmodel: m\npipeline:\n  - unit: JudgeUnit\n    promt: J\n"
    with pytest.raises(SpecError, match=r"6:5: pipeline\[0\]\.promt: unknown key 'promt'"):
        Pipeline.from_yaml(text)
    with pytest.raises(VerdictError, match="there is no such file"):
        Pipeline.from_yaml(tmp_path / "missing.yaml")


def test_an_error_of_a_file_s_pipeline_keeps_its_line(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(
        "verdict: 1\nname: p\npipeline:\n  - unit: JudgeUnit\n    prompt: '{previous.x}'\n"
    )
    with pytest.raises(SpecError, match=r"p\.yaml:5:13: pipeline\[0\]\.prompt"):
        Pipeline.from_yaml(path).plan(model="m")
