"""A resolved pipeline: what is written reads back as the same, and is the same pipeline."""

import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.language.document.document import parse_document
from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.resolve import as_yaml

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["yes", "no", "on", "null", "~", "1", "1.0", "0x1", "1e3", "true", "- a", "a: b", "a #b", "@x", "", " ", "\n", "a\n", "\na",
     "a\n b\n", " a\nb", "a \nb", "a\n\nb", "\ta", "a\tb", "{x}", "'", '"', "\\", "a\r\nb", "\x85", "\u2028", "\ufeff", "<<", "=", "---"]
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
)
KEYS = WORDS.filter(lambda word: word != "<<")
VALUES = st.recursive(
    SCALARS,
    lambda part: st.lists(part, max_size=4) | st.dictionaries(KEYS, part, max_size=4),
    max_leaves=15,
)


@settings(deadline=None, max_examples=160)
@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_any_data_reads_back_equal(data):
    read = parse_document(as_yaml(data).encode(), "p.yaml").data
    assert read == data
    assert repr(read) == repr(data)


@given(
    st.dictionaries(
        st.integers() | st.booleans() | st.text("ab", min_size=1), st.integers(), min_size=1
    )
)
@settings(deadline=None)
def test_keys_that_are_no_texts_read_back_equal(data):
    read = parse_document(as_yaml({"scores": data}).encode(), "p.yaml").data["scores"]
    assert {(type(key), key) for key in read} == {(type(key), key) for key in data}


def test_a_shared_value_is_written_out():
    shared = ["a"]
    assert "&" not in as_yaml({"x": shared, "y": shared})


OTHER = """
    verdict: 1
    name: other
    models: {m: {name: theirs, temperature: 0.25}, both: [m, plain]}
    scales: {grade: {range: [a, e]}, share: {type: continuous, max: 2}}
    units:
      Strict: {base: JudgeUnit, scale: grade, prompt: {file: other.md}, explanation: true}
    blocks:
      inner:
        - {unit: Strict, model: m}
      outer:
        - layer: [{use: inner}]
          models: [both, m]
          outer: dense
        - unit: Unit
          name: last
          response: {share: share, deep: {share: share, n: int}, one: {enum: [a, b]}}
          extract: {type: post_hoc, model: both}
          prompt: "{previous.strict[0].score}"
          model: plain
    pipeline: [{unit: CoTUnit, prompt: x}]
"""
MAIN = """
    verdict: 1
    name: main
    model: {name: base, api_base: "http://${HOST_OF_TEST}/v1"}
    models: {m: {name: mine}, plain: {name: not-theirs}}
    scales: {grade: {values: [x, y]}}
    units: {Own: {base: JudgeUnit, prompt: {file: own.md}, scale: grade}}
    blocks: {here: [{unit: Own, name: block}]}
    pipeline:
      - unit: CoTUnit
        prompt: {file: own.md}
      - use: here
      - use: p.yaml#here
      - use: sub/other.yaml#outer
"""


def test_a_resolved_pipeline_is_the_same_pipeline(tmp_path, monkeypatch):
    monkeypatch.setenv("HOST_OF_TEST", "h")
    monkeypatch.setenv("VERDICT_ALLOW_HOSTS", "h")

    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "other.yaml").write_text(textwrap.dedent(OTHER))
    (tmp_path / "sub" / "other.md").write_text("Theirs: {source.q}\n  kept  \n")
    (tmp_path / "own.md").write_text("Mine: {source.q}")
    (tmp_path / "p.yaml").write_text(textwrap.dedent(MAIN))
    first = build_plan(load(tmp_path / "p.yaml")).plan
    alone = tmp_path / "elsewhere" / "spec.yaml"
    alone.parent.mkdir()
    alone.write_text(as_yaml(first.resolved), encoding="utf-8")
    second = build_plan(load(alone)).plan
    assert second.fingerprint == first.fingerprint and second.resolved == first.resolved
    assert second.edges == first.edges and "${HOST_OF_TEST}" in alone.read_text()
    for one, other in zip(first.nodes, second.nodes, strict=True):
        assert (one.id, one.name, one.output) == (other.id, other.name, other.output)
        assert one.settings.get("scale") == other.settings.get("scale")
        assert one.work.models == other.work.models and one.work.follow_up == other.work.follow_up
        assert (
            one.work.suffix(7) == other.work.suffix(7)
            and one.work.reading.output == other.work.reading.output
        )
        assert [part for _, part in one.work.prompt.sections] == [
            part for _, part in other.work.prompt.sections
        ]


@pytest.mark.parametrize(
    ("change", "same_expected"),
    [
        (("description=words", "evaluate={a: {value: output.score}}"), True),
        (("gates=[{metric: run.calls, max: 9}]",), True),
        (("model=other",), False),
        (("pipeline[0].prompt=y",), False),
        (("pipeline[0].scale.scores={1: 1, 2: 4}",), False),
    ],
)
def test_a_fingerprint_covers_what_models_get_and_nothing_else(plan, change, same_expected):
    text = (
        "pipeline: [{unit: JudgeUnit, prompt: x, model: {name: m, seed: 9%s}, scale: {range: [1, 2]}}]"
        % ("9" * 30)
    )
    if "model" in change[0]:
        text = "pipeline: [{unit: JudgeUnit, prompt: x, scale: {range: [1, 2]}}]"
    is_same = plan(text, settings=change).plan.fingerprint == plan(text).plan.fingerprint
    assert is_same == same_expected
