"""How a pipeline spells a calibration: `{file: …}`, or its content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from verdict_cli.calibrations.fitted import Fitted
from verdict_cli.keys import Keys, Seq
from verdict_cli.registry import OneOf, Registry
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


FITTED: Registry[Fitted] = Registry(
    __package__,
    {
        "probability": "kinds.ProbabilityMap",
        "score_weights": "kinds.ScoreWeights",
        "pool_weights": "kinds.PoolWeights",
        "threshold": "kinds.Threshold",
    },
)
"""Calibrations by their `kind`."""


def _choices(kind: str) -> dict[str, Callable[[], type[Keys]]]:
    return {"<file>": lambda: CalibrationFile, "<content>": lambda: FITTED[kind]}


MapKey = Annotated[CalibrationFile | Fitted, OneOf(_file_or_content, _choices("probability"))]
"""A map of probabilities."""

_Weights = dict[Value, float]
ScoreWeightsKey = Annotated[
    CalibrationFile | Fitted | _Weights, OneOf(_spelling, _choices("score_weights"), {"<weights>": _Weights})
]
"""Numbers that replace a scale's own: written out, or fitted."""

_List = Annotated[Seq[float], Field(min_length=1)]
PoolWeightsKey = Annotated[
    CalibrationFile | Fitted | _List, OneOf(_spelling, _choices("pool_weights"), {"<list>": _List})
]
"""A weight for each unit that is pooled: written out, or fitted."""

_Text = Annotated[str, Field(min_length=1)]
WhenKey = Annotated[
    CalibrationFile | Fitted | _Text, OneOf(_spelling, _choices("threshold"), {"<text>": _Text})
]
"""When an answer is not sure enough: an expression, or a fitted bound."""
