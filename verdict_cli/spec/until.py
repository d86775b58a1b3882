"""`until:` on a layer: its units are asked only while what their pool says is open."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from verdict_cli.keys import Keys, Whole

MOST = 100
"""The most units of a layer that stops early."""


class Until(Keys):
    """When a layer that is repeated has said enough: further units are asked only while the vote, or the mean, is open."""

    confidence: Annotated[float, Field(gt=0, le=1)]
    """The least probability that the pool says of all units what it says of those asked; 1 stops only what nothing can change any more."""
    max: Annotated[int, Field(ge=2, le=MOST), Whole] | None = None
    """The most units that are asked: all of the layer's where it is not given. Above `repeat`, this many copies are made, of which the first `repeat` are asked side by side."""
    batch: Annotated[int, Field(ge=1), Whole] = 1
    """How many further units are asked side by side before the next look."""
    threshold: float | None = None
    """For a mean: stops when all units' mean lies on the same side of this number."""
    within: Annotated[float, Field(gt=0)] | None = None
    """For a mean: stops when all units' mean lies within this distance of the mean so far."""
