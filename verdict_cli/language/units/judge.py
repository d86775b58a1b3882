"""`JudgeUnit`: a score on a scale, the standard LLM judge (paper, appendix A.1)."""

from __future__ import annotations

from typing import Literal

from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.discrete import LIKERT
from verdict_cli.language.units.base import LLMUnit


class JudgeUnit(LLMUnit):
    """Scores on a scale: 1 to 5 by default."""

    unit: Literal["JudgeUnit"] = "JudgeUnit"
    """The unit's type."""

    def default_scale(self) -> Scale:
        return LIKERT

    def scaled_field(self) -> str:
        return "score"
