"""`Unit`: any response that its author declares."""

from __future__ import annotations

from typing import Literal

from verdict_cli.language.units.base import LLMUnit, UnitIssue


class Unit(LLMUnit):
    """A unit with the response that `response` declares; with a `scale`, a `score` on it follows."""

    unit: Literal["Unit"] = "Unit"
    """The unit's type."""

    def validation_error(self) -> UnitIssue | None:
        """Something must be asked for."""
        if self.response is None and self.scale is None:
            return ("", "a Unit needs a `response`", "declare its fields: `response: {answer: str}`")
        return None

    def scaled_field(self) -> str | None:
        return None if self.scale is None else "score"
