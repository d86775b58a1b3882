"""Which probes apply to a pipeline, and what each expects."""

from __future__ import annotations

import pytest

from verdict_cli.errors import UsageError
from verdict_cli.features.audit.options import AuditOptions
from verdict_cli.features.audit.probes import (
    Probe,
    find_judged_columns,
    find_verdict,
    plan_audit,
)
from verdict_cli.messages import Row

SCORE = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.answer}'}"
PAIR = "- {unit: PairwiseJudgeUnit, name: judge, options: [source.one, source.two], prompt: 'A: {input.A} B: {input.B}'}"


def scored(scale: str) -> str:
    return SCORE.replace("name: judge", f"name: judge, scale: {scale}")


@pytest.mark.parametrize(
    ("scale", "best"),
    [
        ("{type: continuous, min: 0, max: 10}", 10),
        ("{type: continuous, min: 0, max: 10, end_is_worst: true}", 0),
        ("{type: continuous, min: -2, max: 3, end_is_worst: true}", -2),
        ("{type: discrete, range: [1, 5]}", 5),
        ("{type: discrete, range: [1, 5], end_is_worst: true}", 1),
        ("{type: discrete, values: [bad, good]}", None),
        ("{type: discrete, values: [bad, good], ordered: true}", "good"),
        ("{type: discrete, values: [none, some, much], end_is_worst: true}", "none"),
        ("boolean", True),
    ],
)
def test_the_best_value_of_a_scale_follows_its_direction(planned, scale, best):
    plan, _ = planned(scored(scale))
    assert find_verdict(plan, None).best == best


def test_categories_have_no_best_value(planned):
    plan, _ = planned(
        "- {unit: CategoricalJudgeUnit, name: judge, categories: [a, b], prompt: '{source.answer}'}"
    )
    verdict = find_verdict(plan, None)
    assert (verdict.text, verdict.field, verdict.best) == ("output.choice", "choice", None)


def test_an_expression_of_the_user_is_the_verdict(planned):
    plan, _ = planned(SCORE)
    assert find_verdict(plan, "output.score").field == "score"
    assert find_verdict(plan, "output.score > 3").field == "verdict"


def test_a_pipeline_of_several_outputs_needs_the_verdict(planned):
    plan, _ = planned(f"- layer:\n  {SCORE}\n  {SCORE.replace('judge', 'other')}")
    with pytest.raises(UsageError, match="several units") as caught:
        find_verdict(plan, None)
    assert "--verdict" in caught.value.hint


def test_a_pipeline_of_scores_has_its_probes_and_the_reasons_for_the_others(planned, tmp_path):
    plan, data = planned(SCORE)
    audit = plan_audit(plan, data, tmp_path, AuditOptions(), 0)
    assert [probe.name for probe in audit.probes] == [
        "repeated 1",
        "repeated 2",
        "length",
        "style",
        "scale reversed",
    ]
    assert set(audit.left_out) == {
        "position",
        "labels",
        "paraphrase",
        "self-preference",
        "attack",
        "degrade",
    }
    assert [probe.repeat for probe in audit.probes] == [1, 2, 0, 0, 0]
    assert {probe.goal for probe in audit.probes if probe.column} == {5}


def test_each_option_of_a_pair_is_changed_alone_and_its_author_prefers_its_letter(
    planned, tmp_path
):
    plan, data = planned(PAIR)
    audit = plan_audit(plan, data, tmp_path, AuditOptions(repeats=0, attack=True), 0)
    changed = {
        probe.name: probe.goal for probe in audit.probes if probe.cause in ("length", "style")
    }
    assert changed == {
        "length of one": "A",
        "length of two": "B",
        "style of one": "A",
        "style of two": "B",
    }
    attacks = [probe for probe in audit.probes if probe.cause == "attack"]
    assert {(probe.column, probe.goal) for probe in attacks} == {("two", "B")} and len(attacks) == 8
    assert audit.left_out["repeated"] == "--repeats is 0"
    assert audit.probes[0].cause == "position"


def test_a_goal_of_the_user_replaces_the_best_value(planned, tmp_path):
    plan, data = planned(SCORE)
    audit = plan_audit(plan, data, tmp_path, AuditOptions(attack=True, goal="3"), 0)
    assert {probe.goal for probe in audit.probes if probe.cause == "attack"} == {3}


def test_attacks_need_a_goal(planned, tmp_path):
    plan, data = planned(
        "- {unit: CategoricalJudgeUnit, name: j, categories: [a, b], prompt: '{source.answer}'}"
    )
    audit = plan_audit(plan, data, tmp_path, AuditOptions(attack=True), 0)
    assert "--goal" in audit.left_out["attack"]


@pytest.mark.parametrize(
    ("prompt", "options", "columns"),
    [
        ("{source.x}", (), ("x",)),
        ("{source.question} {source.answer}", (), ("answer",)),
        ("{source.question} {source.Response} {source.summary}", (), ("Response",)),
        ("{source.question} {source.answer}", ("question",), ("question",)),
        ("{source.q} {source.a}", (), ()),
        ("{source.ticket} {source.reply}", (), ("reply",)),
        ("{source.question} {source.model_answer}", (), ("model_answer",)),
        ("{source.human_answer} {source.model_answer}", (), ()),
        ("{source.user_question} {source.essay}", (), ("essay",)),
        ("{source.essay} {source.notes}", (), ()),
    ],
)
def test_the_judged_column_is_an_option_or_the_only_column_or_has_its_name(
    planned, prompt, options, columns
):
    plan, _ = planned(f"- {{unit: JudgeUnit, prompt: '{prompt}'}}")
    judged_columns, reason = find_judged_columns(plan, options)
    assert judged_columns == columns
    assert bool(reason) == (not columns)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (AuditOptions(text=["c"]), "no prompt uses source.c"),
        (AuditOptions(rename=["x=y"]), "--rename"),
        (AuditOptions(paraphrase=["nobody=f.txt"]), "no unit 'nobody'"),
        (AuditOptions(paraphrase=["judge=missing.txt"]), "cannot be read"),
    ],
)
def test_options_that_do_not_apply_are_refused(planned, tmp_path, options, message):
    plan, data = planned(SCORE)
    with pytest.raises(UsageError, match=message):
        plan_audit(plan, data, tmp_path, options, 0)


def test_a_probe_changes_only_the_text_of_its_column():
    probe = Probe("length", "length", column="a", change=lambda text: f"{text}!")
    row = Row(0, 0, {"a": "x", "b": "y"})
    assert probe.changed_row(row).source == {"a": "x!", "b": "y"}
    number = Row(0, 0, {"a": 1})
    assert probe.changed_row(number) is number
    assert Probe("repeated", "repeated", repeat=1).changed_row(row) is row


def test_repeats_are_numbered_like_further_copies_of_a_unit(planned):
    plan, _ = planned(f"- layer:\n  {SCORE}\n  repeat: 2\n- {{unit: MeanPoolUnit, name: mean}}")
    rename = Probe("repeated 2", "repeated", repeat=2).node_renaming(plan)
    assert rename is not None
    assert [rename(node.id) for node in plan.nodes] == ["judge[4]", "judge[5]", "mean[2]"]
    assert rename("other") == "other"
    assert Probe("style", "style").node_renaming(plan) is None
