"""What is said about a pipeline file that cannot be run: place, path, what was expected, the nearest spelling."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from verdict_cli.errors import Problem, SpecError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.load import validate_document
from verdict_cli.plan.build import build_plan

HEAD = "verdict: 1\nname: x\nmodel: m\n"
UNIT = "pipeline:\n  - unit: JudgeUnit\n    prompt: Is {source.a} good?\n"


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        build_plan(validate_document(parse_document(text.encode(), "p.yaml"), Path()))
    for problem in caught.value.problems:
        assert (
            problem.file == "p.yaml"
            and problem.line >= 1
            and problem.column >= 1
            and problem.message
        )
        assert str(problem).startswith(f"p.yaml:{problem.line}:{problem.column}: ")
    return caught.value.problems


def problem(text: str) -> Problem:
    (only,) = problems(text)
    return only


def batch_problems():
    """Wrong values of a key that a feature adds: of a truth or a mapping."""
    if find_spec("verdict_cli.features.batches") is None:
        return []
    model = HEAD + UNIT + "    model: {name: m, batch: "
    path = "pipeline[0].model.batch"
    return [
        (model + "3}\n", (7, 29), path, "wrong-type", "expected true or false or a mapping, found 3", ""),
        (model + "{mn: 3}}\n", (7, 30), f"{path}.mn", "unknown-key", "unknown key 'mn'", "'min'"),
        (model + "{min: 0}}\n", (7, 35), f"{path}.min", "wrong-value", "must be > 0", "While other batches"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "place", "path", "code", "message", "hint"),
    [
        # unknown key
        (HEAD + UNIT + "evalaute: {}\n", (7, 1), "evalaute", "unknown-key", "unknown key 'evalaute'", "'evaluate'"),
        (HEAD + UNIT + "    scael: likert\n", (7, 5), "pipeline[0].scael", "unknown-key", "'scael'", "'scale'"),
        (HEAD + "models: {a: {name: m, temprature: 1}}\n" + UNIT, (4, 23), "models.a.temprature", "unknown-key", "", "'temperature'"),
        (HEAD + "models: {a: {name: m, api_key: sk}}\n" + UNIT, (4, 23), "models.a.api_key", "unknown-key", "", "`api_key_env`"),
        (HEAD + "pipeline: [{layer: [{unit: CoTUnit, promt: x, prompt: x}]}]", (4, 37), "pipeline[0].layer[0].promt", "unknown-key", "", "'prompt'"),
        (HEAD + UNIT + "1.5: x\n", (7, 1), "[1.5]", "unknown-key", "unknown key 1.5", "such as `verdict`"),
        (HEAD + UNIT + "    true: x\n", (7, 5), "pipeline[0][true]", "unknown-key", "unknown key true", ""),
        (HEAD + "pipeline: [{unit: CoTUnit, prompt: x, block: []}]", (4, 39), "pipeline[0].block", "unknown-key", "unknown key 'block'", "write two steps"),
        # a key that must be a name
        (HEAD + UNIT + "evaluate:\n  ../../../escaped: {value: output.score}\n", (8, 3), "evaluate['../../../escaped']", "wrong-value", "'../../../escaped': must match ^[A-Za-z_]", ""),
        (HEAD + UNIT + "evaluate: {'a/b': {value: output.score}}\n", (7, 12), "evaluate['a/b']", "wrong-value", "'a/b': must match", ""),
        # missing key
        ("name: x\nmodel: m\n" + UNIT, (1, 1), "verdict", "missing-key", "'verdict' is missing", "version"),
        (HEAD + "pipeline: [{unit: DebateUnit, prompt: x, role_name: a}]", (4, 12), "pipeline[0].stance", "missing-key", "'stance'", "position"),
        (HEAD + "pipeline: [{unit: JudgeUnit}]", (4, 12), "pipeline[0]", "missing-key", "`prompt`", ""),
        # duplicate key
        (HEAD + UNIT + "    prompt: Again?\n", (7, 5), "pipeline[0].prompt", "duplicate-key", "first one is on line 6", "one of the two"),
        # wrong type
        (HEAD + UNIT + "    explanation: 1\n", (7, 18), "pipeline[0].explanation", "wrong-type", "expected true or false, found 1", ""),
        (HEAD + UNIT + "    name: 3\n", (7, 11), "pipeline[0].name", "wrong-type", "expected a text, found 3", "quotes"),
        (HEAD + UNIT + "    validate: x\n", (7, 15), "pipeline[0].validate", "wrong-type", "expected a list", ""),
        (HEAD + "pipeline: {unit: CoTUnit}", (4, 11), "pipeline", "wrong-type", "expected a list, found a mapping", ""),
        (HEAD + "pipeline: [CoTUnit]", (4, 12), "pipeline[0]", "wrong-type", "expected a step, found 'CoTUnit'", "- unit:"),
        (HEAD + "pipeline: [{untis: CoTUnit}]", (4, 12), "pipeline[0]", "wrong-type", "exactly one of", "'unit'"),
        (HEAD + UNIT + "    scale: 5\n", (7, 12), "pipeline[0].scale", "wrong-type", "expected a scale, found 5", "likert"),
        (HEAD + UNIT + "    scale: {type: discret}\n", (7, 12), "pipeline[0].scale", "wrong-type", "unknown type of scale 'discret'", "'discrete'"),
        (HEAD + UNIT + "    extract: {type: regx}\n", (7, 14), "pipeline[0].extract", "wrong-type", "unknown extractor 'regx'", "'regex'"),
        (HEAD + UNIT + "    extract: rav\n", (7, 14), "pipeline[0].extract", "wrong-value", "'rav' is not one of", "'raw'"),
        (HEAD + UNIT + "    response: {a: 3}\n", (7, 19), "pipeline[0].response.a", "wrong-type", "expected a type, found 3", "`str`"),
        (HEAD + "pipeline: [{unit: CoTUnit, prompt: [x]}]", (4, 36), "pipeline[0].prompt", "wrong-type", "expected a prompt, found a list", "file"),
        (HEAD + "pipeline: [{unit: CoTUnit, prompt: {text: x}}]", (4, 36), "pipeline[0].prompt", "wrong-type", "expected a prompt, found a mapping", "file"),
        (HEAD + "pipeline: [{unit: CoTUnit, prompt: {file: 3}}]", (4, 43), "pipeline[0].prompt.file", "wrong-type", "expected a text, found 3", "quotes"),
        (HEAD + "pipeline: [{unit: CoTUnit, prompt: {source.a}}]", (4, 36), "pipeline[0].prompt", "wrong-type", "YAML reads {…} as a mapping", "'{source.a}'"),
        # wrong value
        ("verdict: 2\nname: x\n" + UNIT, (1, 10), "verdict", "wrong-value", "2 is not a version", "write `1`"),
        ("verdict: true\nname: x\n" + UNIT, (1, 10), "verdict", "wrong-type", "expected a whole number, found true", ""),
        ("verdict: 1\nname: My Pipe\n" + UNIT, (2, 7), "name", "wrong-value", "a name has small letters", "write `my-pipe`"),
        (HEAD + "pipeline: [{layer: [{unit: CoTUnit, prompt: x}], inner: chian}]", (4, 57), "pipeline[0].inner", "wrong-value", "none, chain", "'chain'"),
        (HEAD + "pipeline: [{layer: [{unit: CoTUnit, prompt: x}], repeat: 0}]", (4, 58), "pipeline[0].repeat", "wrong-value", "must be >= 1", "Copies"),
        (HEAD + "pipeline: []", (4, 11), "pipeline", "wrong-value", "at least 1 expected", "steps"),
        (HEAD + UNIT + "evaluate: {a: {value: output.score, metrics: [accurcy]}}", (7, 47), "evaluate.a.metrics[0]", "wrong-value", "'accurcy'", "'accuracy'"),
        ("verdict: 1\nname: x\nmodel: ' '\n" + UNIT, (3, 8), "model", "wrong-value", "must not be blank", "The model"),
        ("verdict: 1\nname: x\nmodel: ''\n" + UNIT, (3, 8), "model", "wrong-value", "must not be empty", "The model"),
        (HEAD + 'pipeline: [{unit: CoTUnit, prompt: x, model: {name: m, api_key_env: "\\t"}}]', (4, 69), "pipeline[0].model.api_key_env", "wrong-value", "must not be blank", "environment variable"),
        (HEAD + "pipeline: [{unit: RubricUnit, prompt: x, criteria: [a, ' ']}]", (4, 56), "pipeline[0].criteria[1]", "wrong-value", "must not be blank", ""),
        # yes and no
        (HEAD + UNIT + "    explanation: yes\n", (7, 18), "pipeline[0].explanation", "wrong-type", "expected true or false, found 'yes'", "write `true`"),
        (HEAD + UNIT + "    pin: off\n", (7, 10), "pipeline[0].pin", "wrong-type", "found 'off'", "write `false`"),
        (HEAD + UNIT + "    response: {a: {b: {c: 3}}}\n", (7, 27), "pipeline[0].response.a.b.c", "wrong-type", "expected a type, found 3", "`str`"),
        (HEAD + UNIT + "    response: {a: {b: {}}}\n", (7, 23), "pipeline[0].response.a.b", "wrong-value", "at least 1 expected", ""),
        (HEAD + UNIT + "    response: {a: string}\n", (7, 19), "pipeline[0].response.a", "unknown-type", "unknown type or scale 'string'", "'str'"),
        (HEAD + UNIT + "    response: {a: 'list[integer]'}\n", (7, 19), "pipeline[0].response.a", "unknown-type", "unknown type or scale 'integer'", "'int'"),
        (HEAD + UNIT + "    response: {a: dict}\n", (7, 19), "pipeline[0].response.a", "unknown-type", "unknown type or scale 'dict'", "int, likert, list[str], str"),
        # keys of a mapping that may be left out
        (HEAD + UNIT + "    escalate: {when: output.score > 1, too: m}\n", (7, 40), "pipeline[0].escalate.too", "unknown-key", "unknown key 'too'", "'to'"),
        (HEAD + "pipeline: [{layer: [{unit: CoTUnit, prompt: x}], repeat: 3, until: {confidence: 1, max: 1}}]", (4, 89), "pipeline[0].until.max", "wrong-value", "must be >= 2", "The maximum number of units to call"),
        *batch_problems(),
        # keys of units that ask a model
        (HEAD + UNIT + "  - {unit: MeanPoolUnit, prompt: x}\n", (7, 26), "pipeline[1].prompt", "unknown-key", "unknown key 'prompt'", "a pool asks no model"),
        (HEAD + UNIT + "  - {unit: MeanPoolUnit, weights: 3}\n", (7, 35), "pipeline[1].weights", "wrong-type", "expected a list of numbers, found 3", "`{file: …}`"),
        # what a pool is given
        (HEAD + UNIT + "  - {unit: MeanPoolUnit, weights: [0]}\n", (7, 35), "pipeline[1].weights", "bad-weights", "the weights add up to 0", "not 0"),
        (HEAD + UNIT + "  - {unit: ModePoolUnit, weights: [0.0]}\n", (7, 35), "pipeline[1].weights", "bad-weights", "the weights add up to 0", "not 0"),
        (HEAD + UNIT + "  - {unit: JudgeUnit, name: k, prompt: x}\n  - {unit: MeanPoolUnit, empty: x}\n", (8, 33), "pipeline[2].empty", "no-number", "'x' is not of type float", "such as `empty: 0`"),
        (HEAD + UNIT + "  - {unit: MeanPoolUnit, empty: {score: true}}\n", (7, 41), "pipeline[1].empty.score", "no-number", "true is not of type float", "such as `empty: 0`"),
        (HEAD + UNIT + "  - {unit: ModePoolUnit, empty: {scor: 1}}\n", (7, 34), "pipeline[1].empty.scor", "unknown-field", "the pool gives no 'scor'", "it gives score"),
        (HEAD + "pipeline: [{layer: [{unit: JudgeUnit, prompt: '{source.a}'}], repeat: 2}, {unit: MeanPoolUnit, weights: [1.0e+308, 1.0e+308]}]", (4, 105), "pipeline[1].weights", "bad-weights", "the weights add up to inf", "not 0"),
        # values as the file has them
        (HEAD + UNIT + "evaluate: {a: {value: output.score, metrics: [null]}}", (7, 47), "evaluate.a.metrics[0]", "wrong-value", "nothing is not a known name", "explain"),
        (HEAD + UNIT + "    on_failure: true\n", (7, 17), "pipeline[0].on_failure", "wrong-value", "true is not one of fail, skip", ""),
        (HEAD + UNIT + "    scale: {type: [null]}\n", (7, 12), "pipeline[0].scale", "wrong-type", "unknown type of scale a list", "discrete"),
        (HEAD + UNIT + "evaluate: {1.5: {value: output.score}}", (7, 12), "evaluate[1.5]", "wrong-type", "expected a text, found 1.5", "quotes"),
        # models
        (HEAD + UNIT + "    model: 3\n", (7, 12), "pipeline[0].model", "wrong-type", "expected a model, found 3", "write its name"),
        (HEAD + UNIT + "    model: [a, []]\n", (7, 16), "pipeline[0].model[1]", "wrong-type", "expected a model, found a list", "write its name"),
        # options and categories
        (HEAD + UNIT + "    response: {a: {enum: [x, y, x]}}\n", (7, 33), "pipeline[0].response.a.enum[2]", "bad-scale", "the value 'x' is a duplicate", "once"),
        (HEAD + UNIT + "    scale: {values: [x, ' ']}\n", (7, 25), "pipeline[0].scale.values[1]", "bad-scale", "is not a word", "name"),
        (HEAD + "pipeline: [{unit: CategoricalJudgeUnit, prompt: x, categories: [a, a]}]", (4, 68), "pipeline[0].categories[1]", "bad-unit", "the value 'a' is a duplicate", "once"),
        (HEAD + "pipeline: [{unit: PairwiseJudgeUnit, labels: [' ', b]}]", (4, 46), "pipeline[0].labels", "bad-unit", "the labels are not two words", "a name of its own"),
        (HEAD + "pipeline: [{unit: PairwiseJudgeUnit, labels: [Tie, b], tie: true}]", (4, 46), "pipeline[0].labels", "bad-unit", "one of them is `tie`", "a name of its own"),
        (HEAD + "pipeline: [{unit: PairwiseJudgeUnit, labels: [b, 'B.']}]", (4, 46), "pipeline[0].labels", "bad-unit", "the labels are not two words", "a name of its own"),
        # names
        (HEAD + "units: {'A b': {base: CoTUnit, prompt: x}}\npipeline: [{unit: A b}]", (5, 12), "pipeline[0].name", "wrong-value", "'a b': must match ^[A-Za-z_]", "snake case"),
        (HEAD + "pipeline: [{use: '#b'}]", (4, 18), "pipeline[0].use", "bad-file", "no file is named before the # of '#b'", "write `b`"),
        (HEAD + "units: {A: {base: A}}\n" + UNIT, (4, 19), "units.A.base", "unknown-unit", "builds on itself", "name a built-in type"),
        # unknown unit
        (HEAD + "pipeline: [{unit: JugdeUnit, prompt: x}]", (4, 19), "pipeline[0].unit", "unknown-unit", "'JugdeUnit'", "'JudgeUnit'"),
        (HEAD + UNIT + "    scale: likret\n", (7, 12), "pipeline[0].scale", "unknown-scale", "'likret'", "'likert'"),
        (HEAD + UNIT + "    response: {a: strr}\n", (7, 19), "pipeline[0].response.a", "unknown-type", "'strr'", ""),
        # name used twice
        (HEAD + UNIT + "  - {unit: CoTUnit, name: judge, prompt: x}\n", (7, 27), "pipeline[1].name", "name-used-twice", "CoTUnit", "another `name`"),
        # a placeholder that nobody fills
        (HEAD + UNIT + "  - {unit: CoTUnit, prompt: '{previous.scroe}'}\n", (7, 29), "pipeline[1].prompt", "bad-placeholder", "'scroe'", "'score'"),
        (HEAD + "pipeline: [{unit: CoTUnit, prompt: '{previous.x}'}]", (4, 36), "pipeline[0].prompt", "bad-placeholder", "gives 'x'", "source.COLUMN"),
        (HEAD + "pipeline: [{unit: CoTUnit, prompt: '{unit.role}'}]", (4, 36), "pipeline[0].prompt", "bad-placeholder", "no field 'role'", ""),
    ],
)  # fmt: skip
def test_bad_input_is_named_with_its_place_and_its_cure(text, place, path, code, message, hint):
    error = problem(text)
    assert (error.code, error.path) == (code, path)
    assert (error.line, error.column) == place
    assert message in error.message and hint in error.hint


def test_yes_and_no_are_words_of_a_scale():
    text = HEAD + UNIT + "    scale: {type: discrete, values: [no, yes, on, Off]}\n"
    plan = build_plan(validate_document(parse_document(text.encode(), "p.yaml"), Path())).plan
    assert plan.nodes[0].output.fields["score"].scale.values() == ("no", "yes", "on", "Off")


def test_all_errors_of_a_file_are_reported_in_order():
    errors = problems(
        """\
verdict: 1
name: A B
modle: m
pipeline:
  - unit: JudgeUnit
    explanation: yes
    scale: {type: x}
  - layer: []
    repeat: many
  - {unit: MaxPoolUnit, prompt: x}
gates: [{metric: a.b, min: low}]
"""
    )
    assert [(error.line, error.code) for error in errors] == [
        (2, "wrong-value"),
        (3, "unknown-key"),
        (6, "wrong-type"),
        (7, "wrong-type"),
        (8, "wrong-value"),
        (9, "wrong-type"),
        (10, "unknown-key"),
        (11, "wrong-type"),
    ]


def test_all_errors_of_meaning_are_reported_in_order():
    errors = problems(
        HEAD
        + """\
scales: {s: {range: [5, 1]}}
dataset: {where: "nothing == 1"}
pipeline:
  - {unit: JugdeUnit, prompt: x}
  - layer:
      - {unit: JudgeUnit, prompt: "{previous.x"}
      - {unit: JudgeUnit, name: b, scale: likret, prompt: x}
    roots: [9]
  - {use: nowhere}
blocks: {a: [{unit: CoTUnit, prompt: x}]}
gates: [{metric: a.f1, min: 1}]
"""
    )
    assert [(error.line, error.code) for error in errors] == [
        (4, "bad-scale"),
        (5, "bad-expression"),
        (7, "unknown-unit"),
        (11, "no-such-item"),
        (12, "unknown-block"),
    ]
