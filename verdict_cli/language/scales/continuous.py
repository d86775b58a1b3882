"""A scale of all numbers between two ends."""

from __future__ import annotations

from typing import Any, Literal

from verdict_cli.config_model import ConfigModel
from verdict_cli.errors import ReplyError
from verdict_cli.language.scales.parse_value import parse_number


class Continuous(ConfigModel):
    """Every number from `min` to `max`, both included."""

    type: Literal["continuous"] = "continuous"
    """The kind of scale."""
    min: float = 0.0
    """The smallest value."""
    max: float = 1.0
    """The largest value."""
    end_is_worst: bool = False
    """Whether `max` is the worst value."""

    def problem(self) -> tuple[str, str, str] | None:
        """(key, what is wrong, hint) when the scale makes no sense, else None."""
        if self.min >= self.max:
            return ("min", f"min {self.min} is not below max {self.max}", "put the smaller number in `min`")
        return None

    def read(self, value: Any) -> float:
        """The number that a reply's text or JSON value is; ReplyError when it is none or outside the ends."""
        written: float | None = None
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = value
        elif isinstance(value, str) and (found := parse_number(value)) is not None:
            written = float(found)
        if written is None or not self.min <= written <= self.max:
            raise ReplyError(f"{value!r:.200} is not on the scale {self.display()}", kind="off-scale")
        return float(written)

    def number(self, value: Any) -> float:
        """The value itself."""
        return float(value)

    def numeric(self) -> bool:
        """True."""
        return True

    def display(self) -> str:
        """The scale as a prompt names it."""
        return f"{_spelled(self.min)} to {_spelled(self.max)}"

    def sentence(self, field: str) -> str:
        """The sentence added to a prompt."""
        worst, best = (self.max, self.min) if self.end_is_worst else (self.min, self.max)
        ends = f"where {_spelled(worst)} is the worst and {_spelled(best)} the best"
        return f"The {field} must be a number from {self.display()}, {ends}."

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of a value."""
        return {"type": "number", "minimum": self.min, "maximum": self.max}


def _spelled(end: float) -> str:
    return repr(end).removesuffix(".0")
