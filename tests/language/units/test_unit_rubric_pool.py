"""Rubrics: the points that criteria earn."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli import JudgeUnit, Layer, Pipeline, RubricPoolUnit
from verdict_cli.errors import RowError, SpecError, UsageError
from verdict_cli.language.units.pools import RubricPoolUnit as RubricPool

HEAD = "verdict: 1\nname: x\nmodel: {name: m, retries: 0}\n"
LAYER = """
pipeline:
  - layer:
      - {unit: JudgeUnit, name: judge, scale: boolean, prompt: "A {source.x}", on_failure: skip}
      - {unit: JudgeUnit, name: judge, scale: boolean, prompt: "B {source.x}", on_failure: skip}
      - {unit: JudgeUnit, name: judge, scale: boolean, prompt: "C {source.x}", on_failure: skip}
"""
GRADES = st.lists(st.tuples(st.integers(-20, 20), st.sampled_from([0.0, 0.5, 1.0])), max_size=12)


@settings(deadline=None)
@given(GRADES)
def test_the_score_is_the_points_earned_over_the_positive_points(
    grades,
):
    points, met = [worth for worth, _ in grades], [share for _, share in grades]
    earned = sum(Fraction(worth) * Fraction(share) for worth, share in grades)
    possible = sum(worth for worth in points if worth > 0)
    unit = RubricPool(points="c.points")
    if not possible:
        with pytest.raises(RowError, match="criteria has positive points"):
            unit.grade(points, met)
        return
    score = min(max(float(earned / possible), 0.0), 1.0)
    assert unit.grade(points, met) == {
        "score": pytest.approx(score),
        "earned": float(earned),
        "possible": possible,
        "count": len(grades),
    }
    wide = RubricPool(points="c.points", clip=(-100, 100)).grade(points, met)["score"]
    assert wide == pytest.approx(float(earned / possible))


def test_sums_are_exact_to_the_last_digit():
    assert RubricPool(points="p").grade([0.1] * 10, [1.0] * 10)["earned"] == 1.0
    assert math.isclose(RubricPool(points="p").grade([1e16, 1, -1e16], [1, 1, 1])["earned"], 1.0)


def run(
    tmp_path: Path,
    scripted_model: Any,
    met: dict[str, bool],
    pool: str,
    row: dict[str, Any] | None = None,
) -> Any:
    """The output of three judged criteria A, B and C; one that is not in ``met`` has no judgement."""

    def answer(request: Any) -> str:
        name = request.messages[-1].content[0]
        return json.dumps({"score": met[name]}) if name in met else "unreadable"

    scripted_model.answer = answer
    (tmp_path / "p.yaml").write_text(HEAD + LAYER + f"  - {{unit: RubricPoolUnit, {pool}}}\n")
    return Pipeline.from_yaml(tmp_path / "p.yaml").run(row or {"x": "x", "points": [5, 3, -4]})


def test_points_are_an_expression_over_the_place_and_the_row(tmp_path, scripted_model):
    met = {"A": True, "B": False, "C": True}
    output = run(tmp_path, scripted_model, met, 'points: "source.points[index]"')
    assert dict(output) == {"score": 1 / 8, "earned": 1.0, "possible": 8.0, "count": 3}
    assert run(tmp_path, scripted_model, met, 'points: "[1, 0, -9][index]"').score == 0.0
    assert (
        run(tmp_path, scripted_model, met, 'points: "[1, 0, -9][index]", clip: [-9, 1]').score
        == -8.0
    )


def test_a_missing_judgement_fails_counts_as_not_met_or_is_left_out(tmp_path, scripted_model):
    met = {"A": True, "C": False}
    pool = 'points: "source.points[index]"'
    with pytest.raises(RowError, match="criterion 1 has no 'score'"):
        run(tmp_path, scripted_model, met, pool)
    assert dict(run(tmp_path, scripted_model, met, f"{pool}, on_missing: zero")) == {
        "score": 5 / 8, "earned": 5.0, "possible": 8.0, "count": 3,
    }  # fmt: skip
    assert dict(run(tmp_path, scripted_model, met, f"{pool}, on_missing: ignore")) == {
        "score": 1.0, "earned": 5.0, "possible": 5.0, "count": 2,
    }  # fmt: skip
    with pytest.raises(RowError, match="criteria has positive points"):
        run(tmp_path, scripted_model, {"C": True}, f"{pool}, on_missing: ignore")
    assert run(tmp_path, scripted_model, {}, f"{pool}, on_missing: zero").score == 0
    assert run(tmp_path, scripted_model, met, f"{pool}, on_missing: zero, quorum: 2").score == 5 / 8
    with pytest.raises(RowError, match="2 of 3 criteria have a judgement, the quorum is 3"):
        run(tmp_path, scripted_model, met, f"{pool}, on_missing: zero, quorum: 3")


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([5, "three", -4], "criterion 1 is 'three', not a number"),
        ([5, True, -4], "not a number"),
        ([-1, 0, -4], "has positive points"),
    ],
)
def test_points_that_are_no_numbers_or_not_positive_fail_the_row(
    tmp_path, scripted_model, points, message
):
    row = {"x": "x", "points": points}
    with pytest.raises(RowError, match=message):
        run(
            tmp_path,
            scripted_model,
            dict.fromkeys("ABC", True),
            'points: "source.points[index]"',
            row,
        )


def test_a_number_beyond_one_fails_the_row(scripted_model):
    judge = JudgeUnit(scale="boolean").prompt("{source.x}").propagate(met="source.met")
    pipeline = Pipeline("p", model="m") >> Layer([judge], 2) >> RubricPoolUnit("1.0", field="met")
    scripted_model.answer = lambda _: '{"score": true}'
    assert pipeline.run({"x": "x", "met": 0.25}).score == 0.25
    with pytest.raises(RowError, match="neither a boolean nor a number from 0 to 1"):
        pipeline.run({"x": "x", "met": 2})


def test_scores_of_words_are_how_far_a_criterion_is_met(scripted_model):
    scale = {"values": ["no", "partly", "yes"], "scores": {"no": 0, "partly": 0.5, "yes": 1}}
    judge = f"{{unit: JudgeUnit, name: j, explanation: true, scale: {json.dumps(scale)}, prompt: 'J {{source.x}}'}}"
    text = f"{HEAD}pipeline:\n  - {judge}\n  - {{unit: RubricPoolUnit, points: '2'}}\n"
    scripted_model.answer = lambda _: '{"explanation": "e", "score": "partly"}'
    assert Pipeline.from_yaml(text).run({"x": "x"}).score == 0.5


@pytest.mark.parametrize(
    ("judge", "pool", "message"),
    [
        ("scale: likert", "points: '1'", "is a boolean or a number from 0 to 1"),
        ("scale: likert", "points: '1', field: score", "not a boolean or from 0 to 1"),
        ("scale: boolean", "points: '1', field: scor", "gives no 'scor'"),
        ("scale: boolean, response: {seen: bool}", "points: '1'", "several fields could say"),
        ("scale: boolean", "points: '1', fields: [score]", "has one judgement for each criterion"),
        ("scale: boolean", "points: '1', clip: [1, 0]", "is not below"),
        ("scale: boolean", "points: \"'one'\"", "is of type str"),
        ("scale: boolean", "points: criterion.points", "criterion"),
        ("scale: boolean", "clip: [0, 1]", "points"),
    ],
)
def test_a_rubric_that_cannot_be_pooled_is_an_error(judge, pool, message):
    text = f"{HEAD}pipeline:\n  - {{unit: JudgeUnit, prompt: x, {judge}}}\n  - {{unit: RubricPoolUnit, {pool}}}\n"
    with pytest.raises(SpecError, match=message):
        Pipeline.from_yaml(text).plan()


def test_the_score_is_on_the_scale_of_clip():
    text = f"{HEAD}pipeline:\n  - {{unit: JudgeUnit, prompt: x, scale: boolean}}\n  - {{unit: RubricPoolUnit, points: '1'}}\n"
    output = Pipeline.from_yaml(text).plan().nodes[-1].output
    assert {name: kind.type_name() for name, kind in output.fields.items()} == {
        "score": "continuous scale 0 to 1", "earned": "float", "possible": "float", "count": "int",
    }  # fmt: skip


def test_from_python_it_is_the_same_unit():
    judges = Layer([JudgeUnit(scale="boolean").prompt("{source.x}")], 3)
    unit = RubricPoolUnit(
        "[3, 2, 1][index]", field="score", clip=(0, 2), on_missing="zero", name="total"
    )
    pipeline = Pipeline("p", model="m") >> judges >> unit
    again = Pipeline.from_yaml(pipeline.to_yaml())
    assert again.fingerprint == pipeline.fingerprint
    assert "on_missing: zero" in pipeline.to_yaml()
    other = Pipeline("p", model="m") >> judges >> RubricPoolUnit("[3, 2, 2][index]", field="score")
    assert other.fingerprint != pipeline.fingerprint
    with pytest.raises(UsageError, match="points"):
        RubricPoolUnit()
    with pytest.raises(UsageError, match="on_mising"):
        RubricPoolUnit("1", on_mising="zero")  # type: ignore[call-arg]


EACH = """
pipeline:
  - each: source.rubric
    as: criterion
    unit: JudgeUnit
    name: grade
    scale: boolean
    on_failure: skip
    prompt: "{criterion.text} {index}"
"""


def grade(text: str, scripted_model: Any, row: dict[str, Any]) -> Any:
    """The output for a row whose criteria say in their text whether they are met: yes, no, or nothing readable."""
    replies = {"yes": '{"score": true}', "no": '{"score": false}'}
    scripted_model.answer = lambda request: replies.get(
        request.messages[-1].content.split()[0], "unreadable"
    )
    return Pipeline.from_yaml(HEAD + text).run(row)


def criteria(*pairs: tuple[str, float]) -> list[dict[str, Any]]:
    return [{"text": text, "points": points} for text, points in pairs]


def test_points_are_those_of_the_entry_that_was_judged(scripted_model):
    text = EACH + "  - {unit: RubricPoolUnit, points: criterion.points}\n"
    row = {"rubric": criteria(("yes", 5), ("no", 3), ("yes", -4), ("yes", 2))}
    assert dict(grade(text, scripted_model, row)) == {
        "score": pytest.approx(3 / 10), "earned": 3.0, "possible": 10.0, "count": 4,
    }  # fmt: skip
    weighted = (
        EACH + '  - {unit: RubricPoolUnit, points: "criterion.points * (index + source.from)"}\n'
    )
    assert grade(weighted, scripted_model, {**row, "from": 1}).earned == 5 - 12 + 8


def test_an_entry_without_a_judgement_is_named_by_its_number(scripted_model):
    row = {"rubric": criteria(("yes", 5), ("what", 3), ("no", 2))}
    with pytest.raises(RowError, match="criterion 1 has no 'score'"):
        grade(EACH + "  - {unit: RubricPoolUnit, points: criterion.points}\n", scripted_model, row)
    scores = {
        kind: grade(
            EACH + f"  - {{unit: RubricPoolUnit, points: criterion.points, on_missing: {kind}}}\n",
            scripted_model,
            row,
        ).score
        for kind in ("zero", "ignore")
    }
    assert scores == {"zero": 0.5, "ignore": pytest.approx(5 / 7)}


def test_an_empty_rubric_fails_its_row_or_is_what_empty_says(scripted_model):
    pool = "  - {unit: RubricPoolUnit, points: criterion.points%s}\n"
    with pytest.raises(RowError, match="list of `each` is empty"):
        grade(EACH + pool % "", scripted_model, {"rubric": []})
    assert grade(EACH + pool % ", empty: 0", scripted_model, {"rubric": []}).score == 0


def test_a_tree_of_criteria_is_pooled_leaf_by_leaf_with_the_names_of_its_branches(
    scripted_model,
):
    text = """
pipeline:
  - each: source.sections
    as: section
    block:
      - each: section.rubric
        as: leaf
        unit: JudgeUnit
        name: grade
        scale: boolean
        prompt: "{leaf.text} {section.name}"
  - {unit: RubricPoolUnit, points: section.weight * leaf.points}
"""
    sections = [
        {"name": "a", "weight": 0.75, "rubric": criteria(("yes", 1), ("no", 3))},
        {"name": "b", "weight": 0.25, "rubric": criteria(("yes", 1))},
    ]
    output = grade(text, scripted_model, {"sections": sections})
    assert (output.earned, output.possible, output.count) == (1.0, 3.25, 3)
    inner = text.replace("  - {unit: RubricPool", "      - {unit: RubricPool").replace(
        "section.weight * ", ""
    )
    nested = inner + "  - {unit: MeanPoolUnit, field: score}\n"
    assert grade(nested, scripted_model, {"sections": sections}).score == pytest.approx(
        (1 / 4 + 1) / 2
    )


def test_types_of_entries_are_checked_before_the_run():
    head = HEAD + 'dataset: {schema: {rubric: "list[{text: str, points: float}]"}}\n' + EACH
    for points, message in (
        ("criterion.pionts", "did you mean 'points'"),
        ("criterion.text", "is of type str"),
    ):
        with pytest.raises(SpecError, match=message):
            Pipeline.from_yaml(f"{head}  - {{unit: RubricPoolUnit, points: {points}}}\n").plan()


def test_a_criterion_that_when_skips_is_left_out_with_its_points(scripted_model):
    text = EACH.replace("    prompt:", "    when: criterion.points != 3\n    prompt:")
    row = {"rubric": criteria(("yes", 5), ("yes", 3), ("no", 2))}
    output = grade(
        text + "  - {unit: RubricPoolUnit, points: criterion.points}\n", scripted_model, row
    )
    assert (output.earned, output.possible, output.count) == (5.0, 7.0, 2)


def test_a_layer_inside_an_entry_is_numbered_by_itself(scripted_model):
    text = """
pipeline:
  - each: source.rubric
    as: criterion
    block:
      - layer: [{unit: JudgeUnit, name: grade, scale: boolean, prompt: "{criterion.text}"}]
        repeat: 3
      - {unit: RubricPoolUnit, points: "[criterion.points, 1, 0][index]"}
  - {unit: MeanPoolUnit, field: possible}
"""
    assert grade(text, scripted_model, {"rubric": criteria(("yes", 5), ("no", 3))}).possible == 5.0


def test_points_that_are_too_large_for_a_sum_fail_their_row_alone():
    with pytest.raises(RowError, match="too large"):
        RubricPool(points="c.points").grade([1e308, 1e308], [1.0, 1.0])
