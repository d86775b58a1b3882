"""How a pipeline spells a scale."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from verdict_cli.language.scales import ScaleKey, named_scales, scale_type
from verdict_cli.language.scales.boolean import BooleanScale
from verdict_cli.language.scales.continuous import ContinuousScale
from verdict_cli.language.scales.discrete import LIKERT, DiscreteScale

ADAPTER: TypeAdapter[Any] = TypeAdapter(ScaleKey)


def test_the_named_scales_are_likert_and_boolean():
    assert {"likert": LIKERT, "boolean": BooleanScale()} == named_scales()
    assert LIKERT.values() == (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("spelling", "scale"),
    [
        ({"type": "discrete", "range": [1, 10]}, DiscreteScale(range=(1, 10))),
        ({"type": "discrete", "range": ["a", "e"]}, DiscreteScale(range=("a", "e"))),
        ({"type": "discrete", "range": [0, 1, 0.25]}, DiscreteScale(range=(0, 1, 0.25))),
        (
            {"type": "discrete", "values": ["unsafe", "safe"]},
            DiscreteScale(values=("unsafe", "safe")),
        ),
        (
            {"type": "boolean", "yes": ["safe"], "no": ["unsafe"]},
            BooleanScale(yes=("safe",), no=("unsafe",)),
        ),
        ({"type": "continuous", "min": 0, "max": 1}, ContinuousScale(min=0, max=1)),
        ({"values": [1, 2]}, DiscreteScale(values=(1, 2))),
        ("likert", "likert"),
    ],
)
def test_each_spelling_of_the_language_means_its_scale(spelling, scale):
    assert ADAPTER.validate_python(spelling) == scale


@pytest.mark.parametrize(
    "spelling", [{"type": "ordinal"}, {"type": 3}, {}, {"min": 0, "values": [1]}, 3, None, ["a"]]
)
def test_what_spells_no_scale_is_refused(spelling):
    assert scale_type(spelling) is None
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(spelling)
