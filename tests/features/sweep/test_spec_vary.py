"""`--vary`: which variants its values make, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.errors import UsageError
from verdict_cli.features.sweep.study_file import StudyVariant, combinations, varied
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.document.overrides import apply_override, remove_value

TEXT = b"""verdict: 1
name: t
model: m
pipeline:
  - {unit: CoTUnit, prompt: think}
  - layer: [{unit: JudgeUnit, scale: likert}]
    repeat: 3
    until: {confidence: 0.9}
"""
DOCUMENT = parse_document(TEXT, "t.yaml")


def variants(vary: Sequence[str], *, together: bool = False) -> tuple[StudyVariant, ...]:
    return combinations(DOCUMENT, varied(vary), together=together)


def variants_of(*vary: str, together: bool = False) -> list[tuple[str, object]]:
    return [
        (variant.name, remove_value(apply_override(DOCUMENT, variant.settings), variant.off).data)
        for variant in variants(vary, together=together)
    ]


def test_values_are_set_as_set_does() -> None:
    variants_made = variants_of("pipeline[1].repeat=1,5")
    assert [name for name, _ in variants_made] == ["repeat=1", "repeat=5"]
    assert [data["pipeline"][1]["repeat"] for _, data in variants_made] == [1, 5]  # type: ignore[index]


def test_several_paths_make_a_grid_and_together_they_make_pairs() -> None:
    vary = ("pipeline[1].repeat=1,5", "model=a,b")
    assert [name for name, _ in variants_of(*vary)] == [
        "repeat=1 model=a", "repeat=1 model=b", "repeat=5 model=a", "repeat=5 model=b",
    ]  # fmt: skip
    assert [name for name, _ in variants_of(*vary, together=True)] == [
        "repeat=1 model=a",
        "repeat=5 model=b",
    ]


def test_lists_and_mappings_are_values() -> None:
    variants_made = variants_of("model=[a, b],{name: c}")
    assert [data["model"] for _, data in variants_made] == [["a", "b"], {"name": "c"}]  # type: ignore[index]


def test_a_step_is_switched_off_and_on() -> None:
    on, off = variants_of("pipeline[0]=on,off")
    assert len(on[1]["pipeline"]) == 2  # type: ignore[index]
    assert [list(step) for step in off[1]["pipeline"]] == [["layer", "repeat", "until"]]  # type: ignore[index]


def test_paths_of_what_is_left_out_are_those_of_the_file() -> None:
    both = variants(["pipeline[0]=off", "pipeline[1].until=off"])[0]
    assert remove_value(DOCUMENT, both.off).data["pipeline"] == [
        {"layer": [{"unit": "JudgeUnit", "scale": "likert"}], "repeat": 3}
    ]


def test_what_follows_a_left_out_step_keeps_its_place_in_the_file() -> None:
    shortened = remove_value(DOCUMENT, ["pipeline[0]"])
    assert shortened.value_at(("pipeline", 0, "repeat")) == DOCUMENT.value_at(
        ("pipeline", 1, "repeat")
    )


def test_on_and_off_are_texts_where_a_text_is_expected() -> None:
    assert [data["model"] for _, data in variants_of("model=on,off")] == ["on", "off"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("vary", "words"),
    [
        (["pipeline[1].repeat"], "PATH=V1,V2"),
        (["pipeline[1].repeat="], "not YAML"),
        (["model=[a"], "not YAML"),
        (["model=a,a"], "twice"),
        (["model=a", "model=b"], "twice"),
        (["a b=1"], "not a path"),
    ],
)
def test_a_mistake_is_reported(vary: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        variants(vary)


def test_together_needs_as_many_values_of_each() -> None:
    with pytest.raises(UsageError, match=r"pipeline\[1\].repeat has 3, model has 2"):
        variants(["pipeline[1].repeat=1,2,3", "model=a,b"], together=True)


@given(
    st.lists(st.lists(st.integers(), min_size=1, max_size=4, unique=True), min_size=1, max_size=3)
)
def test_a_grid_has_every_combination_once(values: list[list[int]]) -> None:
    vary = [
        f"k{place}={','.join(map(str, values_of_key))}"
        for place, values_of_key in enumerate(values)
    ]
    grid = variants(vary)
    count = 1
    for values_of_key in values:
        count *= len(values_of_key)
    assert (
        len(grid)
        == len({variant.name for variant in grid})
        == len({variant.settings for variant in grid})
        == count
    )
