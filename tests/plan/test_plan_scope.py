"""What a name means at a unit: names of nodes, `previous`, casting, pins, unused outputs."""

from __future__ import annotations

import pytest

from verdict_cli.language.expressions.paths import ExpressionPath
from verdict_cli.plan.node import Plan


def paths(plan: Plan, name: str) -> list[ExpressionPath]:
    """What the placeholders of a node's prompt mean."""
    node = next(node for node in plan.nodes if node.id == name)
    return [
        path
        for _, parts in node.work.prompt.sections
        for part in parts
        if not isinstance(part, str)
        for path in part.paths
    ]


def ids(plan: Plan) -> list[str]:
    return [node.id for node in plan.nodes]


# Names


def test_a_unique_name_has_no_number_and_others_have_one(plan):
    compiled = plan(
        """
        pipeline:
          - layer: [{unit: JudgeUnit, prompt: a}, {unit: CoTUnit, prompt: a}, {unit: JudgeUnit, prompt: b}]
          - {unit: CategoricalJudgeUnit, categories: [a], prompt: c}
        """
    ).plan
    assert ids(compiled) == ["judge[0]", "cot", "judge[1]", "categorical_judge"]


def test_one_name_for_two_types_is_refused(refusal):
    problem = refusal(
        """
        pipeline:
          - {unit: JudgeUnit, name: a, prompt: x}
          - {unit: CoTUnit, name: a, prompt: x}
        """
    )
    assert (
        problem.code == "name-used-twice"
        and "JudgeUnit" in problem.message
        and "CoTUnit" in problem.message
    )
    assert (problem.line, problem.column, problem.path) == (6, 27, "pipeline[1].name")


@pytest.mark.parametrize("name", ["source", "output"])
def test_a_name_that_result_columns_have_already_is_refused(refusal, name):
    assert (
        refusal(f"pipeline: [{{unit: CoTUnit, name: {name}, prompt: x}}]").code == "reserved-name"
    )


# previous


TWO = """
    pipeline:
      - layer:
          - {unit: JudgeUnit, name: a, prompt: x}
          - {unit: JudgeUnit, name: b, prompt: x, explanation: true}
      - {unit: CoTUnit, prompt: "%s"}
"""


def test_previous_by_field_is_the_one_dependency_that_has_it(plan):
    assert paths(plan(TWO % "{previous.explanation}").plan, "cot") == [
        ("previous", "b", "explanation")
    ]


def test_previous_by_field_of_two_dependencies_names_both(refusal):
    problem = refusal(TWO % "{previous.score}")
    assert "a and b" in problem.message and problem.path == "pipeline[1].prompt"


def test_previous_by_name(plan):
    assert paths(plan(TWO % "{previous.a.score:.2f}").plan, "cot") == [("previous", "a", "score")]


def test_previous_by_name_and_place_in_order_of_definition(plan):
    compiled = plan(
        """
        pipeline:
          - layer: [{unit: JudgeUnit, prompt: x}]
            repeat: 3
          - {unit: CoTUnit, prompt: "{previous.judge[2].score} {previous.judge[-1].score} {previous.judge[0].score}"}
        """
    ).plan
    assert [path[1] for path in paths(compiled, "cot")] == ["judge[2]", "judge[2]", "judge[0]"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("previous.judge[3].score", "3 units named 'judge'"),
        ("previous.judge.score", "judge[0], judge[1], judge[2]"),
        ("previous.judge[0].scroe", "no field 'scroe'"),
        ("previous.scroe", "no unit before this one gives 'scroe'"),
    ],
)
def test_previous_that_means_nothing_is_refused(refusal, path, words):
    problem = refusal(
        f"""
        pipeline:
          - layer: [{{unit: JudgeUnit, prompt: x}}]
            repeat: 3
          - {{unit: CoTUnit, prompt: "{{{path}}}"}}
        """
    )
    assert words in problem.message and problem.hint


def test_the_nearest_spelling_of_what_nobody_fills_is_named(refusal):
    problem = refusal(TWO % "{previous.explanatoin}")
    assert (problem.code, problem.line) == ("bad-placeholder", 8) and "explanation" in problem.hint


def test_previous_reaches_further_up_by_name(plan):
    compiled = plan(
        """
        pipeline:
          - {unit: CoTUnit, name: think, prompt: x}
          - layer: [{unit: JudgeUnit, prompt: x}]
            repeat: 2
          - {unit: MaxPoolUnit}
          - {unit: CoTUnit, name: last, prompt: "{previous.think.thinking} {previous.judge[1].score}"}
        """
    ).plan
    assert paths(compiled, "last") == [
        ("previous", "think", "thinking"),
        ("previous", "judge[1]", "score"),
    ]


def test_previous_does_not_reach_further_up_by_field(refusal):
    problem = refusal(
        """
        pipeline:
          - {unit: CoTUnit, prompt: x}
          - {unit: JudgeUnit, prompt: "{previous.thinking}"}
          - {unit: JudgeUnit, name: last, prompt: "{previous.thinking}"}
        """
    )
    assert problem.path == "pipeline[2].prompt" and "'thinking'" in problem.message


def test_a_direct_dependency_of_the_name_hides_those_further_up(plan):
    compiled = plan(
        """
        pipeline:
          - layer: [{unit: JudgeUnit, prompt: x}]
            repeat: 2
            inner: chain
            outer: last
          - {unit: CoTUnit, prompt: "{previous.judge.score}"}
        """
    ).plan
    assert paths(compiled, "cot") == [("previous", "judge[1]", "score")]


def test_a_unit_that_comes_later_is_unknown(refusal):
    text = """
        pipeline:
          - {unit: JudgeUnit, prompt: "{previous.later.score}"}
          - {unit: JudgeUnit, name: later, prompt: x}
    """
    assert refusal(text).path == "pipeline[0].prompt"


def test_units_behind_a_bad_one_are_checked_too(refused):
    problems = refused(
        """
        pipeline:
          - {unit: CoTUnit, prompt: "{previous.x}"}
          - {unit: JudgeUnit, prompt: "{previous.thinking} {previous.y}"}
          - {unit: JugdeUnit, prompt: x}
          - {unit: JudgeUnit, prompt: "{previous.anything}", name: z}
          - {unit: JudgeUnit, prompt: "{source.q}", scale: likret, name: w}
        """
    )
    assert [(problem.line, problem.code) for problem in problems] == [
        (5, "bad-placeholder"),
        (6, "bad-placeholder"),
        (7, "unknown-unit"),
    ]


def test_double_braces_are_refused_and_other_braces_are_text(plan, refusal):
    assert "double braces" in refusal("pipeline: [{unit: CoTUnit, prompt: '{{source.x}}'}]").message
    compiled = plan("pipeline: [{unit: CoTUnit, prompt: '{\"a\": {x}} \\{source.y}'}]").plan
    assert paths(compiled, "cot") == [] and compiled.columns == ()


def test_columns_are_remembered_with_the_place_that_names_them(plan):
    (used,) = plan("pipeline: [{unit: CoTUnit, prompt: '{source.q}'}]").plan.columns
    assert used.column == "q" and ":4:36:" in str(used.location)


# Casting


def casting(wanted: str, first: str = "response: {a: int, b: str}") -> str:
    return f"""
        pipeline:
          - {{unit: Unit, name: first, prompt: x, {first}}}
          - {{unit: CoTUnit, input: {wanted}, prompt: x}}
    """


@pytest.mark.parametrize(
    ("wanted", "first", "path", "cast_from"),
    [
        ("{a: int}", "response: {a: int, b: str}", ("previous", "first", "a"), ""),
        ("{a: float}", "response: {a: int, b: str}", ("previous", "first", "a"), ""),
        ("{other: int}", "response: {a: int, b: str}", ("previous", "first", "a"), "first.a"),
        ("{mark: {range: [1, 3], type: discrete}}", "response: {a: {type: discrete, range: [1, 3]}}", ("previous", "first", "a"), "first.a"),
        ("{rating: int}", "response: {a: likert, b: str}", ("previous", "first", "a"), "first.a"),
        ("{right: bool}", "response: {a: boolean, b: int}", ("previous", "first", "a"), "first.a"),
        ("{share: float}", "response: {a: {type: continuous, min: 0, max: 1}, b: likert}", ("previous", "first", "a"), "first.a"),
        ("{label: str}", "response: {a: {enum: [safe, unsafe]}, b: likert}", ("previous", "first", "a"), "first.a"),
        ("{grade: str}", "response: {a: {type: discrete, range: [a, e]}}", ("previous", "first", "a"), "first.a"),
        ("{exact: int}", "response: {a: likert, b: int}", ("previous", "first", "b"), "first.b"),
        ("{rating: {type: int, default: 0}}", "response: {a: likert}", ("previous", "first", "a"), "first.a"),
    ],
)  # fmt: skip
def test_an_input_field_is_cast_by_name_or_by_its_only_type(plan, wanted, first, path, cast_from):
    (cast,) = plan(casting(wanted, first)).plan.nodes[1].casts
    assert (cast.path, cast.from_field) == (path, cast_from)


@pytest.mark.parametrize(
    ("wanted", "first", "words"),
    [
        ("{other: float}", "response: {a: int, b: str}", "nothing fills the input field 'other'"),
        ("{other: float}", "response: {a: likert}", "nothing fills the input field 'other'"),
        ("{other: int}", "response: {a: likert, b: likert}", "several fields could fill the input field 'other': first.a, first.b"),
        ("{other: int}", "response: {a: int, b: int}", "several fields could fill the input field 'other': first.a, first.b"),
        ("{a: str}", "response: {a: int, b: str}", "'a' is to be str, but first gives int"),
        ("{mark: {type: discrete, range: [1, 5]}}", "response: {a: {type: discrete, range: [1, 3]}}", "nothing fills"),
    ],
)  # fmt: skip
def test_an_input_field_that_none_or_several_fill_is_refused(refusal, wanted, first, words):
    problem = refusal(casting(wanted, first))
    assert (
        problem.code == "bad-input"
        and words in problem.message
        and problem.path.startswith("pipeline[1].input.")
    )


def test_an_input_field_at_the_root_is_the_rows_column(plan):
    compiled = plan("pipeline: [{unit: CoTUnit, input: {q: str}, prompt: '{input.q}'}]").plan
    assert compiled.nodes[0].casts[0].path == ("source", "q") and [
        used.column for used in compiled.columns
    ] == ["q"]


def test_an_input_field_at_the_root_fits_the_columns_type(refusal):
    problem = refusal(
        "dataset: {schema: {q: str}}\npipeline: [{unit: CoTUnit, input: {q: int}, prompt: x}]"
    )
    assert "'q' is to be int, but the column is str" in problem.message


def test_a_conversation_is_the_rows_at_the_start_and_then_handed_on(plan):
    compiled = plan(
        """
        pipeline:
          - layer:
              - {unit: ConversationalUnit, role_name: A, prompt: "{input.conversation}"}
              - {unit: DebateUnit, role_name: B, stance: no, prompt: x}
            inner: chain
        """
    ).plan
    assert [node.casts[0].path for node in compiled.nodes] == [
        ("source", "conversation"),
        ("previous", "conversational", "conversation"),
    ]
    assert compiled.columns == ()


# Pins


def test_a_pinned_unit_is_marked(plan):
    compiled = plan(
        "pipeline: [{unit: RubricUnit, pin: true, prompt: x}, {unit: CoTUnit, prompt: '{source.q}'}]"
    ).plan
    assert [node.pinned for node in compiled.nodes] == [True, False]


@pytest.mark.parametrize(
    "prompt", ["'{source.q}'", "{jinja: '{% for x in source %}{{ x }}{% endfor %}'}", "'{source}'"]
)
def test_a_pinned_unit_that_uses_the_row_is_refused(refusal, prompt):
    problem = refusal(f"pipeline: [{{unit: CoTUnit, pin: true, prompt: {prompt}}}]")
    assert problem.code == "pinned-uses-row" and "source" in problem.message


def test_a_pinned_unit_that_uses_one_that_is_not_is_refused(refusal):
    problem = refusal(
        """
        pipeline:
          - {unit: CoTUnit, prompt: x}
          - {unit: JudgeUnit, pin: true, prompt: "{previous.thinking}"}
        """
    )
    assert problem.code == "pinned-uses-row" and "'cot'" in problem.message and problem.line == 6


def test_a_pinned_block_pins_its_units(plan):
    compiled = plan(
        "pipeline: [{block: [{unit: CoTUnit, prompt: x}, {unit: JudgeUnit, prompt: x}], pin: true}]"
    ).plan
    assert all(node.pinned for node in compiled.nodes)


# Unused outputs


def test_an_output_that_nobody_uses_is_warned_of_once_for_all_copies(plan):
    (warning,) = plan(
        """
        pipeline:
          - layer: [{unit: CoTUnit, prompt: '{source.q}'}]
            repeat: 2
          - {unit: JudgeUnit, prompt: x}
        """
    ).warnings
    assert warning.code == "unused" and "'cot[0]', 'cot[1]'" in warning.message
    assert (warning.line, warning.path) == (5, "pipeline[0].layer[0]")


@pytest.mark.parametrize(
    "after",
    [
        "{unit: JudgeUnit, prompt: '{previous.thinking}'}",
        "{unit: JudgeUnit, prompt: {jinja: '{{ previous.cot.thinking }}'}}",
        "{unit: MapUnit, map: {a: 'outputs | length'}}",
        "{unit: JudgeUnit, prompt: x, propagate: {a: previous.thinking}}",
        "{unit: JudgeUnit, prompt: x, input: {thinking: str}}",
    ],
)
def test_an_output_that_somebody_uses_is_not_warned_of(plan, after):
    assert plan(f"pipeline: [{{unit: CoTUnit, prompt: '{{source.q}}'}}, {after}]").warnings == ()


def test_an_output_that_an_evaluation_uses_is_not_warned_of(plan):
    text = """
        pipeline: [{unit: CoTUnit, prompt: '{source.q}'}, {unit: JudgeUnit, prompt: x}]
        evaluate: {a: {value: "nodes['cot'].thinking | length", metrics: [mean]}}
    """
    assert plan(text).warnings == ()


def test_literal_braces_that_look_like_a_placeholder_are_warned_of(plan):
    (warning,) = plan("pipeline: [{unit: CoTUnit, prompt: '{sources.x} {source.q}'}]").warnings
    assert warning.code == "suspicious" and warning.path == "pipeline[0].prompt"


@pytest.mark.parametrize(
    ("steps", "warned"),
    [
        ("[{unit: JudgeUnit, prompt: Rate this answer.}]", True),
        (
            "[{unit: CoTUnit, prompt: Think.}, {unit: JudgeUnit, prompt: 'Rate {previous.thinking}'}]",
            True,
        ),
        (
            "[{unit: CoTUnit, prompt: 'Think of {source.a}'}, {unit: JudgeUnit, prompt: 'Rate {previous.thinking}'}]",
            False,
        ),
        (
            "[{unit: MapUnit, map: {b: source.a}}, {unit: JudgeUnit, prompt: 'Rate {previous.b}'}]",
            False,
        ),
        ("[{unit: JudgeUnit, input: {x: source.a}, prompt: 'Rate {input.x}'}]", False),
        ("[{unit: JudgeUnit, prompt: {jinja: 'Rate {{ source.a }}'}}]", False),
        ("[{unit: PairwiseJudgeUnit, options: [source.a, source.b]}]", False),
        (
            "[{unit: RubricUnit, pin: true, prompt: x}, {unit: CoTUnit, prompt: '{source.q}'}]",
            False,
        ),
    ],
)
def test_a_pipeline_whose_prompts_show_nothing_of_the_row_is_warned_of(plan, steps, warned):
    codes = [warning.code for warning in plan(f"pipeline: {steps}").warnings]
    assert ("same-prompt" in codes) is warned
