"""`Unit`: any response that its author declares."""

from __future__ import annotations

from typing import Literal

from verdict_cli.language.fields.types import FieldType, ScaleType
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.base import LLMUnit, UnitIssue


class Unit(LLMUnit):
    """A unit with the response that `response` declares; with a `scale`, a `score` on it follows."""

    unit: Literal["Unit"]
    """The unit's type."""

    def validation_error(self) -> UnitIssue | None:
        """Something must be asked for."""
        if self.response is None and self.scale is None:
            return ("", "a Unit needs a `response`", "declare its fields: `response: {answer: str}`")
        return None

    def own_fields(self, scale: Scale | None) -> dict[str, FieldType]:
        return {} if scale is None else {"score": ScaleType(scale)}

    def scaled_field(self) -> str | None:
        return None if self.scale is None else "score"
