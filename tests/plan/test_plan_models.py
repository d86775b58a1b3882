"""Which models a unit asks: the cascade, presets, policies, variables."""

from __future__ import annotations

import pytest

from verdict_cli.plan.node import Plan

TEXT = "unit: JudgeUnit, prompt: x"


def names(plan: Plan) -> list[list[str]]:
    return [[model.name for model in node.work.models] for node in plan.nodes]


def test_the_nearest_model_around_a_unit_is_called(plan):
    compiled = plan(
        f"""
        verdict: 1
        name: x
        model: top
        pipeline:
          - {{{TEXT}}}
          - layer:
              - {{{TEXT}}}
              - {{{TEXT}, model: own}}
              - block: [{{{TEXT}}}]
                model: block
            model: layer
        """
    ).plan
    assert names(compiled) == [["top"], ["layer"], ["own"], ["block"]]


def test_a_named_block_takes_the_model_around_its_use(plan):
    compiled = plan(
        f"""
        blocks: {{b: [{{{TEXT}}}]}}
        pipeline: [{{layer: [{{use: b}}], model: around}}, {{use: b}}]
        """
    ).plan
    assert names(compiled) == [["around"], ["m"]]


def test_models_of_a_layer_make_one_copy_each(plan):
    compiled = plan(
        f"""
        models: {{p: [c, d]}}
        pipeline: [{{layer: [{{{TEXT}}}, {{{TEXT}, model: own}}], models: [a, p]}}]
        """
    ).plan
    assert names(compiled) == [["a"], ["own"], ["c", "d"], ["own"]]


def test_presets_and_policies_are_worked_out_in_order(plan):
    compiled = plan(
        f"""
        models:
          strong: {{name: gpt, temperature: 0.5}}
          both: [strong, {{name: other, retries: 0}}]
        pipeline: [{{{TEXT}, model: [both, strong, plain]}}]
        """
    ).plan
    assert names(compiled) == [["gpt", "other", "gpt", "plain"]]
    assert [model.retries for model in compiled.nodes[0].work.models] == [2, 0, 2, 2]


def test_the_second_call_of_post_hoc_has_its_own_model(plan):
    compiled = plan(
        f"""
        models: {{s: {{name: small}}}}
        pipeline: [{{{TEXT}, extract: {{type: post_hoc, model: s}}}}, {{{TEXT}, extract: post_hoc}}]
        """
    ).plan
    assert [[model.name for model in node.work.follow_up] for node in compiled.nodes] == [
        ["small"],
        ["m"],
    ]


def test_a_preset_that_names_itself_is_refused(refused):
    problems = refused(f"models: {{a: b, b: [c, a]}}\npipeline: [{{{TEXT}, model: [plain, a]}}]")
    assert "model-cycle" in {problem.code for problem in problems}


def test_presets_that_double_are_refused_at_once(refused):
    doubling = ", ".join(f"m{n}: [m{n + 1}, m{n + 1}]" for n in range(60))
    problems = refused(f"models: {{{doubling}}}\npipeline: [{{{TEXT}}}]")
    assert {problem.code for problem in problems} == {"too-many-models"}


def test_a_unit_without_a_model_is_refused(refusal):
    problem = refusal("verdict: 1\nname: x\npipeline: [{unit: JudgeUnit, prompt: x}]")
    assert (
        problem.code == "no-model" and "--model" in problem.hint and problem.path == "pipeline[0]"
    )


def test_pools_and_maps_need_no_model(plan):
    text = "verdict: 1\nname: x\npipeline: [{unit: JudgeUnit, prompt: x, model: m}, {unit: MaxPoolUnit}]"
    assert plan(text).plan.nodes[1].output.fields.keys() == {"score"}


def test_a_variable_is_replaced_in_the_connection(plan, monkeypatch):
    monkeypatch.setenv("VERDICT_TEST_HOST", "host")
    monkeypatch.setenv("VERDICT_ALLOW_HOSTS", "host")
    compiled = plan(
        f"pipeline: [{{{TEXT}, model: {{name: '${{A}}', api_base: 'http://${{VERDICT_TEST_HOST}}/v1'}}}}]"
    ).plan
    (model,) = compiled.nodes[0].work.models
    assert (model.name, model.api_base) == ("${A}", "http://host/v1")
    assert "host/v1" not in str(compiled.resolved)


@pytest.mark.parametrize(
    "where", ["models: {a: %s}\n", "blocks: {b: [{unit: CoTUnit, prompt: x, model: %s}]}\n"]
)
def test_a_variable_that_is_not_set_is_refused(refused, monkeypatch, where):
    monkeypatch.delenv("VERDICT_TEST_UNSET", raising=False)
    model = "{name: m, api_base: 'http://${VERDICT_TEST_UNSET}'}"
    (problem,) = refused(
        where % model + "pipeline: [{use: b}]"
        if "blocks" in where
        else where % model + f"pipeline: [{{{TEXT}}}]"
    )
    assert problem.code == "unset-variable" and "VERDICT_TEST_UNSET" in problem.message
    assert problem.path.endswith("api_base") and problem.line == 4


def test_a_pipelines_own_model_may_be_a_policy(plan):
    text = f"verdict: 1\nname: x\nmodel: [a, {{name: b}}]\npipeline: [{{{TEXT}}}]"
    assert names(plan(text).plan) == [["a", "b"]]
