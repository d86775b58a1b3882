"""Names of a file: declared unit types, named blocks, blocks of other files, prompt files, scales."""

from __future__ import annotations

import pytest

from verdict_cli.plan.node import Plan


def prompt(plan: Plan, place: int) -> str:
    return "".join(
        str(part) for _, parts in plan.nodes[place].work.prompt.sections for part in parts
    )


TYPES = """
    units:
      Strict: {base: JudgeUnit, scale: boolean, prompt: "Strictly?", explanation: true}
      Stricter: {base: Strict, prompt: "More strictly?", name: hard}
    pipeline:
      - layer: [{unit: Strict}, {unit: Stricter, prompt: "Own?"}, {unit: Stricter, scale: likert, name: own}]
"""


def test_a_declared_type_is_its_base_with_its_keys(plan):
    compiled = plan(TYPES).plan
    assert [node.id for node in compiled.nodes] == ["strict", "hard", "own"]
    assert [prompt(compiled, place) for place in range(3)] == [
        "Strictly?",
        "Own?",
        "More strictly?",
    ]
    assert [node.settings["scale"] for node in compiled.nodes] == [
        "yes, no",
        "yes, no",
        "1, 2, 3, 4, 5",
    ]
    assert {node.unit.type_name for node in compiled.nodes} == {"JudgeUnit"}


@pytest.mark.parametrize(
    ("units", "step", "code", "path", "hint"),
    [
        ("{A: {base: JugdeUnit}}", "CoTUnit", "unknown-unit", "units.A.base", "JudgeUnit"),
        ("{A: {base: B}, B: {base: A}}", "CoTUnit", "unknown-unit", "units", ""),
        ("{Strict: {base: JudgeUnit}}", "Stritc", "unknown-unit", "pipeline[0].unit", "Strict"),
        ("{JudgeUnit: {base: CoTUnit}}", "CoTUnit", "name-used-twice", "units.JudgeUnit", ""),
        ("{A: {base: JudgeUnit, promt: x}}", "CoTUnit", "unknown-key", "units.A.promt", "prompt"),
        ("{A: {base: JudgeUnit, unit: CoTUnit}}", "CoTUnit", "unknown-key", "units.A.unit", "base"),
        ("{A: {base: JudgeUnit, model: {retries: -1, name: m}}}", "A", "wrong-value", "units.A.model.retries", ""),
        ("{A: {base: PairwiseJudgeUnit, tie: yes}}", "A", "wrong-type", "units.A.tie", "true"),
    ],
)  # fmt: skip
def test_a_bad_type_is_named_where_it_is_declared(refused, units, step, code, path, hint):
    problems = refused(f"units: {units}\npipeline: [{{unit: {step}, prompt: x}}]")
    assert any(
        problem.code == code and problem.path.startswith(path) and hint in problem.hint
        for problem in problems
    ), problems


def test_a_bad_key_of_a_step_of_a_declared_type_is_named_at_the_step(refusal):
    problem = refusal(
        "units: {A: {base: JudgeUnit, prompt: x}}\npipeline: [{unit: A, explanation: 1}]"
    )
    assert (problem.code, problem.path, problem.line) == (
        "wrong-type",
        "pipeline[0].explanation",
        5,
    )


def test_a_key_that_a_type_needs_may_come_from_the_step(plan, refusal):
    text = "units: {A: {base: ArgumentUnit, prompt: x, target: it}}\npipeline: [{unit: A%s}]"
    assert plan(text % ", stance: for").plan.nodes[0].id == "a"
    assert refusal(text % "").code == "missing-key"


# Blocks


def test_a_named_block_is_inserted_wherever_it_is_used(plan):
    compiled = plan(
        """
        blocks: {b: [{unit: CoTUnit, prompt: x}, {unit: JudgeUnit, prompt: "{previous.thinking}"}]}
        pipeline: [{layer: [{use: b}], repeat: 2}, {use: b}]
        """
    ).plan
    assert [node.id for node in compiled.nodes] == [
        "cot[0]",
        "judge[0]",
        "cot[1]",
        "judge[1]",
        "cot[2]",
        "judge[2]",
    ]
    assert ("judge[0]", "cot[2]") in compiled.edges and ("judge[1]", "cot[2]") in compiled.edges


OTHER = """\
    verdict: 1
    name: other
    scales: {grade: {values: [bad, good]}}
    units: {Own: {base: JudgeUnit, scale: grade, prompt: {file: own.md}}}
    blocks: {b: [{unit: Own, model: m}, {use: c}], c: [{unit: JudgeUnit, scale: grade, prompt: c}]}
    models: {m: theirs}
    pipeline: [{use: b}]
"""


@pytest.mark.parametrize("reached", ["sub/other.yaml", "./sub/../sub/other.yaml"])
def test_a_block_of_another_file_has_that_files_names(plan, reached):
    compiled = plan(
        f"scales: {{grade: boolean_is_not}}\npipeline: [{{use: '{reached}#b'}}]".replace(
            "boolean_is_not", "{values: [x, y]}"
        ),
        {"sub/other.yaml": OTHER, "sub/own.md": "Their prompt."},
    ).plan
    assert [node.settings["scale"] for node in compiled.nodes] == ["bad, good", "bad, good"]
    assert prompt(compiled, 0) == "Their prompt."
    assert [node.work.models[0].name for node in compiled.nodes] == ["theirs", "m"]


def test_a_problem_of_another_file_is_in_that_file(refused):
    problems = refused(
        "pipeline: [{use: 'o.yaml#b'}]",
        {"o.yaml": OTHER.replace("scale: grade, prompt: c", "scale: gade, prompt: c")},
    )
    assert {(problem.file[-6:], problem.code) for problem in problems} == {
        ("o.yaml", "file-not-found"),
        ("o.yaml", "unknown-scale"),
    }


@pytest.mark.parametrize(
    ("use", "code"),
    [("c", "unknown-block"), ("o.yaml#x", "unknown-block"), ("none.yaml#b", "bad-file"), ("#b", "bad-file"), ('"\\0#b"', "bad-file")],
)  # fmt: skip
def test_a_block_that_is_not_there_is_refused(refused, use, code):
    use = use if "#" not in use or use.startswith('"') else f'"{use}"'
    problems = refused(f"pipeline: [{{use: {use}}}]", {"o.yaml": OTHER, "own.md": "x"})
    assert code in {problem.code for problem in problems}


def test_the_nearest_block_is_named(refusal):
    problem = refusal(
        "blocks: {ensemble: [{unit: CoTUnit, prompt: x}]}\npipeline: [{use: ensembel}]"
    )
    assert "'ensemble'" in problem.hint and problem.path == "pipeline[0].use"


@pytest.mark.parametrize(
    "text",
    [
        "blocks: {a: [{use: a}]}\npipeline: [{use: a}]",
        "blocks: {a: [{use: b}], b: [{layer: [{use: a}]}]}\npipeline: [{use: b}]",
        "blocks: {a: [{use: 'p.yaml#a'}]}\npipeline: [{use: a}]",
        "blocks: {a: [{use: 'x/../p.yaml#a'}]}\npipeline: [{use: 'p.yaml#a'}]",
    ],
)
def test_a_block_that_uses_itself_is_refused(refusal, text):
    assert refusal(text).code == "block-cycle"


def test_two_files_that_use_each_other_in_a_circle_are_refused(refusal):
    other = "verdict: 1\nname: o\nblocks: {b: [{use: 'p.yaml#a'}]}\npipeline: [{use: b}]\n"
    assert (
        refusal("blocks: {a: [{use: 'o.yaml#b'}]}\npipeline: [{use: a}]", {"o.yaml": other}).code
        == "block-cycle"
    )


def test_blocks_that_double_end_at_the_limit_of_units(refused):
    doubling = ", ".join(f"b{n}: [{{use: b{n + 1}}}, {{use: b{n + 1}}}]" for n in range(40))
    problems = refused(
        f"blocks: {{{doubling}, b40: [{{unit: CoTUnit, prompt: x}}]}}\npipeline: [{{use: b0}}]"
    )
    assert [problem.code for problem in problems] == ["too-many-units"]


# Prompt files


def test_a_prompt_file_is_read_beside_the_pipeline_file(plan):
    compiled = plan(
        "pipeline: [{unit: CoTUnit, prompt: {file: p/a.md}}]", {"p/a.md": "\ufeffFrom {source.q}"}
    ).plan
    assert [used.column for used in compiled.columns] == ["q"]
    assert compiled.resolved["pipeline"][0]["prompt"] == "From {source.q}"


@pytest.mark.parametrize("file", ["none.md", "p", '"\\0"'])
def test_a_prompt_file_that_cannot_be_read_is_named(refusal, file):
    problem = refusal(f"pipeline: [{{unit: CoTUnit, prompt: {{file: {file}}}}}]", {"p/a.md": ""})
    assert problem.code == "file-not-found" and problem.path == "pipeline[0].prompt.file"


def test_a_prompt_file_that_is_not_utf8_is_named(refusal, tmp_path):
    (tmp_path / "a.md").write_bytes(b"\xff")
    assert refusal("pipeline: [{unit: CoTUnit, prompt: {file: a.md}}]").code == "bad-encoding"


def test_an_empty_prompt_is_refused(refusal):
    assert refusal("pipeline: [{unit: CoTUnit, prompt: ' '}]").code == "empty-prompt"


def test_a_jinja_prompt_of_a_type_that_adds_its_own_words_is_refused(refusal):
    text = "pipeline: [{unit: DebateUnit, role_name: A, stance: b, prompt: {jinja: 'x'}}]"
    assert refusal(text).code == "bad-prompt"


# Scales


@pytest.mark.parametrize("name", ["likert", "boolean", "str"])
def test_a_scale_cannot_take_a_built_in_name(refusal, name):
    text = f"scales: {{{name}: {{values: [a, b]}}}}\npipeline: [{{unit: CoTUnit, prompt: x}}]"
    assert refusal(text).code == "name-used-twice"


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("scale: {range: [aa, b]}", "pipeline[0].scale.range"),
        ("response: {s: {type: discrete, range: [5, 1]}}", "pipeline[0].response.s.range"),
        ("input: {s: {deep: {type: continuous, min: 2}}}", "pipeline[0].input.s.deep.min"),
    ],
)
def test_a_scale_that_makes_no_sense_is_refused(refused, key, path):
    problems = refused(f"pipeline: [{{unit: JudgeUnit, prompt: x, {key}}}]")
    assert ("bad-scale", path) in {(problem.code, problem.path) for problem in problems}


def test_a_declared_scale_that_makes_no_sense_is_reported_once(refusal):
    text = "scales: {s: {range: [aa, b]}}\npipeline: [{unit: JudgeUnit, scale: s, prompt: x}, {unit: Unit, response: {a: s}, prompt: x}]"
    assert refusal(text).path == "scales.s.range"


def test_a_pool_over_words_names_both_ways_out(refusal, plan):
    text = "pipeline: [{layer: [{unit: JudgeUnit, scale: %s, prompt: x}], repeat: 2}, {unit: MaxPoolUnit%s}]"
    for field_key in ("", ", field: score", ", fields: [score]"):
        problem = refusal(text % ("{values: [no, yes]}", field_key))
        assert "scores:" in problem.hint and "ModePoolUnit" in problem.hint
    scored = plan(text % ("{values: [no, yes], scores: {no: 0, yes: 1}}", "")).plan
    assert scored.nodes[-1].output.fields["score"].type_name() == "float"


def test_a_column_without_a_name_can_be_used(plan):
    compiled = plan("""
        dataset: {where: "source['']"}
        pipeline: [{unit: JudgeUnit, prompt: "{source['']}"}]
    """).plan
    assert [used.column for used in compiled.columns] == [""]
