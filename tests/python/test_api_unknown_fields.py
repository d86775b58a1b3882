"""A Python function that raises on made-up values has unknown fields: names are never looked up elsewhere for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from verdict_cli import (
    ConversationalUnit,
    CoTUnit,
    JudgeUnit,
    Layer,
    MapUnit,
    MaxPoolUnit,
    MeanPoolUnit,
    Pipeline,
    RowError,
    RubricPoolUnit,
    Schema,
    SpecError,
    Unit,
)

if TYPE_CHECKING:
    from conftest import ScriptedModel

CLAIMS = '{"claims": ["first", "second"]}'
RAISED = "on made-up values, MapUnit: IndexError: list index out of range"


def split(name: str = "split") -> Unit:
    return Unit(response={"claims": "list[str]"}, name=name).prompt("Split {source.x}")


def second(name: str = "map", **keys: Any) -> MapUnit:
    """A made-up list has one item, so that the function raises on it."""
    return MapUnit(lambda outputs: {"claims": outputs[0].claims[1]}, name=name, **keys)


def last(prompt: str) -> CoTUnit:
    return CoTUnit(name="last").prompt(prompt)


@pytest.fixture
def run_with_model(scripted_model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The last prompt of a pipeline, and the row's result."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")

    def run(pipeline: Pipeline) -> tuple[str, Any]:
        scripted_model.answer = lambda request: "thought" if request.node == "last" else CLAIMS
        result = pipeline.run({"x": "a"})
        return scripted_model.texts()[-1], result

    return run


def p() -> Pipeline:
    return Pipeline("p", model="gpt-4o")


def test_a_field_of_the_unit_before_is_read_at_the_row(run_with_model):
    prompt, _ = run_with_model(p() >> split() >> second() >> last("Judge {previous.claims}"))
    assert prompt == "Judge second"
    prompt, _ = run_with_model(
        p() >> split() >> second() >> last("Judge {input.claims} {previous.map.claims}")
    )
    assert prompt == "Judge second second"


@pytest.mark.parametrize(
    "name", ["{previous.claims}", "{previous.claims.claims}", "{input.claims}"]
)
def test_a_name_that_may_be_the_field_or_a_unit_is_refused(name):
    pipeline = p() >> split("claims") >> second() >> last(f"Judge {name}")
    with pytest.raises(SpecError) as caught:
        pipeline.validate()
    (problem,) = caught.value.problems
    assert (
        problem.message
        == f"{name}: 'claims' may be a field of map, whose fields are not known ({RAISED}), or mean claims"
    )
    assert problem.hint == "say which fields it gives: `fields=['score']`"


def test_declared_fields_settle_the_name(run_with_model):
    prompt, _ = run_with_model(
        p() >> split("claims") >> second(fields=["claims"]) >> last("Judge {previous.claims}")
    )
    assert prompt == "Judge second"
    with pytest.raises(SpecError, match="no field 'other'"):
        (
            p() >> split() >> second(fields=["claims"]) >> last("Judge {previous.map.other}")
        ).validate()


def test_a_field_that_another_unit_gives_too_is_refused():
    layer = Layer([second(), split("other")])
    with pytest.raises(SpecError, match=r"'claims' may be a field of map, .* or mean other"):
        (p() >> split() >> layer >> last("Judge {previous.claims}")).validate()
    assert (p() >> split() >> layer >> last("Judge {previous.other.claims}")).validate()[
        0
    ].code == "suspicious"


def test_a_missing_field_fails_the_row_and_names_those_that_are_there(run_with_model):
    with pytest.raises(
        RowError, match=r"previous\.map\.clams: previous\.map has no 'clams', only claims"
    ):
        run_with_model(p() >> split() >> second() >> last("Judge {previous.clams}"))


def test_a_pool_of_unknown_fields_needs_a_name_and_checks_it_at_the_row(
    run_with_model,
):
    counted = (
        p() >> split() >> MapUnit(lambda outputs: {"n": len(outputs[0].claims[1])}, name="count")
    )
    assert run_with_model(counted >> MeanPoolUnit("n"))[1].n == 6
    with pytest.raises(RowError, match="there is no 'm' to pool, only n"):
        run_with_model(counted >> MaxPoolUnit("m"))
    with pytest.raises(
        SpecError, match="the fields of count are not known: on made-up values"
    ) as caught:
        (counted >> MeanPoolUnit()).validate()
    assert "name the field to pool: `field:`" in caught.value.problems[0].hint
    with pytest.raises(RowError, match="there is no 'm' to pool, only n"):
        run_with_model(counted >> RubricPoolUnit(points="1", field="m"))


def test_input_fields_are_filled_from_what_the_row_shows(run_with_model):
    reader = CoTUnit(name="last", input={"claims": "str"}).prompt("Judge {input.claims}")
    assert run_with_model(p() >> split() >> second() >> reader)[0] == "Judge second"
    speaker = ConversationalUnit("Pro", name="last").prompt("Speak.\n{input.conversation}")
    assert run_with_model(p() >> split() >> second() >> speaker)[0].strip() == "Speak."
    turns = MapUnit(
        lambda outputs: {"conversation": [{"role": "A", "content": outputs[0].claims[1]}]},
        name="map",
    )
    assert "second" in run_with_model(p() >> split() >> turns >> speaker)[0]


def test_functions_behind_it_see_the_fields_of_the_row(run_with_model):
    def fields_of(previous: Any) -> dict[str, Any]:
        return {"there": "claims" in previous, "claims": previous.claims, "all": sorted(previous)}

    _, result = run_with_model(p() >> split() >> second() >> MapUnit(fields_of, name="end"))
    assert dict(result) == {"there": True, "claims": "second", "all": ["claims", "map", "split"]}


def test_what_propagate_passes_on_is_unknown_too(run_with_model):
    passed = split().propagate(lambda output: Schema.of(claims=output.claims[1]))
    assert run_with_model(p() >> passed >> last("Judge {previous.claims}"))[0] == "Judge second"
    with pytest.raises(SpecError, match=r"'claims' may be a field of split, .* or mean claims"):
        (
            p() >> JudgeUnit(name="claims").prompt("x") >> passed >> last("Judge {previous.claims}")
        ).validate()
