"""The settings by which an audit changes units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.features.audit.unit_settings import (
    both_orders_settings,
    renamed_label_settings,
    reversed_scale_settings,
)
from verdict_cli.plan.unit_locations import locate_units

PAIR = {"unit": "PairwiseJudgeUnit", "options": ["source.a", "source.b"]}


def parsed(settings: tuple[str, ...]) -> dict[str, Any]:
    """Path -> value of each setting."""
    return {
        path: json.loads(value)
        for path, _, value in (setting.partition("=") for setting in settings)
    }


def test_only_pairwise_judges_of_one_order_are_switched_to_both() -> None:
    data = {"pipeline": [PAIR, {**PAIR, "positions": "both"}, {"unit": "JudgeUnit"}]}
    assert parsed(both_orders_settings(locate_units(data))) == {"pipeline[0].positions": "both"}


def test_a_reversed_scale_ends_with_its_worst_value_and_maps_scores_back() -> None:
    data = {
        "pipeline": [
            {
                "unit": "JudgeUnit",
                "scale": {"type": "discrete", "range": [1, 7]},
                "explanation": True,
            }
        ]
    }
    assert parsed(reversed_scale_settings(locate_units(data), data)) == {
        "pipeline[0].scale": {"type": "discrete", "range": [1, 7], "end_is_worst": True},
        "pipeline[0].propagate": {"score": "8 - output.score", "explanation": "output.explanation"},
    }


def test_the_default_and_a_named_scale_are_reversed_too() -> None:
    data = {
        "scales": {"mine": {"range": [0, 4]}},
        "pipeline": [{"unit": "JudgeUnit"}, {"unit": "JudgeUnit", "scale": "mine"}],
    }
    settings = parsed(reversed_scale_settings(locate_units(data), data))
    assert settings["pipeline[0].propagate"] == {"score": "6 - output.score"}
    assert settings["pipeline[1].propagate"] == {"score": "4 - output.score"}


@pytest.mark.parametrize(
    "keys",
    [
        {"scale": "boolean"},
        {"scale": {"range": ["a", "e"]}},
        {"scale": {"range": [1, 5], "end_is_worst": True}},
        {"scale": {"range": [1, 5], "scores": [1, 2, 3, 4, 9]}},
        {"scale": {"values": ["bad", "good"]}},
        {"extract": "token_probability"},
        {"propagate": {"score": "output.score"}},
    ],
)
def test_scales_that_cannot_be_reversed_are_left_alone(keys: dict[str, Any]) -> None:
    data = {"pipeline": [{"unit": "JudgeUnit", **keys}]}
    assert reversed_scale_settings(locate_units(data), data) == ()


def test_labels_are_renamed_in_scale_and_prompt_and_verdicts_mapped_back(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(
        "Is it good? A goodly {source.good} is not good.", encoding="utf-8"
    )
    data = {
        "pipeline": [
            {
                "unit": "JudgeUnit",
                "scale": {"values": ["bad", "good"]},
                "prompt": {"file": "p.txt"},
            },
            {
                "unit": "CategoricalJudgeUnit",
                "categories": ["good", "other"],
                "prompt": "good or other",
            },
            {"unit": "JudgeUnit", "scale": {"values": ["low", "high"]}, "prompt": "good"},
        ]
    }
    settings = parsed(renamed_label_settings(locate_units(data), data, {"good": "fine"}, tmp_path))
    assert settings == {
        "pipeline[0].scale": {"type": "discrete", "values": ["bad", "fine"]},
        "pipeline[0].propagate": {"score": '{"fine": "good"}.get(output.score, output.score)'},
        "pipeline[0].prompt": "Is it fine? A goodly {source.good} is not fine.",
        "pipeline[1].categories": ["fine", "other"],
        "pipeline[1].propagate": {"choice": '{"fine": "good"}.get(output.choice, output.choice)'},
        "pipeline[1].prompt": "fine or other",
    }
