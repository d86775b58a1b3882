"""What differs between the pipelines of two runs."""

from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.report.comparison import changes_section, pipeline_changes

OLD = {
    "name": "a",
    "model": {"name": "m", "temperature": 0},
    "pipeline": [
        {"unit": "JudgeUnit", "scale": "likert", "prompt": "Rate it.\nBe strict.\n{source.a}"}
    ],
    "evaluate": {"x": {"value": "output.score"}},
}
NEW = {
    "name": "b",
    "model": {"name": "m2", "temperature": 0},
    "pipeline": [
        {"unit": "JudgeUnit", "prompt": "Rate it.\nBe kind.\n{source.a}"},
        {"unit": "MeanPoolUnit"},
    ],
    "evaluate": {},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_changes_of_models_prompts_scales_and_steps_are_listed_and_no_others():
    changes = {change.path: change.values for change in pipeline_changes([OLD, NEW])}
    assert changes == {
        "model.name": ("m", "m2"),
        "pipeline[0].scale": ("likert", None),
        "pipeline[0].prompt": (OLD["pipeline"][0]["prompt"], NEW["pipeline"][0]["prompt"]),
        "pipeline[1]": (None, {"unit": "MeanPoolUnit"}),
    }


def test_a_number_that_becomes_true_or_a_float_is_a_change():
    pipeline = {"pipeline": [{"unit": "JudgeUnit", "seed": 1}]}
    for value in (True, 1.0):
        other = {"pipeline": [{"unit": "JudgeUnit", "seed": value}]}
        changes = pipeline_changes([pipeline, other])
        assert [(change.path, change.values[1]) for change in changes] == [
            ("pipeline[0].seed", value)
        ]


def test_the_lines_of_a_prompt_that_differ_are_shown():
    (section,) = changes_section(pipeline_changes([OLD, NEW]), ["a", "b"])
    texts = [part.text for part in section.parts if part.kind == "code"]
    assert len(texts) == 1 and "-Be strict." in texts[0] and "+Be kind." in texts[0]


@given(
    st.dictionaries(st.text(max_size=3), JSON, max_size=4),
    st.dictionaries(st.text(max_size=3), JSON, max_size=4),
)
def test_a_pipeline_equals_itself_and_differences_are_the_same_both_ways(first, second):
    assert pipeline_changes([first, first]) == [] and not list(changes_section([], []))
    there = {(change.path, repr(change.values)) for change in pipeline_changes([first, second])}
    back = {
        (change.path, repr(change.values[::-1])) for change in pipeline_changes([second, first])
    }
    assert there == back


def test_three_pipelines_are_listed_side_by_side():
    changes = {change.path: change.values for change in pipeline_changes([OLD, NEW, OLD])}
    assert changes["model.name"] == ("m", "m2", "m")
    (section,) = changes_section(pipeline_changes([OLD, NEW, OLD]), ["x", "y", "z"])
    assert section.parts[0].headers == ("key", "x", "y", "z")
    assert [part.text[:13] for part in section.parts if part.kind == "code"] == ["--- x\n+++ y\n@"]
