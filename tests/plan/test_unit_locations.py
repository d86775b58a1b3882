"""The units of a pipeline file."""

from __future__ import annotations

from typing import Any

import pytest

from verdict_cli.plan.unit_locations import locate_units

PAIR = {"unit": "PairwiseJudgeUnit", "options": ["source.a", "source.b"]}


def test_units_are_found_in_layers_and_blocks_with_their_paths() -> None:
    data = {
        "pipeline": [
            {"unit": "CoTUnit"},
            {"layer": [{"unit": "JudgeUnit", "name": "j"}], "repeat": 2},
        ],
        "blocks": {"panel": [PAIR]},
    }
    units = locate_units(data)
    assert [(unit.path, unit.type) for unit in units] == [
        ("pipeline[0]", "CoTUnit"),
        ("pipeline[1].layer[0]", "JudgeUnit"),
        ("blocks.panel[0]", "PairwiseJudgeUnit"),
    ]
    assert units[1].name == "j"


def test_a_custom_unit_has_the_keys_and_the_type_of_its_base() -> None:
    data = {
        "units": {
            "Strict": {"base": "Graded", "scale": {"range": [1, 3]}},
            "Graded": {"base": "JudgeUnit", "scale": {"range": [1, 9]}, "explanation": True},
        },
        "pipeline": [{"unit": "Strict", "prompt": "p"}],
    }
    (unit,) = locate_units(data)
    assert (unit.type, unit.keys["scale"], unit.keys["explanation"]) == (
        "JudgeUnit",
        {"range": [1, 3]},
        True,
    )


@pytest.mark.parametrize(
    ("extract", "reads"),
    [
        ("token_probability", True),
        ({"type": "weighted_summed_score"}, True),
        ("raw", False),
        (None, False),
    ],
)
def test_token_extractors_are_recognised(extract: Any, reads: bool) -> None:
    (unit,) = locate_units({"pipeline": [{"unit": "JudgeUnit", "extract": extract}]})
    assert unit.reads_tokens is reads
