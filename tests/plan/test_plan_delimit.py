"""Which prompts `delimit` reaches."""

import pytest

USED = "verdict: 1\nname: u\nmodel: m\n%sblocks: {b: [%s]}\npipeline: [{use: b}]\n"
UNIT = "{unit: JudgeUnit, prompt: '{source.a}'}"


@pytest.mark.parametrize(
    ("text", "used", "expected"),
    [
        (f"pipeline: [{UNIT}]", "", [False]),
        (f"delimit: true\npipeline: [{UNIT}]", "", [True]),
        (
            f"pipeline: [{{layer: [{UNIT}, {{unit: JudgeUnit, delimit: true, prompt: x}}]}}]",
            "",
            [False, True],
        ),
        (
            f"delimit: true\npipeline: [{{block: [{UNIT}, {{unit: JudgeUnit, delimit: false, prompt: x}}]}}]",
            "",
            [True, False],
        ),
        ("delimit: true\npipeline: [{use: u.yaml#b}]", "", [True]),
        (f"pipeline: [{{use: u.yaml#b}}, {UNIT}]", "delimit: true\n", [True, False]),
        (
            "delimit: true\nunits: {T: {base: JudgeUnit, delimit: false}}\npipeline: [{unit: T, prompt: x}]",
            "",
            [False],
        ),
        (
            "delimit: true\npipeline: [{unit: JudgeUnit, prompt: {jinja: '{{ source.a }}'}}]",
            "",
            [True],
        ),
    ],
)
def test_a_unit_says_so_itself_else_its_file_and_the_pipeline_do(plan, text, used, expected):
    nodes = plan(text, {"u.yaml": USED % (used, UNIT)}).plan.nodes
    assert [node.work.prompt.delimited for node in nodes] == expected


def test_options_are_delimited_and_what_a_unit_says_around_them_is_not(plan):
    (node,) = plan(
        "delimit: true\npipeline: [{unit: PairwiseJudgeUnit, options: [source.a, source.b]}]"
    ).plan.nodes
    (message,) = node.work.prompt.render(
        {"input": {"A": "first", "B": "second"}, "unit": {}}
    ).messages
    assert message.content.count("<data-") == 3
    assert message.content.startswith("Two options answer")


def test_what_a_pinned_unit_gave_is_not_data_of_others(plan):
    steps = "{unit: CoTUnit, pin: %s, prompt: Write the steps.}, {unit: JudgeUnit, prompt: '{previous.thinking} {source.a}'}"
    for pin, texts in (("true", 1), ("false", 2)):
        _, judge = plan(f"delimit: true\npipeline: [{steps % pin}]").plan.nodes
        values = {"previous": {"cot": {"thinking": "1. Read."}}, "source": {"a": "text"}}
        (message,) = judge.work.prompt.render(values).messages
        assert message.content.count("\n</data-") == texts


def test_tags_use_the_columns_of_the_units(plan):
    built = plan(
        "delimit: true\npipeline: [{unit: JudgeUnit, prompt: '{source.a}'}, {unit: JudgeUnit, name: v, prompt: '{source.b}'}]\n"
        "evaluate: {e: {target: source.label, prediction: output.score}}"
    ).plan
    assert [node.work.prompt.columns for node in built.nodes] == [("a", "b"), ("a", "b")]
    whole = "delimit: true\npipeline: [{unit: JudgeUnit, prompt: '{source}'}, {unit: JudgeUnit, name: v, prompt: '{source.b}'}]"
    assert [node.work.prompt.columns for node in plan(whole).plan.nodes] == [None, None]
