"""`MapUnit`: expressions over the outputs of the units before it (paper, section 3.3). No model call."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from verdict_cli.language.units.base import Expressions, UnitBase


class MapUnit(UnitBase):
    """Computes its fields from `outputs`, the list of its dependencies' outputs in order of definition."""

    unit: Literal["MapUnit"] = "MapUnit"
    """The unit's type."""
    expressions: Expressions = Field(alias="map")
    """An expression for each output field."""
