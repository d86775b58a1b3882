"""How a pipeline spells a calibration: `{file: …}`, or its content."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from verdict_cli.calibrations.fitted import PoolWeights, ProbabilityMap, ScoreWeights, Threshold
from verdict_cli.keys import Keys, Seq
from verdict_cli.scales.discrete import Value


class CalibrationFile(Keys):
    """A calibration that stands in a file, as `verdict calibrate` writes it."""

    file: Annotated[str, Field(min_length=1)]
    """Path of the file, relative to the pipeline file."""


def _spelling(value: Any) -> str | None:
    if isinstance(value, CalibrationFile) or (isinstance(value, dict) and isinstance(value.get("file"), str)):
        return "<file>"
    if not isinstance(value, dict) or "verdict_calibration" in value:
        return (
            "<text>"
            if isinstance(value, str)
            else "<list>"
            if isinstance(value, list | tuple)
            else "<content>"
        )
    return "<weights>"


def _file_or_content(value: Any) -> str | None:
    return "<file>" if _spelling(value) == "<file>" else "<content>"


_File = Annotated[CalibrationFile, Tag("<file>")]

MapKey = Annotated[_File | Annotated[ProbabilityMap, Tag("<content>")], Discriminator(_file_or_content)]
"""A map of probabilities."""
ScoreWeightsKey = Annotated[
    _File | Annotated[ScoreWeights, Tag("<content>")] | Annotated[dict[Value, float], Tag("<weights>")],
    Discriminator(_spelling),
]
"""Numbers that replace a scale's own: written out, or fitted."""
PoolWeightsKey = Annotated[
    _File
    | Annotated[PoolWeights, Tag("<content>")]
    | Annotated[Annotated[Seq[float], Field(min_length=1)], Tag("<list>")],
    Discriminator(_spelling),
]
"""A weight for each unit that is pooled: written out, or fitted."""
WhenKey = Annotated[
    _File
    | Annotated[Threshold, Tag("<content>")]
    | Annotated[Annotated[str, Field(min_length=1)], Tag("<text>")],
    Discriminator(_spelling),
]
"""When an answer is not sure enough: an expression, or a fitted bound."""
