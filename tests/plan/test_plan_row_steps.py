"""What is wrong with `each` and `when` is known before any call, with its place and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from verdict_cli.errors import SpecError
from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.report.plan_graph import as_mapping, as_mermaid, as_tree

SCHEMA = """
dataset:
  schema: {text: str, tags: 'list[str]', score: float}
"""
JUDGE = "unit: JudgeUnit, scale: boolean"
POOL = "\n  - {unit: MeanPoolUnit, field: score}"


@pytest.fixture
def planned(tmp_path: Path) -> Callable[..., Plan]:
    def make(steps: str) -> Plan:
        path = tmp_path / "pipeline.yaml"
        path.write_text(f"verdict: 1\nname: t\nmodel: m\n{SCHEMA}\npipeline:\n{steps}")
        return build_plan(load(path)).plan

    return make


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            f"  - {{{JUDGE}, each: source.text, prompt: '{{item}}'}}",
            "`each: source.text` is of type str, not a list",
        ),
        (f"  - {{{JUDGE}, each: source.score, prompt: x}}", "of type float, not a list"),
        (f"  - {{{JUDGE}, each: nothing.here, prompt: x}}", "unknown name `nothing`"),
        (
            f"  - {{{JUDGE}, each: previous.claims, prompt: x}}",
            "no unit before this one gives 'claims'",
        ),
        (
            f"  - {{{JUDGE}, each: source.tags, as: source, prompt: x}}",
            "`source` has a meaning of its own",
        ),
        (
            f"  - {{{JUDGE}, each: source.tags, as: index, prompt: x}}",
            "`index` has a meaning of its own",
        ),
        (
            f"  - {{each: source.tags, as: tag, block: [{{{JUDGE}, each: tag, as: tag, prompt: x}}]}}",
            "`tag` is the name of an entry around this one",
        ),
        (f"  - {{{JUDGE}, each: source.tags, max: 0, prompt: x}}", "max"),
        (
            f"  - {{{JUDGE}, as: tag, prompt: x}}",
            "`as` is a key of `each`, which this step does not have",
        ),
        (
            f"  - {{{JUDGE}, max: 4, prompt: x}}",
            "`max` is a key of `each`, which this step does not have",
        ),
        (
            f"  - {{{JUDGE}, each: source.tags, as: tag, prompt: '{{tag.name}}'}}",
            "tag is of type str and has no part 'name'",
        ),
        (
            f"  - {{{JUDGE}, each: source.tags, pin: true, prompt: x}}",
            "a pinned unit runs once for all rows",
        ),
        (
            f"  - {{{JUDGE}, when: source.text == 'a', pin: true, prompt: x}}",
            "`when` depends on the row",
        ),
        (
            f"  - {{{JUDGE}, when: source.score, prompt: x}}",
            "`when: source.score` is of type float, not true or false",
        ),
        (f"  - {{{JUDGE}, when: source.score >, prompt: x}}", "is not an expression"),
        (
            f"  - {{{JUDGE}, each: source.tags, prompt: x}}\n  - {{unit: MeanPoolUnit, field: score, weights: [1, 2]}}",
            "how many units a pool behind `each` gets depends on the row",
        ),
        (
            f"  - {{{JUDGE}, each: source.tags, prompt: x}}\n  - {{unit: MeanPoolUnit, field: grade}}",
            "gives no 'grade'",
        ),
        (
            f"  - {{{JUDGE}, name: j, each: source.tags, prompt: x}}\n  - {{{JUDGE}, prompt: '{{previous.j.grade}}'}}",
            "j has no field 'grade'",
        ),
        (
            f"  - {{{JUDGE}, name: j, when: source.text == 'a', prompt: x}}\n  - {{{JUDGE}, prompt: '{{previous.j.grade}}'}}",
            "j has no field 'grade'",
        ),
        (
            f"  - {{{JUDGE}, each: source.tags, prompt: x, propagate: {{item: output.score}}}}",
            "a unit inside `each` cannot give a field 'item'",
        ),
        (
            f"  - {{layer: [{{{JUDGE}, each: source.tags, prompt: x}}], repeat: 3, until: {{confidence: 0.9}}}}\n"
            "  - {unit: ModePoolUnit, field: score}",
            "an item runs once for every entry of a list",
        ),
    ],
)
def test_a_mistake_is_an_error_before_any_call(planned, steps, message):
    with pytest.raises(SpecError) as raised:
        planned(steps)
    assert message in str(raised.value)


def test_names_of_entries_are_unknown_outside_their_each(planned):
    with pytest.raises(SpecError, match="unknown name `tag`"):
        planned(
            f"  - {{{JUDGE}, each: source.tags, as: tag, prompt: x}}\n  - {{unit: MapUnit, map: {{a: tag}}}}"
        )


def test_the_graph_says_what_follows_the_row(planned):
    plan = planned(
        f"  - {{each: source.tags, as: tag, block: [{{{JUDGE}, name: j, when: tag != 'a', prompt: '{{tag}}'}}]}}{POOL}"
    )
    assert as_mapping(plan)["nodes"] == [
        {"id": "j", "unit": "JudgeUnit", "each": "source.tags", "when": "tag != 'a'"},
        {"id": "mean_pool", "unit": "MeanPoolUnit", "each": None, "when": None},
    ]
    tree = as_tree(plan)
    assert "0 model calls a row, 1 for each tag" in tree
    assert "JudgeUnit, each tag of source.tags, when tag != 'a'" in tree
    assert 'subgraph each0["each tag of source.tags"]' in as_mermaid(plan)


def test_an_each_is_in_the_fingerprint_and_its_maximum_is_not(planned):
    base = planned(f"  - {{{JUDGE}, each: source.tags, prompt: x}}")
    more = planned(f"  - {{{JUDGE}, each: source.tags, max: 9, prompt: x}}")
    other = planned(f"  - {{{JUDGE}, each: source.tags | list, prompt: x}}")
    assert base.nodes[0].fingerprint == more.nodes[0].fingerprint != other.nodes[0].fingerprint
    assert base.fingerprint != more.fingerprint
    assert planned(f"  - {{{JUDGE}, when: source.text == 'a', prompt: x}}").nodes[
        0
    ].fingerprint == (
        planned(f"  - {{{JUDGE}, when: source.text == 'b', prompt: x}}").nodes[0].fingerprint
    )


def test_per_call_is_for_decision_models_alone(refusal):
    step = "{each: source.claims, unit: JudgeUnit, prompt: '{item}', per_call: 2}"
    problem = refusal(
        f"verdict: 1\nname: p\nmodel: m\npipeline:\n  - {step}\n  - {{unit: MeanPoolUnit}}\n"
    )
    assert (problem.code, problem.path) == ("bad-each", "pipeline[0].per_call")
    assert "a call of its own" in problem.hint
