"""A node's fingerprint covers what is asked there and everything before it, nothing else."""

import pytest

TEXT = """verdict: 1
name: x
model: {name: m, temperature: 0}
dataset: {where: "source.n != 1", id: n}
evaluate: {a: {value: nodes.last.score}}
pipeline:
- {unit: CoTUnit, name: think, prompt: 'Think of {source.text}'}
- layer:
  - {unit: JudgeUnit, name: left, prompt: 'Rate {previous.thinking}', scale: {range: [1, 5]}}
  - {unit: JudgeUnit, name: right, prompt: 'Weigh {previous.thinking}', extract: argmax_score}
- {unit: MeanPoolUnit, name: mean}
- {unit: JudgeUnit, name: last, prompt: 'Rate {previous.score}'}
"""
ALL = {"think", "left", "right", "mean", "last"}


@pytest.mark.parametrize(
    ("change", "differ"),
    [
        ("description=words", set()),
        ("evaluate={b: {value: nodes.left.score}}", set()),
        ("gates=[{metric: run.calls, max: 9}]", set()),
        ("name=other", set()),
        ('dataset.where="source.n != 2"', set()),
        ("model.timeout=9", set()),
        ("dataset.id=m", ALL),
        ("dataset.columns={text: words}", ALL),
        ("model.temperature=1", ALL),
        ("pipeline[0].prompt=Ponder {source.text}", ALL),
        ("pipeline[1].layer[0].scale.range=[1, 7]", {"left", "mean", "last"}),
        ("pipeline[1].layer[1].extract=weighted_summed_score", {"right", "mean", "last"}),
        ("pipeline[1].layer[1].model={name: n}", {"right", "mean", "last"}),
        ("pipeline[2].weights=[1, 2]", {"mean", "last"}),
        ("pipeline[3].validate=[output.score > 1]", {"last"}),
        ("pipeline[3].name=final", {"final"}),
        ("pipeline[1].layer[1].delimit=true", {"right", "mean", "last"}),
        ("pipeline[1].layer[1].delimit=false", set()),
        ("delimit=true", ALL),
    ],
)
def test_a_change_reaches_its_node_and_what_depends_on_it(plan, change, differ):
    before = {node.id: node.fingerprint for node in plan(TEXT).plan.nodes}
    settings = (change, "evaluate={}") if "name" in change else (change,)
    after = {node.id: node.fingerprint for node in plan(TEXT, settings=settings).plan.nodes}
    assert {
        name for name, fingerprint in after.items() if before.get(name) != fingerprint
    } == differ


def test_copies_of_a_unit_have_fingerprints_of_their_own(plan):
    nodes = plan(
        "pipeline: [{layer: [{unit: JudgeUnit, prompt: x}], repeat: 3}, {unit: MeanPoolUnit}]"
    ).plan.nodes
    assert len({node.fingerprint for node in nodes}) == len(nodes) == 4


EARLY = """verdict: 1
name: x
model: {name: m}
pipeline:
- layer: [{unit: JudgeUnit, name: judge, scale: boolean, prompt: x, extract: {type: regex, fields: {score: yes|no}}}]
  repeat: 5
  until: {confidence: 0.95}
- {unit: ModePoolUnit, name: pool}
- {unit: JudgeUnit, name: last, prompt: 'Rate {previous.score}'}
"""


@pytest.mark.parametrize("change", ["{confidence: 0.9}", "{confidence: 0.95, batch: 2}", "null"])
def test_early_stopping_is_in_the_fingerprint_of_its_pool_and_what_depends_on_it(plan, change):
    """The units themselves are asked the same, but which of them are decides what the pool has."""
    before, after = plan(EARLY).plan, plan(EARLY, settings=(f"pipeline[0].until={change}",)).plan
    differ = {
        new.name
        for old, new in zip(before.nodes, after.nodes, strict=True)
        if old.fingerprint != new.fingerprint
    }
    assert differ == {"pool", "last"}
    assert before.fingerprint != after.fingerprint
