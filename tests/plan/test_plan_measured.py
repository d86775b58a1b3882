"""`evaluate`, `gates` and `dataset` are checked against the plan before anything runs."""

from __future__ import annotations

import json

import pytest

PIPELINE = """
    pipeline:
      - layer: [{unit: JudgeUnit, prompt: "{source.q}"}]
        repeat: 2
      - {unit: MeanPoolUnit}
    evaluate:
      safety: {prediction: output.score, target: source.label%s}
      size: {value: "nodes['judge[1]'].score", metrics: [mean]}
    gates:
      - {metric: safety.accuracy, min: 0.5%s}
"""


def test_good_evaluations_name_columns_and_units(plan):
    compiled = plan(
        PIPELINE % (", by: [source.kind], cluster: source.doc", ", where: {source.split: test}")
    ).plan
    assert [used.column for used in compiled.columns] == ["q", "label", "doc", "kind", "split"]
    assert list(compiled.evaluations) == ["safety", "size"] and len(compiled.gates) == 1


@pytest.mark.parametrize(
    ("evaluation", "gate", "code", "path", "words"),
    [
        (", where: output.scroe == 1", "", "bad-expression", "evaluate.safety.where", "'scroe'"),
        (", panel: judge.score", "", "bad-evaluation", "evaluate.safety.prediction", "two evaluations"),
        (", metrics: [pairwise_kappa]", "", "bad-evaluation", "evaluate.safety.metrics[0]", "needs `panel`"),
        (", metrics: [longer_preference]", "", "bad-evaluation", "evaluate.safety.metrics[0]", "needs `options`"),
        (", options: [source.a, previous.b]", "", "bad-expression", "evaluate.safety.options[1]", "previous"),
        (", by: [source.a, previous.b]", "", "bad-expression", "evaluate.safety.by[1]", "previous"),
        (", cluster: 'source.'", "", "bad-expression", "evaluate.safety.cluster", "not an expression"),
        (", value: \"nodes['jugde'].score\"", "", "bad-expression", "evaluate.safety.value", "'jugde'"),
        (", metrics: [auroc]", "", "bad-evaluation", "evaluate.safety.metrics[0]", "`auroc` needs `probability`"),
        (", group: source.g", "", "bad-evaluation", "evaluate.safety.group", "reduce"),
        (", reduce: {value: max}, group: source.g", "", "bad-evaluation", "evaluate.safety.reduce", "prediction"),
        ("", ", max: 0.1", "bad-gate", "gates[0].min", "above"),
        ("", ", baseline: runs/a", "bad-gate", "gates[0].baseline", "`max_drop`"),
        ("", ", where: {nowhere.x: 1}", "bad-expression", "gates[0].where", "nowhere"),
        (", published: none.yaml", "", "bad-file", "evaluate.safety.published", "none.yaml"),
    ],
)  # fmt: skip
def test_a_bad_evaluation_or_gate_is_named_with_its_place(
    refused, evaluation, gate, code, path, words
):
    problems = refused(PIPELINE % (evaluation, gate))
    fitting = [
        problem
        for problem in problems
        if problem.code == code and problem.path.startswith(path) and words in problem.message
    ]
    assert fitting, problems
    line = 9 if path.startswith("evaluate") else 12
    assert {problem.line for problem in fitting} == {line} and all(
        problem.column > 5 for problem in fitting
    )


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("safty.accuracy", "`evaluate` has no `safty`"),
        ("safety.acuracy", "no metric"),
        ("run.cost", "unknown"),
        ("size.accuracy", "size"),
    ],
)
def test_a_gate_on_nothing_is_refused_with_the_nearest_name(refused, metric, words):
    problems = refused(PIPELINE.replace("safety.accuracy", metric) % ("", ""))
    assert (
        problems[0].path == "gates[0].metric" and words in problems[0].message and problems[0].hint
    )


def test_the_output_of_several_units_is_refused_with_the_way_out(refusal):
    text = """
        pipeline: [{layer: [{unit: JudgeUnit, prompt: x}], repeat: 2}]
        evaluate: {a: {value: output.score}}
    """
    problem = refusal(text)
    assert "gives on 2 units" in problem.message and "nodes['judge[0]']" in problem.hint


def test_an_evaluation_cannot_have_the_name_of_a_fact_of_the_run(refusal):
    text = "pipeline: [{unit: JudgeUnit, prompt: x}]\nevaluate: {run: {value: output.score}}"
    assert (refusal(text).code, refusal(text).path) == ("bad-evaluation", "evaluate.run")


def test_where_and_schema_of_the_dataset_are_checked(refused):
    problems = refused(
        """
        dataset: {where: "source.label.x == 1", schema: {label: {enum: [a, b]}, n: itn}}
        pipeline: [{unit: CoTUnit, prompt: "{source.label.y} {source.free.z}"}]
        """
    )
    assert [(problem.code, problem.path) for problem in problems] == [
        ("bad-expression", "dataset.where"),
        ("unknown-type", "dataset.schema.n"),
        ("bad-placeholder", "pipeline[0].prompt"),
    ]


def test_a_published_table_is_read_beside_the_pipeline_file(plan, refused):
    table = "source: A paper\ntable: 2\nmetric: accuracy\nunit: percent\nrows: [{judge: a, value: 90.5}]\n"
    text = PIPELINE % (", published: t.yaml", "")
    assert plan(text, {"t.yaml": table}).plan.published["safety"].rows[0].value == 90.5
    problems = refused(text, {"t.yaml": table.replace("percent", "per cent")})
    assert (problems[0].file[-6:], problems[0].line, problems[0].code) == (
        "t.yaml",
        4,
        "wrong-value",
    )


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("validate: [response.scroe > 1]", "pipeline[1].validate[0]"),
        ("propagate: {a: output.x}", "pipeline[1].propagate.a"),
        ("propagate: {a: 'output.score +'}", "pipeline[1].propagate.a"),
        ("output: {x: int}", "pipeline[1].output.x"),
        ("output: {score: str}", "pipeline[1].output.score"),
        ("response: {score: int}", "pipeline[1].response.score"),
        ("extract: {type: regex, fields: {scor: FIRST_INT}}", "pipeline[1].extract.fields.scor"),
        ("extract: weighted_summed_score, explanation: true", "pipeline[1].extract"),
    ],
)
def test_a_bad_expression_of_a_unit_is_named_with_its_place(refusal, key, path):
    problem = refusal(
        f"pipeline: [{{unit: CoTUnit, prompt: x}}, {{unit: JudgeUnit, prompt: x, {key}}}]"
    )
    assert (problem.path, problem.line) == (path, 4)


PANEL = """
    pipeline:
      - layer: [{unit: JudgeUnit, prompt: "{source.q}"}]
        repeat: 2
      - {unit: MeanPoolUnit}
    evaluate:
      panel: {panel: %s, target: source.label}
"""


def test_a_panel_of_a_units_name_is_one_expression_for_each_of_its_nodes(plan):
    compiled = plan(PANEL % "judge.score").plan
    wanted = ("nodes['judge[0]'].score", "nodes['judge[1]'].score")
    assert compiled.evaluations["panel"].panel == wanted
    assert plan(PANEL % json.dumps(wanted)).plan.evaluations == compiled.evaluations


@pytest.mark.parametrize(
    ("panel", "path", "words"),
    [
        ("mean_pool.score", "evaluate.panel.panel", "two or more"),
        ("judge", "evaluate.panel.panel", "two or more"),
        ("judge.scroe", "evaluate.panel.panel", "'scroe'"),
        (
            "[\"nodes['judge[0]'].score\", \"nodes['judge[7]'].score\"]",
            "evaluate.panel.panel[1]",
            "'judge[7]'",
        ),
    ],
)
def test_a_panel_that_nothing_fills_is_named_with_its_place(refused, panel, path, words):
    problems = refused(PANEL % panel)
    assert [problem for problem in problems if problem.path == path and words in problem.message], (
        problems
    )
