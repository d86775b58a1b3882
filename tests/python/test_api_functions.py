"""Python functions stand where a file has expressions, and run in the same places of a row's life."""

from __future__ import annotations

import linecache
from typing import Any, Literal

import pytest

from verdict_cli import (
    BooleanScale,
    ConversationalUnit,
    CoTUnit,
    DiscreteScale,
    JudgeUnit,
    Layer,
    MapUnit,
    MeanPoolUnit,
    Pipeline,
    ReplyError,
    RowError,
    Schema,
    SpecError,
    Unit,
    UsageError,
)


def judge(name: str = "judge") -> JudgeUnit:
    return (
        JudgeUnit(DiscreteScale((1, 5)), name=name, explanation=True)
        .prompt("Judge {source.x}")
        .via("m", retries=2)
    )


def reply(score: int, why: str = "because") -> str:
    return f'{{"explanation": "{why}", "score": {score}}}'


def test_propagate_takes_any_of_its_arguments_by_name(recorded):
    def passed(
        *,
        source: Any,
        output: Any,
        response: Any,
        previous: Any,
        input: Any,  # noqa: A002
        unit: Any,
    ) -> Any:
        return {
            "column": source.x,
            "score": output.score + response["score"],
            "before": previous.score,
            "named": previous.first.score,
            "why": input.explanation,
            "unit": unit.name,
        }

    pipeline = Pipeline("p") >> judge("first") >> judge("second").propagate(passed)
    judged = pipeline.run({"x": "a"}, replay=recorded(first=reply(4, "E4"), second=reply(2)))
    assert dict(judged) == {
        "column": "a",
        "score": 4,
        "before": 4,
        "named": 4,
        "why": "E4",
        "unit": "second",
    }


def test_the_fields_of_propagate_are_available_to_later_units(recorded):
    layer = Layer(judge().propagate(lambda output: Schema.of(score=output.score / 5)), 2)
    pipeline = Pipeline("p") >> layer >> MeanPoolUnit("score")
    judged = pipeline.run({"x": "a"}, replay=recorded({"judge[0]": reply(5), "judge[1]": reply(1)}))
    assert judged.score == pytest.approx(0.6)
    with pytest.raises(SpecError, match="gives no 'other'"):
        (Pipeline("p") >> layer >> MeanPoolUnit("other")).validate()


def test_a_function_that_cannot_be_tried_names_its_fields(recorded):
    def strict(output: Any, source: Any) -> dict[str, Any]:
        return {"half": {"a": 2}[source.x] / output.score}

    unknown = Pipeline("p") >> judge().propagate(strict)
    (warning,) = unknown.validate()
    assert "KeyError" in warning.message and "fields=" in warning.hint
    replay = recorded(judge=reply(4))
    assert unknown.run({"x": "a"}, replay=replay).half == 0.5
    declared = Pipeline("p") >> judge().propagate(strict, fields=["half"]) >> MeanPoolUnit("half")
    assert declared.validate() == () and declared.run({"x": "a"}, replay=replay).half == 0.5
    typed = Pipeline("p") >> judge().propagate(strict, fields={"half": float}) >> MeanPoolUnit()
    assert typed.run({"x": "a"}, replay=replay).half == 0.5


def test_a_function_that_names_a_field_which_no_value_has_is_refused():
    behind = (
        Pipeline("p")
        >> Layer(judge(), 2)
        >> MapUnit(lambda outputs: {"top": max(output.choice for output in outputs)})
    )
    with pytest.raises(
        SpecError,
        match="MapUnit: AttributeError: there is no 'choice' here, only explanation, score",
    ):
        behind.validate()
    either = MapUnit(
        lambda outputs: {
            "top": [getattr(output, "choice", None) or output.score for output in outputs]
        }
    )
    assert (Pipeline("p") >> Layer(judge(), 2) >> either).validate() == ()


@pytest.mark.parametrize(
    "keys", [{"half": "output.explanation / 2"}, {"half": "output.thinking / 2"}]
)
def test_an_expression_that_no_value_allows_is_refused_from_python_too(
    keys,
):
    with pytest.raises(
        SpecError, match=r"`output\.(explanation|thinking)` of type str|no field 'thinking'"
    ):
        (Pipeline("p") >> judge().propagate(keys)).validate()
    with pytest.raises(SpecError, match="no item has a field 'choice'"):
        (
            Pipeline("p") >> judge() >> MapUnit({"top": "outputs | map(attribute='choice') | max"})
        ).validate()


def test_a_function_that_raises_fails_the_row_and_ends_its_calls(recorded):
    replay = recorded(judge=[reply(4), reply(5)])
    pipeline = Pipeline("p") >> judge().propagate(lambda output: 1 / 0)
    with pytest.raises(RowError, match=r"judge: JudgeUnit\.propagate: ZeroDivisionError"):
        pipeline.run({"x": "a"}, replay=replay)
    table = pipeline.run_dataset([{"x": "a"}], replay=replay)
    assert table["status"].tolist() == ["failed"] and table["calls"].tolist() == [1]


@pytest.mark.parametrize("result", [None, 3, [1], {1: 2}])
def test_a_function_must_give_fields(recorded, result):
    pipeline = Pipeline("p") >> judge().propagate(lambda output: result)
    with pytest.raises(RowError, match="expected a Schema or a mapping of fields"):
        pipeline.run({"x": "a"}, replay=recorded(judge=reply(4)))


def test_a_function_that_gives_other_fields_than_foreseen_fails_the_row(recorded):
    pipeline = Pipeline("p") >> judge().propagate(
        lambda output: {"low" if output.score < 3 else "high": 1}
    )
    assert pipeline.run({"x": "a"}, replay=recorded(judge=reply(5))).high == 1
    with pytest.raises(RowError, match="'high' is missing"):
        pipeline.run({"x": "a"}, replay=recorded(judge=reply(1)))


def test_a_map_gets_the_outputs_in_order_of_definition(recorded):
    layer = Layer([judge("a"), judge("b"), judge("c")])
    pipeline = (
        Pipeline("p")
        >> layer
        >> MapUnit(
            lambda outputs, source, previous: Schema.of(
                lowest=min(output.score for output in outputs),
                texts=[output["explanation"] for output in outputs],
                column=source.x,
                second=previous.b.score,
            )
        )
    )
    judged = pipeline.run(
        {"x": "q"}, replay=recorded(a=reply(3, "A"), b=reply(1, "B"), c=reply(2, "C"))
    )
    assert dict(judged) == {"lowest": 1, "texts": ["A", "B", "C"], "column": "q", "second": 1}


def test_a_map_over_skipped_units_gets_none_in_their_place(recorded):
    layer = Layer(
        [JudgeUnit(name="a", on_failure="skip").prompt("A").via("m", retries=0), judge("b")]
    )
    pipeline = (
        Pipeline("p")
        >> layer
        >> MapUnit(lambda outputs: {"there": [output is not None for output in outputs]})
    )
    judged = pipeline.run({"x": "q"}, replay=recorded(a="nonsense", b=reply(2)))
    assert judged.there == [False, True]


def test_previous_reaches_numbered_units_and_says_when_a_word_is_ambiguous(recorded):
    layer = Layer(judge(), 2)
    replies = {"judge[0]": reply(3), "judge[1]": reply(5)}
    numbered = Pipeline("p") >> layer >> MapUnit(lambda previous: {"last": previous.judge[1].score})
    assert numbered.run({"x": "a"}, replay=recorded(replies)).last == 5
    ambiguous = Pipeline("p") >> layer >> MapUnit(lambda previous: {"one": previous.score})
    with pytest.raises(RowError, match=r"`previous\.score`: 2 units give 'score'"):
        ambiguous.run({"x": "a"}, replay=recorded(replies))


def test_a_map_reads_a_conversation(recorded):
    turns = Layer(
        [ConversationalUnit(role).prompt("Speak.") for role in ("A", "B")],
        inner="chain",
        outer="last",
    )
    text = MapUnit(
        lambda outputs: {
            "text": " / ".join(f"{t.role}: {t.content}" for t in outputs[0].conversation)
        }
    )
    pipeline = (
        Pipeline("p", model="m")
        >> turns
        >> text
        >> JudgeUnit(BooleanScale()).prompt("{previous.text}")
    )
    replay = recorded(
        {"conversational[0]": "yes", "conversational[1]": "no"}, judge='{"score": true}'
    )
    assert pipeline.run({}, replay=replay).nodes["map"].text == "A: yes / B: no"


class Checked(Unit):
    """Refuses low scores; gives on the score and a word from its input."""

    _prompt = "Rate {input.text}"

    class InputSchema(Schema):
        text: str

    class ResponseSchema(Schema):
        score: int
        tone: Literal["kind", "harsh"]

        @property
        def double(self) -> int:
            return int(self.score) * 2

    class OutputSchema(Schema):
        doubled: int
        of: str

    def validate(self, response: ResponseSchema, input: InputSchema) -> bool:  # noqa: A002
        if response.tone == "harsh":
            raise ValueError(f"{input.text} deserves kindness")
        return bool(response.score > 1)

    def process(self, response: ResponseSchema, input: InputSchema) -> OutputSchema:  # noqa: A002
        assert isinstance(response, Checked.ResponseSchema) and isinstance(
            input, Checked.InputSchema
        )
        return self.OutputSchema(doubled=response.double, of=input.text)


def test_a_response_that_validate_refuses_is_retried(recorded):
    pipeline = Pipeline("p", model={"name": "m", "retries": 2}) >> Checked()
    replies = [
        '{"score": 5, "tone": "harsh"}',
        '{"score": 1, "tone": "kind"}',
        '{"score": 4, "tone": "kind"}',
    ]
    judged = pipeline.run({"text": "this"}, replay=recorded(checked=replies))
    assert dict(judged) == {"doubled": 8, "of": "this"}
    failures = [(call.failure, call.error) for call in judged.calls]
    assert failures[0] == ("invalid", "Checked.validate: this deserves kindness")
    assert failures[1] == ("invalid", "Checked.validate gave false")
    with pytest.raises(ReplyError, match=r"Checked\.validate gave false") as caught:
        pipeline.run({"text": "this"}, replay=recorded(checked=[replies[1]] * 3))
    assert caught.value.failure == "invalid"


def test_a_custom_unit_works_among_built_in_ones(recorded):
    pipeline = (
        Pipeline("p", model="m")
        >> CoTUnit().prompt("Think").propagate(text="output.thinking")
        >> Checked().propagate(lambda output: Schema.of(score=output.doubled))
        >> MeanPoolUnit("score")
    )
    judged = pipeline.run(
        {}, replay=recorded(cot="a thought", checked='{"score": 4, "tone": "kind"}')
    )
    assert judged.score == 8
    assert [node["unit"] for node in pipeline.graph("json")["nodes"]] == [
        "CoTUnit",
        "Unit",
        "MeanPoolUnit",
    ]


def test_what_process_gives_is_checked_against_the_output_schema(recorded):
    class Wrong(Checked):
        def process(self, response: Any, input: Any) -> Any:  # noqa: A002
            return {"doubled": "many", "of": "x"}

    pipeline = Pipeline("p", model="m") >> Wrong()
    with pytest.raises(RowError, match=r"Wrong\.process gave .*doubled: 'many' is not of type int"):
        pipeline.run({"text": "a"}, replay=recorded(wrong='{"score": 4, "tone": "kind"}'))


def test_an_output_schema_alone_leaves_fields_out(recorded):
    class Short(Unit):
        _prompt = "Rate."

        class ResponseSchema(Schema):
            why: str
            score: int

        class OutputSchema(Schema):
            score: int

    pipeline = Pipeline("p", model="m") >> Short()
    assert dict(pipeline.run({}, replay=recorded(short='{"why": "so", "score": 3}'))) == {
        "score": 3
    }
    assert Pipeline.from_yaml(pipeline.to_yaml()).fingerprint == pipeline.fingerprint


def test_an_output_with_unknown_fields_fails_the_row_and_not_the_run(recorded):
    class Typo(Checked):
        def process(self, response: Any, input: Any) -> Any:  # noqa: A002
            return self.OutputSchema(double=1, of="x")

    pipeline = Pipeline("p", model="m") >> Typo()
    table = pipeline.run_dataset(
        [{"text": "a"}], replay=recorded(typo='{"score": 4, "tone": "kind"}')
    )
    assert table["failure.kind"].tolist() == ["expression"]
    assert "has no field 'double'" in table["failure.message"][0]


def test_an_error_of_the_package_raised_in_a_function_fails_the_row(recorded):
    def refuse(outputs: Any) -> Any:
        raise ReplyError("no")

    pipeline = Pipeline("p") >> judge() >> MapUnit(refuse)
    with pytest.raises(RowError, match="MapUnit: no"):
        pipeline.run({"x": "a"}, replay=recorded(judge=reply(4)))


def test_fields_come_before_the_methods_of_a_mapping(recorded):
    spelled = judge().propagate(items="output.score", values="1", of="2")
    pipeline = (
        Pipeline("p")
        >> spelled
        >> MapUnit(lambda outputs: Schema.of(keys=outputs[0].items + outputs[0].values))
    )
    judged = pipeline.run({"x": "a"}, replay=recorded(judge=reply(4)))
    assert judged.keys == 5 and repr(judged) == "Judged(keys=5)" and judged["keys"] == 5
    assert judged.nodes["judge"].of == 2


def test_a_judge_is_subclassed_too(recorded):
    class Half(JudgeUnit):
        _char = "HalfJudge"
        _prompt = "Judge {source.x}"

        class OutputSchema(Schema):
            half: float

        def process(self, response: Any) -> Any:
            return self.OutputSchema(half=response.score / 2)

    pipeline = Pipeline("p", model="m") >> Half(DiscreteScale((1, 5)))
    assert pipeline.run({"x": "a"}, replay=recorded(half_judge='{"score": 3}')).half == 1.5


def test_a_pinned_function_that_reads_the_row_is_refused():
    pipeline = (
        Pipeline("p", model="m")
        >> CoTUnit().prompt("Think").propagate(lambda source: {"a": source.x}).pin()
    )
    with pytest.raises(SpecError, match="a pinned unit runs once"):
        pipeline.validate()


def test_a_unit_with_a_function_has_no_yaml_form():
    for unit in (
        judge("one").propagate(lambda output: output),
        Checked(name="one"),
        MapUnit(lambda source: {"a": 1}, name="one"),
    ):
        with pytest.raises(UsageError, match="the unit 'one' has no YAML form"):
            (Pipeline("p", model="m") >> unit).to_yaml()


def test_the_source_of_a_function_and_its_closure_are_in_the_fingerprint():
    def with_bound(bound: int) -> str:
        return (
            Pipeline("p") >> judge().propagate(lambda output: Schema.of(high=output.score > bound))
        ).fingerprint

    assert with_bound(3) == with_bound(3) != with_bound(4)


def test_a_lambda_behind_the_closing_line_of_a_prompt_counts_by_its_source():
    def with_factor(factor: int) -> str:
        unit = (
            JudgeUnit()
            .prompt("""
            Judge {source.x}
        """)
            .propagate(lambda output: Schema.of(score=output.score * factor))
        )
        return (Pipeline("p", model="m") >> unit).fingerprint

    assert with_factor(2) == with_factor(2) != with_factor(3)


def test_two_lambdas_on_one_line_are_two_functions():
    # fmt: off
    first, two = (lambda output: {"s": output.score}), (lambda output: {"s": output.score * 2, "é": 1})
    # fmt: on
    prints = [
        (Pipeline("p", model="m") >> judge().propagate(function)).fingerprint
        for function in (first, two, first)
    ]
    assert prints[0] == prints[2] != prints[1]


@pytest.mark.parametrize("has_source", [False, True])
def test_functions_without_source_are_never_taken_for_one_another(has_source, monkeypatch):
    if has_source:  # as `python -c` does from Python 3.13 on
        monkeypatch.setitem(linecache.cache, "<string>", (1, None, ["import this\n"], "<string>"))

    def make() -> Any:
        return Pipeline("p") >> judge().propagate(eval("lambda output: {'score': 1}"))

    pipeline = make()
    assert pipeline.fingerprint == pipeline.fingerprint != make().fingerprint


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda outptu: outptu, "did you mean `output`"),
        (lambda *values: values, "arguments are given by name"),
        (3, "takes a function, not 3"),
        (int, "does not say which arguments|arguments are given by name|takes no"),
    ],
)
def test_a_function_with_other_arguments_is_refused_at_once(function, words):
    with pytest.raises(UsageError, match=words):
        judge().propagate(function)


def test_an_async_function_is_refused_at_once():
    async def later(output: Any) -> Any:
        return output

    with pytest.raises(UsageError, match="this one is async"):
        judge().propagate(later)


def test_a_map_names_its_argument_as_it_likes(recorded):
    replay = recorded({"judge[0]": reply(4), "judge[1]": reply(2)})
    pipeline = Pipeline("p") >> Layer(judge(), repeat=2)
    for mean in (
        lambda judges: {"mean": sum(judge.score for judge in judges) / 2},
        lambda judges, source: {
            "mean": sum(judge.score for judge in judges) / 2 + 0 * len(source.x)
        },
        lambda outputs: {"mean": sum(output.score for output in outputs) / 2},
    ):
        assert dict((pipeline >> MapUnit(mean)).run({"x": "a"}, replay=replay)) == {"mean": 3}


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda judges, others: 1, "others"),
        (lambda outputs, judges: 1, "judges"),
        (lambda source, judges: 1, "judges"),
    ],
)
def test_other_arguments_of_a_map_have_their_names(function, words):
    with pytest.raises(UsageError, match=words):
        MapUnit(function)


def test_a_lambda_may_begin_on_the_line_that_closes_a_prompt(recorded):
    # fmt: off
    unit = judge().prompt("""
    Judge {source.x}
""").propagate(lambda output: Schema.of(score=output.score / 4))
    layer = Layer(judge("other").prompt("""
    Judge {source.x}
"""), repeat=1) >> MapUnit(lambda judges: Schema.of(total=judges[0].score))
    # fmt: on
    assert dict((Pipeline("p") >> unit).run({"x": "a"}, replay=recorded(judge=reply(4)))) == {
        "score": 1
    }
    assert dict((Pipeline("p") >> layer).run({"x": "a"}, replay=recorded(other=reply(4)))) == {
        "total": 4
    }
