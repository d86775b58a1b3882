"""The keys of `evaluate:` and `gates:`: the schema says what the model says, and the rest is said in words."""

import jsonschema
import pytest
from pydantic import ValidationError

from verdict_cli.language import evaluations
from verdict_cli.language.evaluations import Evaluation, Published
from verdict_cli.language.gate_rules import Gate, gate_problems
from verdict_cli.language.json_schema import schema_of

PAIR = {"prediction": "output.score", "target": "source.label"}


def agrees(model, value):
    """Whether the model takes the value; fails when its JSON Schema says otherwise."""
    try:
        model.model_validate(value)
        is_valid = True
    except ValidationError:
        is_valid = False
    schema = jsonschema.Draft202012Validator(schema_of(model))
    assert schema.is_valid(value) == is_valid, value
    return is_valid


@pytest.mark.parametrize(
    "value",
    [
        PAIR,
        PAIR
        | {
            "positive": 1,
            "metrics": ["f1"],
            "by": ["source.type"],
            "missing": "wrong",
            "kind": "ordinal",
        },
        PAIR
        | {
            "positive": True,
            "group": "source.g",
            "reduce": {"prediction": "max", "target": "first"},
        },
        {
            "panel": ["nodes.a.score", "nodes.b.score"],
            "metrics": ["krippendorff_alpha", "effective_judges"],
        },
        {"panel": "judge.score", "target": "source.label"},
        {
            "prediction": "output.choice",
            "consistent": "output.consistent",
            "options": ["source.a", "source.b"],
        },
        {"value": "output.x", "metrics": ["mean"], "where": "source.a == 1", "cluster": "source.d"},
        {
            "probability": "output.p",
            "target": "source.label",
            "positive": 0.5,
            "published": "table.yaml",
        },
    ],
)
def test_a_well_formed_evaluation_is_taken(value):
    assert agrees(Evaluation, value)


@pytest.mark.parametrize(
    "value",
    [
        PAIR | {"metrics": ["acuracy"]},
        PAIR | {"metrics": []},
        PAIR | {"by": 5},
        PAIR | {"missing": "skip"},
        PAIR | {"reduce": {"prediction": "sum"}},
        PAIR | {"kappa": True},
        PAIR | {"prediction": ""},
        PAIR | {"positive": ["a"]},
        {"panel": ["nodes.a.score"]},
        PAIR | {"options": ["source.a"]},
    ],
)
def test_a_malformed_evaluation_is_refused(value):
    assert not agrees(Evaluation, value)


@pytest.mark.parametrize(
    ("value", "is_valid"),
    [
        ({"metric": "safety.accuracy", "min": 0.9, "confidence": 0.95}, True),
        (
            {"metric": "safety.accuracy", "min": 1, "where": {"source.type": "x", "source.n": 1}},
            True,
        ),
        ({"metric": "safety.accuracy", "baseline": "runs/main", "max_drop": 0}, True),
        ({"metric": "accuracy", "min": 1}, False),
        ({"metric": "safety.accuracy", "confidence": 1}, False),
        ({"metric": "safety.accuracy", "confidence": 95}, False),
        ({"metric": "safety.accuracy", "where": {}}, False),
        ({"metric": "safety.accuracy", "where": {"a": [1]}}, False),
        ({"metric": "safety.accuracy", "max_drop": -0.1}, False),
        ({"min": 1}, False),
    ],
)
def test_gates_are_taken_or_refused_by_model_and_schema_alike(value, is_valid):
    assert agrees(Gate, value) is is_valid


def test_a_published_table_has_rows_with_a_unit():
    row = {"judge": "GPT-4", "value": 61.2, "own": True}
    table = {
        "source": "A paper",
        "table": 3,
        "metric": "accuracy",
        "unit": "percent",
        "rows": [row],
    }
    assert agrees(Published, table)
    assert not agrees(Published, table | {"unit": "%"})
    assert not agrees(Published, table | {"rows": []})


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ({}, "", "nothing to measure"),
        ({"prediction": "output.x"}, "", "`prediction` needs a `target`"),
        ({"probability": "output.x", "positive": 1}, "", "`probability` needs a `target`"),
        ({"target": "source.x"}, "target", "needs a `prediction` or a `probability`"),
        (PAIR | {"metrics": ["auroc"]}, "metrics.0", "`auroc` needs `probability`"),
        (PAIR | {"metrics": ["f1", "mean"]}, "metrics.1", "`mean` needs `value`"),
        (PAIR | {"metrics": ["f1", "f1"]}, "metrics.1", "is a duplicate"),
        ({"panel": ("output.a", "output.b", "output.a")}, "panel.2", "is a duplicate"),
        (PAIR | {"options": ("source.a", "source.a")}, "options.1", "is a duplicate"),
        (
            {"value": "output.x", "metrics": ["f1"]},
            "metrics.0",
            "`f1` needs `prediction` and `target`",
        ),
        (PAIR | {"metrics": ["spearman_within"]}, "metrics.0", "needs `cluster`"),
        (
            PAIR | {"reduce": {"prediction": "max", "target": "first"}},
            "reduce",
            "`reduce` needs `group`",
        ),
        (PAIR | {"group": "source.g"}, "group", "`group` needs `reduce.prediction`"),
        (
            PAIR | {"group": "source.g", "reduce": {"prediction": "max"}},
            "reduce",
            "`group` needs `reduce.target`",
        ),
        (
            PAIR
            | {
                "group": "source.g",
                "reduce": {"prediction": "max", "target": "max", "value": "max"},
            },
            "reduce.value",
            "no `value` to reduce",
        ),
    ],
)
def test_what_the_schema_cannot_express_is_an_error_with_its_place(value, path, message):
    problems = evaluations.evaluation_problems("e", Evaluation(**value))
    assert (path, True) in [(problem_path, message in text) for problem_path, text, _ in problems]
    assert all(hint for _, _, hint in problems)


def test_a_sound_evaluation_has_no_problems():
    assert (
        evaluations.evaluation_problems(
            "e", Evaluation(**PAIR, probability="output.p", positive="x")
        )
        == []
    )
    assert evaluations.evaluation_problems("e", Evaluation(**PAIR, probability="output.p")) == []


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ({"metric": "safty.accuracy", "min": 1}, "metric", "no `safty`"),
        ({"metric": "safety.acuracy", "min": 1}, "metric", "no metric"),
        ({"metric": "safety.auroc", "min": 1}, "metric", "does not measure"),
        ({"metric": "safety.accuracy"}, "", "no limit"),
        ({"metric": "safety.accuracy", "max_drop": 0.1}, "max_drop", "needs `baseline`"),
        (
            {"metric": "safety.accuracy", "baseline": "runs/main"},
            "baseline",
            "needs `max_drop`",
        ),
        (
            {"metric": "safety.accuracy", "baseline": "r", "max_drop": 0, "min": 1},
            "baseline",
            "cannot be combined",
        ),
        ({"metric": "safety.accuracy", "min": 2, "max": 1}, "min", "above"),
        ({"metric": "safety.confusion", "min": 2}, "metric", "is a table"),
        ({"metric": "run.costs", "max": 2}, "metric", "is unknown"),
        ({"metric": "run.cost_usd", "max": 2, "confidence": 0.9}, "confidence", "whole run"),
    ],
)
def test_a_gate_that_cannot_be_decided_is_a_problem(value, path, message):
    evaluations = {"safety": Evaluation(**PAIR, metrics=["accuracy", "confusion"])}
    problems = gate_problems(Gate(**value), evaluations)
    assert (path, True) in [(problem_path, message in text) for problem_path, text, _ in problems]


def test_a_near_miss_is_named():
    evaluations = {"safety": Evaluation(**PAIR)}
    assert "`safety`" in gate_problems(Gate(metric="safty.accuracy", min=1), evaluations)[0][2]
    assert "`run.cost_usd`" in gate_problems(Gate(metric="run.cost", max=1), evaluations)[0][2]


@pytest.mark.parametrize(
    ("gate", "key", "words"),
    [
        (
            {"metric": "e.accuracy", "baseline": "r", "max_drop": 2},
            "max_drop",
            ("a share from 0 to 1", "2 points are 0.02"),
        ),
        (
            {"metric": "e.accuracy", "baseline": "r", "max_drop": 1},
            "max_drop",
            ("no run can fail", "0.01"),
        ),
        ({"metric": "e.accuracy", "max": 90}, "max", ("no run can fail", "90% is 0.9")),
        ({"metric": "e.accuracy", "min": 90}, "min", ("no run can pass", "90% is 0.9")),
        ({"metric": "e.accuracy", "min": -0.1}, "min", ("no run can fail", "from 0 to 1")),
        ({"metric": "e.accuracy", "max": -0.1}, "max", ("no run can pass", "from 0 to 1")),
        ({"metric": "e.cohen_kappa", "min": 60}, "min", ("from -1 to 1",)),
        (
            {"metric": "e.cohen_kappa", "baseline": "r", "max_drop": 2},
            "max_drop",
            ("no run can fail",),
        ),
        ({"metric": "e.mae", "max": -1}, "max", ("at least 0",)),
        ({"metric": "e.mae", "min": 0.5}, "min", ("counts errors", "write `max: 0.5`")),
        ({"metric": "run.failed", "max": -1}, "max", ("at least 0",)),
        ({"metric": "run.coverage", "min": 99}, "min", ("99% is 0.99",)),
        ({"metric": "e.coverage", "min": 95}, "min", ("95% is 0.95",)),
        ({"metric": "v.mean", "min": 90}, "min", ("from 1 to 5", "no run can pass")),
        ({"metric": "v.mean", "max": 5.5}, "max", ("no run can fail",)),
        (
            {"metric": "v.mean", "baseline": "r", "max_drop": 4},
            "max_drop",
            ("no run can fail", "below 4"),
        ),
    ],
)
def test_s5_a_limit_that_nothing_could_fail_or_pass_is_a_problem(gate, key, words):
    pair = Evaluation(**PAIR, metrics=["accuracy", "cohen_kappa", "mae"])
    evaluations = {"e": pair, "v": Evaluation(value="output.score", metrics=["mean"])}
    ((path, message, hint),) = gate_problems(Gate(**gate), evaluations, {"v": (1.0, 5.0)})
    assert path == key
    assert all(word in f"{message} {hint}" for word in words), (message, hint)


@pytest.mark.parametrize(
    "gate",
    [
        {"metric": "e.accuracy", "min": 1},
        {"metric": "e.accuracy", "min": 0},
        {"metric": "e.mae", "min": 0.5, "max": 1},
        {"metric": "e.mae", "min": 0},
        {"metric": "e.accuracy", "max": 0},
        {"metric": "e.accuracy", "baseline": "r", "max_drop": 0.99},
        {"metric": "e.cohen_kappa", "baseline": "r", "max_drop": 1.5},
        {"metric": "e.mae", "max": 90},
        {"metric": "run.failed", "max": 0},
        {"metric": "run.cost_usd", "max": 2.5},
        {"metric": "v.mean", "min": 4.5},
    ],
)
def test_s5_a_limit_that_some_value_fails_or_passes_is_fine(gate):
    pair = Evaluation(**PAIR, metrics=["accuracy", "cohen_kappa", "mae"])
    evaluations = {"e": pair, "v": Evaluation(value="output.score", metrics=["mean"])}
    assert gate_problems(Gate(**gate), evaluations, {"v": (1.0, 5.0)}) == []
