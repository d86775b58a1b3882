"""Metrics of the entries of a unit under `each`: what their expressions may name, and a run that is measured by them."""

import json

import pytest

from verdict_cli import Pipeline
from verdict_cli.stats.measure import measure

EACH = """
dataset: {schema: {claims: "list[{text: str, label: bool, kind: str}]"}}
pipeline:
  - each: source.claims
    as: claim
    unit: JudgeUnit
    name: check
    scale: boolean
    prompt: "{claim.text}"
  - {unit: MeanPoolUnit, field: score}
"""
EVALUATE = """
evaluate:
  claims:
    items: check
    prediction: output.score
    target: claim.label
    by: [claim.kind, index]
    where: source.ready
    metrics: [accuracy]
gates:
  - {metric: claims.accuracy, min: 0.5, where: {claim.kind: a}}
"""


def test_an_entry_its_index_the_units_output_and_the_row_can_be_named(
    plan,
):
    built = plan(EACH + EVALUATE)
    assert built.plan.evaluations["claims"].items == "check"
    assert "ready" in {column.column for column in built.plan.columns}
    assert built.warnings == ()


@pytest.mark.parametrize(
    ("old", "new", "message", "path"),
    [
        ("items: check", "items: chek", "there is no unit 'chek'", "evaluate.claims.items"),
        ("items: check", "items: mean_pool", "is not inside an `each`", "evaluate.claims.items"),
        (
            "target: claim.label",
            "target: claim.lable",
            "claim has no field 'lable'",
            "evaluate.claims.target",
        ),
        (
            "prediction: output.score",
            "prediction: output.scor",
            "has no field 'scor'",
            "evaluate.claims.prediction",
        ),
        ("claim.kind, index", "clam.kind, index", "unknown name `clam`", "evaluate.claims.by[0]"),
        ("{claim.kind: a}", "{claim.kin: a}", "has no field 'kin'", "gates[0].where['claim.kin']"),
        ("    items: check\n", "", "unknown name `claim`", "evaluate.claims.target"),
        (
            "metrics: [accuracy]",
            "metrics: [accuracy, spearman]",
            "needs an order",
            "evaluate.claims.metrics[1]",
        ),
    ],
)
def test_what_is_not_there_is_an_error_before_the_run(
    refused,
    plan,
    old,
    new,
    message,
    path,
):
    problems = {
        (problem.path, message in problem.message)
        for problem in refused(EACH + EVALUATE.replace(old, new))
    }
    assert (path, True) in problems


def test_of_several_units_of_one_name_one_is_named(refusal, plan):
    layer = """
        pipeline:
          - each: source.claims
            layer: [{unit: JudgeUnit, name: check, scale: boolean, prompt: "{item}"}]
            repeat: 2
          - {unit: MeanPoolUnit, field: score}
        evaluate: {claims: {items: check, value: output.score, metrics: [mean]}}
        """
    assert refusal(layer).hint == "say which: check[0], check[1]"
    assert (
        plan(layer.replace("items: check", "items: 'check[1]'")).plan.evaluations["claims"].items
        == "check[1]"
    )


def test_outside_of_items_the_output_of_a_unit_under_each_is_a_list(plan, refusal):
    rows = "evaluate: {first: {value: 'nodes.check.score[0]', metrics: [mean]}}\n"
    assert plan(EACH + rows).plan.evaluations["first"].items is None
    assert "has no part 'a'" in refusal(EACH + rows.replace("[0]", ".a")).message


def test_a_run_is_measured_entry_by_entry(tmp_path, scripted_model):
    scripted_model.answer = lambda request: json.dumps(
        {"score": request.messages[-1].content.startswith("yes")}
    )
    claims = [
        [("yes", True, "a"), ("no", True, "b")],
        [("yes", False, "a")],
        [("no", False, "b"), ("yes 2", True, "b")],
    ]
    rows = [
        {
            "ready": index < 3,
            "claims": [{"text": text, "label": label, "kind": kind} for text, label, kind in row],
        }
        for index, row in enumerate(claims)
    ]
    pipeline = Pipeline.from_yaml("verdict: 1\nname: x\nmodel: m\n" + EACH + EVALUATE)
    pipeline.run_dataset(rows, tmp_path / "run")
    measures = measure(pipeline.plan().evaluations, tmp_path / "run" / "results.parquet")["claims"]
    accuracy = measures.values["accuracy"]
    assert (measures.rows, accuracy.value, accuracy.n, accuracy.clusters) == (
        5,
        pytest.approx(3 / 5),
        5,
        3,
    )
    assert {
        kind: values["accuracy"].value for kind, values in measures.groups["claim.kind"].items()
    } == {
        "a": pytest.approx(1 / 2),
        "b": pytest.approx(2 / 3),
    }
    assert {place: values["accuracy"].n for place, values in measures.groups["index"].items()} == {
        "0": 3,
        "1": 2,
    }


def test_an_entry_that_when_skips_is_left_out(tmp_path, scripted_model):
    scripted_model.answer = lambda request: (
        "unreadable" if "odd" in request.messages[-1].content else '{"score": true}'
    )
    text = EACH.replace(
        "    prompt:", "    when: claim.kind == 'a'\n    on_failure: skip\n    prompt:"
    )
    kinds = [("x", "a"), ("x", "b"), ("odd", "a")]
    rows = [
        {
            "ready": True,
            "claims": [{"text": text, "label": True, "kind": kind} for text, kind in kinds],
        }
    ]
    pipeline = Pipeline.from_yaml(
        "verdict: 1\nname: x\nmodel: {name: m, retries: 0}\n" + text + EVALUATE
    )
    pipeline.run_dataset(rows, tmp_path / "run")
    measures = measure(pipeline.plan().evaluations, tmp_path / "run" / "results.parquet")["claims"]
    assert (measures.rows, measures.missing, measures.coverage) == (2, 1, 0.5)


def test_a_prompt_that_shows_the_label_of_its_entry_is_warned_of(
    plan,
):
    for placeholder in ("claim.label", "claim"):
        (warning,) = plan(EACH.replace("{claim.text}", f"{{{placeholder}}}") + EVALUATE).warnings
        assert (
            "the prompt shows `claim.label`, which is the target of `evaluate.claims`"
            in warning.message
        )


def test_a_row_whose_each_is_skipped_is_left_out(tmp_path, scripted_model):
    scripted_model.answer = lambda _: '{"score": true}'
    text = EACH.replace("    as: claim\n", "    as: claim\n    when: source.ready\n")
    claim = {"text": "x", "label": True, "kind": "a"}
    rows = [
        {"ready": True, "claims": [claim]},
        {"ready": False, "claims": [claim, claim]},
        {"ready": True, "claims": []},
    ]
    evaluate = EVALUATE.replace("    where: source.ready\n", "")
    pool = text.replace("field: score}", "field: score, empty: 0}")
    pipeline = Pipeline.from_yaml("verdict: 1\nname: x\nmodel: m\n" + pool + evaluate)
    pipeline.run_dataset(rows, tmp_path / "run")
    measures = measure(pipeline.plan().evaluations, tmp_path / "run" / "results.parquet")["claims"]
    assert (measures.rows, measures.missing, measures.coverage) == (1, 0, 1.0)
