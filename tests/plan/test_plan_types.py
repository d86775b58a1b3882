"""Types of fields in a pipeline: lists of anything, values that may be null, mappings within mappings."""

from __future__ import annotations

import pytest

from verdict_cli import JudgeUnit, Pipeline, Schema, Unit
from verdict_cli.errors import ReplyError
from verdict_cli.plan.row_types import row_converter
from verdict_cli.storage.tables.column_types import declared_type


class Claim(Schema):
    text: str
    weight: float | None


PIPELINE = """
scales:
  safety: {values: [safe, unsafe]}
pipeline:
  - unit: Unit
    name: split
    prompt: "Split {source.text}"
    response:
      claims: "list[{text: str, weight: float?}]"
      marks: list[safety]
      flags: list[bool]
      note: str?
      about: {place: {name: str, years: "list[int]"}}
"""
REPLY = (
    '{"claims": [{"text": "a", "weight": null}, {"text": "b", "weight": 2}], "marks": ["unsafe"], "flags": [true], '
    '"note": null, "about": {"place": {"name": "x", "years": [1, 2]}}}'
)


def test_a_reply_is_requested_and_read_by_its_types(tmp_path, scripted_model):
    scripted_model.answer = lambda _: REPLY
    (tmp_path / "p.yaml").write_text(f"verdict: 1\nname: x\nmodel: m\n{PIPELINE}")
    output = Pipeline.from_yaml(tmp_path / "p.yaml").run({"text": "t"})
    assert output["claims"][1] == {"text": "b", "weight": 2.0}
    assert output["about"]["place"]["years"] == [1, 2]
    assert output["note"] is None
    schema = scripted_model.requests[0].json_schema["properties"]
    assert schema["flags"] == {"type": "array", "items": {"type": "boolean"}}
    assert schema["marks"]["items"] == {"type": "string", "enum": ["safe", "unsafe"]}
    assert schema["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert schema["claims"]["items"]["properties"]["weight"] == {
        "anyOf": [{"type": "number"}, {"type": "null"}]
    }


def test_a_reply_with_an_entry_of_another_type_is_unreadable(tmp_path, scripted_model):
    scripted_model.answer = lambda _: REPLY.replace('"unsafe"', '"unsafe", "odd"')
    (tmp_path / "p.yaml").write_text(
        f"verdict: 1\nname: x\nmodel: {{name: m, retries: 0}}\n{PIPELINE}"
    )
    with pytest.raises(ReplyError, match=r"marks: \[1\]: 'odd' is not on the scale"):
        Pipeline.from_yaml(tmp_path / "p.yaml").run({"text": "t"})


def test_columns_of_results_are_lists_and_say_their_types(tmp_path, scripted_model):
    import pyarrow.parquet as pq

    from verdict_cli.storage.tables.reader import read_table

    scripted_model.answer = lambda _: REPLY
    (tmp_path / "p.yaml").write_text(f"verdict: 1\nname: x\nmodel: m\n{PIPELINE}")
    Pipeline.from_yaml(tmp_path / "p.yaml").run_dataset([{"text": "t"}], tmp_path / "run")
    table = tmp_path / "run" / "results.parquet"
    (batch,) = read_table(table)
    assert batch["split.flags"] == [[True]]
    assert batch["split.note"] == [None]
    assert batch["output.claims"] == [[{"text": "a", "weight": None}, {"text": "b", "weight": 2.0}]]
    schema = pq.read_schema(table)
    declared = declared_type(schema.field("split.marks"))
    assert declared is not None and declared.schema["items"]["enum"] == ["safe", "unsafe"]
    assert declared_type(schema.field("split.note")).schema == {"type": "string"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("{previous.claims[0].txt}", "did you mean 'text'?"),
        ("{previous.about.place.nme}", "did you mean 'name'?"),
        ("{previous.flags.first}", ""),
        ("{previous.about.place.years[0].x}", ""),
    ],
)
def test_a_part_that_a_type_does_not_have_is_an_error(refusal, path, hint):
    problem = refusal(f'{PIPELINE}  - unit: JudgeUnit\n    prompt: "Is {path} right?"\n')
    assert problem.hint == hint or not hint


def test_entries_and_nullable_parts_have_types(plan):
    built = plan(
        f"""{PIPELINE}
  - unit: MapUnit
    map: {{weight: "previous.claims[0].weight", years: "previous.about.place.years", year: "outputs[0].about.place.years[1]"}}
"""
    )
    types = {name: kind.type_name() for name, kind in built.plan.nodes[-1].output.fields.items()}
    assert types == {"weight": "float?", "years": "list[int]", "year": "int"}


@pytest.mark.parametrize(
    ("declared_type", "message"),
    [
        ('"list[strr]"', "unknown type or scale 'strr'"),
        ('"list[str"', "'list[str' is not a type: expected `]`, found the end"),
        ('"list[{type: discrete, range: [5, 1]}]"', "range"),
    ],
)
def test_a_wrong_type_is_reported_with_its_place(refusal, declared_type, message):
    problem = refusal(
        f"pipeline:\n  - unit: Unit\n    prompt: x\n    response: {{claims: {declared_type}}}\n"
    )
    assert message in problem.message
    assert problem.path.startswith("pipeline[0].response.claims")


def test_rows_are_read_by_the_types_of_their_columns(plan):
    built = plan(
        """
        dataset: {schema: {rubric: "list[{criterion: str, points: float}]", seen: "bool?", extra: "{a: int?}?"}}
        pipeline: [{unit: JudgeUnit, prompt: "Judge {source.rubric[0].criterion}"}]
        """
    )
    assert built.plan.row_types is not None
    convert = row_converter(built.plan.row_types)
    row = convert({"rubric": [{"criterion": "x", "points": 3}], "seen": "", "extra": {"a": None}})
    assert row == {
        "rubric": [{"criterion": "x", "points": 3.0}],
        "seen": None,
        "extra": {"a": None},
    }
    assert (
        convert({"rubric": '[{"criterion": "x", "points": 3}]', "seen": "yes", "extra": None})[
            "rubric"
        ][0]["points"]
        == 3
    )
    with pytest.raises(
        ValueError, match=r"the column 'rubric': \[1\]: the field 'points' is missing"
    ):
        convert(
            {
                "rubric": [{"criterion": "x", "points": 3}, {"criterion": "y"}],
                "seen": None,
                "extra": None,
            }
        )


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"n": "3", "ok": True}, "n: '3' is not of type int"),
        ({"n": 3, "ok": "yes"}, "ok: 'yes' is not of type bool"),
    ],
)
def test_a_text_within_a_record_is_not_converted(plan, extra, reason):
    built = plan(
        """
        dataset: {schema: {extra: "{n: int, ok: bool}"}}
        pipeline: [{unit: JudgeUnit, prompt: "Judge {source.extra.n}"}]
        """
    )
    assert built.plan.row_types is not None
    convert = row_converter(built.plan.row_types)
    with pytest.raises(ValueError, match=reason):
        convert({"extra": extra})
    assert convert({"extra": '{"n": 3, "ok": true}'}) == {"extra": {"n": 3, "ok": True}}


def test_python_annotations_are_the_same_types_as_those_of_a_file():
    class Split(Unit):
        _prompt = "Split {source.text}"

        class ResponseSchema(Schema):
            claims: list[Claim]
            flags: list[bool]
            note: str | None
            grid: list[list[int]]

    class Again(JudgeUnit):
        class InputSchema(Schema):
            claims: list[Claim]
            note: str | None = None

    assert Split.ResponseSchema.declared() == {
        "claims": "list[{text: str, weight: float?}]",
        "flags": "list[bool]",
        "note": "str?",
        "grid": "list[list[int]]",
    }
    pipeline = Pipeline("p", model="m") >> Split() >> Again().prompt("J {input.claims}")
    assert Pipeline.from_yaml(pipeline.to_yaml()).fingerprint == pipeline.fingerprint


WRONG = """
dataset: {schema: {note: str}}
pipeline:
  - layer: [{unit: JudgeUnit, prompt: "{source.text}"}]
    repeat: 2
  - {unit: MapUnit, map: {top: "EXPRESSION"}}
"""


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("outputs | map(attribute='choice') | max", "no item has a field 'choice'"),
        ("previous.judge | map(attribute='choice') | max", "no item has a field 'choice'"),
        ("outputs[0].explanation / 2", "has no field 'explanation'"),
        ("source.note / 2", "`/` takes numbers, not `source.note` of type str"),
    ],
)
def test_an_expression_that_no_value_allows_is_refused_before_a_call(refusal, expression, message):
    problem = refusal(WRONG.replace("EXPRESSION", expression))
    assert (
        problem.code == "bad-expression"
        and message in problem.message
        and problem.path == "pipeline[1].map.top"
    )


@pytest.mark.parametrize(
    "expression", ["outputs | map(attribute='score') | max", "outputs[i.x].score", "source.x / 2"]
)
def test_an_expression_that_some_values_allow_is_legal(plan, expression):
    plan(WRONG.replace("EXPRESSION", expression.replace("i.x", "source.n")))
