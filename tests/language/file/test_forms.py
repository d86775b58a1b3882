"""A value of another form than expected: the message says how to write it, and what is written so is accepted."""

import pytest

WHOLE = """verdict: 1
name: g
model: baseline/lexical
pipeline:
  - {unit: JudgeUnit, name: j, scale: boolean, prompt: "Is {source.text} right?"}
evaluate:
  right: {prediction: output.score, target: source.target, metrics: [accuracy]}
gates:
  - {metric: right.accuracy, min: 0.5}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "hint"),
    [
        ("metrics: [accuracy]", "metrics: accuracy", "write `[accuracy]`"),
        ("  - {unit", "  {unit", "begin each entry of `pipeline` with `- `"),
        ("metric: right.accuracy", "metric: accuracy", "write `right.accuracy`"),
        ("verdict: 1\n", "", "write `verdict: 1`"),
        ("  right: {pred", "  - {pred", "give each entry of `evaluate` a name"),
        (
            "name: g\n",
            "name: g\ndataset: data.jsonl\n",
            "remove it: the data is an argument of the command",
        ),
    ],
)
def test_a_value_of_another_form_says_how_to_write_it(right, wrong, hint, shell):
    assert shell("validate", shell.write("right.yaml", WHOLE)).code == 0
    assert WHOLE.count(right) == 1
    done = shell("validate", shell.write("wrong.yaml", WHOLE.replace(right, wrong)))
    assert (done.code, hint in done.err) == (2, True), done.err


def test_of_several_evaluations_a_bare_metric_names_none(shell):
    two = WHOLE.replace("gates:", "  other: {value: output.score}\ngates:")
    wrong = two.replace("metric: right.accuracy", "metric: accuracy")
    done = shell("validate", shell.write("wrong.yaml", wrong))
    assert (done.code, "write `EVALUATION.accuracy`" in done.err) == (2, True), done.err


PLAIN_VALUE = "expected a text or a number or true or false"


@pytest.mark.parametrize(
    ("right", "wrong", "path", "reason"),
    [
        (
            "target: source.target",
            "target: source.target, positive: [a]",
            "evaluate.right.positive",
            f"{PLAIN_VALUE}, found a list",
        ),
        (
            "scale: boolean",
            "scale: {values: [null, a]}",
            "pipeline[0].scale.values[0]",
            f"{PLAIN_VALUE}, found nothing",
        ),
        (
            "min: 0.5}",
            "min: 0.5, where: {source.a: [1]}}",
            "gates[0].where['source.a']",
            f"{PLAIN_VALUE}, found a list",
        ),
        (
            "min: 0.5}",
            "min: 0.5, where: {1: a}}",
            "gates[0].where[1]",
            "expected a text, found 1",
        ),
        (
            "prediction: output.score, target: source.target, metrics: [accuracy]",
            "panel: 3",
            "evaluate.right.panel",
            "expected a text or a list, found 3",
        ),
        (
            "prediction: output.score, target: source.target, metrics: [accuracy]",
            "panel: [output.score, 3]",
            "evaluate.right.panel[1]",
            "expected a text, found 3",
        ),
        (
            "prediction: output.score, target: source.target, metrics: [accuracy]",
            "panel: [output.score]",
            "evaluate.right.panel",
            "at least 2 expected, found 1",
        ),
    ],
)
def test_a_value_that_has_none_of_several_forms_is_one_problem(right, wrong, path, reason, shell):
    text = WHOLE.replace(right, wrong)
    problems = shell("validate", shell.write("wrong.yaml", text), "--json").json()["errors"]
    of_value = [problem for problem in problems if problem["path"].startswith(path)]
    assert [problem["path"] for problem in of_value] == [path], problems
    assert reason in of_value[0]["message"]


@pytest.mark.parametrize(
    ("right", "wrong", "path", "consequence"),
    [
        (
            "scale: boolean",
            "scale: {range: [5]}",
            "pipeline[0].scale.range",
            "pipeline[0].scale",
        ),
        (
            "scale: boolean",
            "scale: {values: [a, b], scores: {a: 1, b: x}}",
            "pipeline[0].scale.scores.b",
            "pipeline[0].scale.scores",
        ),
        (
            "prediction: output.score, target: source.target, metrics: [accuracy]",
            "value: 3",
            "evaluate.right.value",
            "evaluate.right",
        ),
        (
            "metrics: [accuracy]",
            "metrics: [accuracy], group: source.id, reduce: max",
            "evaluate.right.reduce",
            "evaluate.right.group",
        ),
        (
            "evaluate:",
            "  - {unit: MapUnit, map: {a: 3}}\nevaluate:",
            "pipeline[1].map.a",
            "pipeline[1].map",
        ),
    ],
)
def test_what_a_wrong_value_leaves_missing_is_no_second_problem(
    right, wrong, path, consequence, shell
):
    text = WHOLE.replace(right, wrong)
    problems = shell("validate", shell.write("wrong.yaml", text), "--json").json()["errors"]
    paths = [problem["path"] for problem in problems]
    assert (path in paths, consequence in paths) == (True, False), problems


def test_a_prompt_that_is_missing_beside_a_wrong_value_is_told_too(shell):
    unit = "{unit: JudgeUnit, name: j, explanation: 3, scale: boolean}"
    steps = WHOLE.partition("  - {unit")[0] + f"  - {unit}\n"
    problems = shell("validate", shell.write("wrong.yaml", steps), "--json").json()["errors"]
    assert {problem["path"] for problem in problems} == {"pipeline[0].explanation", "pipeline[0]"}


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        (
            "right: {prediction: output.score, target: source.target, metrics: [accuracy]}",
            "right: []",
            "Evaluation",
        ),
        ("metrics: [accuracy]", "metrics: [accuracy], gold: source.g", "Gold"),
        ("{metric: right.accuracy, min: 0.5}", "3", "Gate"),
    ],
)
def test_a_value_in_place_of_a_mapping_names_what_is_explained(right, wrong, name, shell):
    done = shell("validate", shell.write("wrong.yaml", WHOLE.replace(right, wrong)))
    assert f"`verdict explain {name}` lists them" in done.err
    assert shell("explain", name).code == 0


def test_an_evaluation_that_a_gate_names_without_a_metric_is_told(shell):
    wrong = WHOLE.replace("metric: right.accuracy", "metric: right")
    done = shell("validate", shell.write("wrong.yaml", wrong))
    assert "'right' is an evaluation, and the gate names none of its metrics" in done.err
    assert "write `right.METRIC`" in done.err


def test_a_gate_with_capitals_is_not_taken_for_a_bare_metric(shell):
    wrong = WHOLE.replace("metric: right.accuracy", "metric: right.Accuracy")
    done = shell("validate", shell.write("wrong.yaml", wrong))
    assert done.code == 2
    assert "names no evaluation" not in done.err
