"""A scale of all numbers between two ends."""

from __future__ import annotations

import math
from typing import Any, Literal

from verdict_cli.config_model import Issue, JsonSchema, python_constructor
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.written_number import Tokens, parse_number
from verdict_cli.messages import is_number


class ContinuousScale(Scale):
    """Every number from `min` to `max`, both included."""

    type: Literal["continuous"] = "continuous"
    """The type of scale."""
    min: float = 0.0
    """The smallest value."""
    max: float = 1.0
    """The largest value."""
    end_is_worst: bool = False
    """Whether `max` is the worst value."""

    @python_constructor
    def __init__(
        self,
        min: float = 0.0,  # noqa: A002
        max: float = 1.0,  # noqa: A002
        *,
        end_is_worst: bool = False,
        **keys: Any,
    ) -> None:
        super().__init__(min=min, max=max, end_is_worst=end_is_worst, **keys)

    def validation_error(self) -> Issue | None:
        if self.min >= self.max:
            return Issue(
                "min",
                f"min {self.min} is not below max {self.max}",
                "put the smaller number in `min`",
            )
        if not math.isfinite(self.max - self.min):
            message = f"the width from {self.min} to {self.max} is too large for a number"
            return Issue("max", message, "give ends that are less far apart")
        return self.descriptions_error()

    def descriptions_error(self) -> Issue | None:
        described = list(self.descriptions or ())
        for value in described:
            if isinstance(value, bool | str) or not self.min <= value <= self.max:
                return Issue(
                    "descriptions",
                    f"{value!r} is not on the scale",
                    f"describe numbers from {self.display()}",
                )
        if described and not {self.min, self.max} <= set(described):
            return Issue(
                "descriptions",
                "an end of the scale has no description",
                f"describe {self.display()}",
            )
        return None

    def anchors(self) -> Tokens:
        """The described numbers, else five equal steps."""
        width = self.max - self.min
        steps = list(self.descriptions or (self.min + width * step / 4 for step in range(5)))
        numbers = sorted(map(float, steps), reverse=self.end_is_worst)
        return tuple((_plain(number), number) for number in numbers)

    def read(self, value: Any) -> float:
        number: float | None = None
        if is_number(value):
            number = value
        elif (
            isinstance(value, str)
            and (parsed := parse_number(value, (self.min, self.max))) is not None
        ):
            number = float(parsed)
        if number is None or not self.min <= number <= self.max:
            raise self.off_scale(value)
        return float(number)

    def bounds(self) -> tuple[float, float]:
        return self.min, self.max

    def best(self) -> float:
        return self.min if self.end_is_worst else self.max

    def display(self) -> str:
        return f"{_plain(self.min)} to {_plain(self.max)}"

    def sentence(self, field: str) -> str:
        worst, best = (self.max, self.min) if self.end_is_worst else (self.min, self.max)
        ends = f"where {_plain(worst)} is the worst and {_plain(best)} the best"
        return f"The {field} must be a number from {self.display()}, {ends}."

    def json_schema(self) -> JsonSchema:
        return {"type": "number", "minimum": self.min, "maximum": self.max}


def _plain(end: float) -> str:
    return repr(end).removesuffix(".0")
