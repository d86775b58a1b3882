"""`Unit`: any response that its author declares."""

from __future__ import annotations

from typing import ClassVar, Literal

from verdict_cli.config_model import KeyRule
from verdict_cli.language.units.base import LLMUnit


class Unit(LLMUnit):
    """A unit with the response that `response` declares; with a `scale`, a `score` on it follows."""

    unit: Literal["Unit"] = "Unit"
    """The unit's type."""

    key_rules: ClassVar[tuple[KeyRule, ...]] = (
        KeyRule("", "", ("response", "scale"), "a Unit needs a `response`", "declare its fields: `response: {answer: str}`"),
    )  # fmt: skip

    def scaled_field(self) -> str | None:
        return None if self.scale is None else "score"
