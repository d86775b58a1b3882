"""`JudgeUnit`: a score on a scale, the standard LLM judge (paper, appendix A.1)."""

from __future__ import annotations

from typing import Literal

from verdict_cli.fields import FieldType, OnScale
from verdict_cli.scales import LIKERT, Scale
from verdict_cli.units.keys import Asking


class JudgeUnit(Asking):
    """Scores on a scale: 1 to 5 where none is set."""

    unit: Literal["JudgeUnit"]
    """The unit's type."""

    def default_scale(self) -> Scale:
        """The Likert scale."""
        return LIKERT

    def own_fields(self, scale: Scale | None) -> dict[str, FieldType]:
        """`score`."""
        assert scale is not None
        return {"score": OnScale(scale)}

    def scaled_field(self) -> str:
        """`score`."""
        return "score"
