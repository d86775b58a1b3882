"""Scales of a few values: a range of numbers or letters, or listed values."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field

from verdict_cli.config_model import ConfigModel, Seq
from verdict_cli.errors import ReplyError
from verdict_cli.language.scales.parse_value import folded, match_value, parse_number

LIMIT = 1000
"""The most values that a range may have."""


@lru_cache(maxsize=256, typed=True)  # 1 and 1.0 are equal as keys
def parse_range(first: Any, last: Any, step: Any = 1) -> tuple[Any, ...]:
    """The values of a range without `trouble`. Decimals are counted as they are written: 0.1, 0.2, 0.3."""
    if isinstance(first, str):
        return tuple(chr(code) for code in range(ord(first), ord(last) + 1, int(step)))
    kind = int if all(isinstance(part, int) for part in (first, last, step)) else float
    low, width = _exact(first), _exact(step)
    return tuple(kind(low + width * place) for place in range(_count(first, last, width)))


def validation_error(ends: Sequence[Any]) -> tuple[str, str] | None:
    """(what is wrong, hint) of a range that has no values, too many, or values of two kinds, else None."""
    first, last, *rest = ends
    step = rest[0] if rest else 1
    if isinstance(step, bool | str) or step <= 0:
        return f"the step {step!r} is not a number above 0", "write `range: [0, 1, 0.25]`"
    if isinstance(first, str) and isinstance(last, str):
        if not _letters(first, last) or not isinstance(step, int):
            wanted = "two single letters of one alphabet and case, and a whole step"
            return f"a range of letters takes {wanted}", "write `range: [a, e]`, or list the `values`"
        count = _count(ord(first), ord(last), step)
    elif not isinstance(first, str | bool) and not isinstance(last, str | bool):
        count = _count(first, last, step)
    else:
        return f"the ends {first!r} and {last!r} are not of one kind", "both numbers, or both single letters"
    if count < 1:
        hint = "put the smaller end first; `end_is_worst: true` flips the direction"
        return f"the range runs from {first!r} down to {last!r}", hint
    if count > LIMIT:
        return f"the range has {count} values, more than {LIMIT}", "use a larger step or `type: continuous`"
    if len(set(parse_range(*ends))) < count:
        return f"the step {step!r} is too small to tell values near {last!r} apart", "use a larger step"
    return None


def _count(first: Any, last: Any, step: Any) -> int:
    low, high = _exact(first), _exact(last)
    return int((high - low) / _exact(step)) + 1 if high >= low else 0


def _exact(number: float | Fraction) -> Fraction:
    """The number as it is written: 0.1 is one tenth."""
    return Fraction(str(number))


def _letters(first: str, last: str) -> bool:
    """Whether both are single characters and all from the one to the other are letters."""
    single = len(first) == len(last) == 1
    return single and all(chr(code).isalpha() for code in range(ord(first), ord(last) + 1))


Value = Annotated[str | int | float | bool, Field(union_mode="left_to_right")]


class Discrete(ConfigModel):
    """A scale of listed values, or of a range with both ends included; worst value first."""

    type: Literal["discrete"] = "discrete"
    """The kind of scale."""
    range: Annotated[Seq[Value], Field(min_length=2, max_length=3)] | None = None
    """First and last value (integers, decimals or single letters) and optionally the step between values."""
    values_: Annotated[Seq[Value], Field(min_length=1)] | None = Field(default=None, alias="values")
    """The values, worst first."""
    end_is_worst: bool = False
    """Whether the last value is the worst one."""
    scores: dict[Value, float] | None = None
    """A number for each value, used wherever a number is needed."""

    def problem(self) -> tuple[str, str, str] | None:
        """(key, what is wrong, hint) when the scale makes no sense, else None."""
        if (self.range is None) == (self.values_ is None):
            return (
                "",
                "a discrete scale needs either `range` or `values`",
                "write `range: [1, 5]` or `values: [unsafe, safe]`",
            )
        if self.range is not None:
            wrong = validation_error(self.range)
            return ("range", *wrong) if wrong is not None else self._scores_problem()
        seen: list[Any] = []
        for value in self.values_ or ():
            if not _spelled(value).strip():
                return ("values", f"{value!r} is no word that a model can answer", "give each value a name")
            if any(value == known or _spelled(value) == _spelled(known) for known in seen):
                return ("values", f"the value {value!r} stands twice", "name each value once")
            seen.append(value)
        return self._scores_problem()

    def _scores_problem(self) -> tuple[str, str, str] | None:
        if self.scores is None:
            return None
        for value in self.scores:
            if value not in self.ordered():
                return ("scores", f"{value!r} is not a value of the scale", f"its values are {self.display()}")
        for value in self.ordered():
            if value not in self.scores:
                return ("scores", f"the value {value!r} has no score", "give every value a number")
        return None

    def ordered(self) -> tuple[Any, ...]:
        """The values in the order in which they are written."""
        if self.values_ is not None:
            return self.values_
        assert self.range is not None
        return parse_range(*self.range)

    def values(self) -> tuple[Any, ...]:
        """The values, worst first."""
        return self.ordered()[::-1] if self.end_is_worst else self.ordered()

    def read(self, value: Any) -> Any:
        """The value that a reply's text or JSON value names; ReplyError when it names none."""
        for known in self.ordered():
            if known == value and isinstance(known, bool) == isinstance(value, bool):
                return known
        if isinstance(value, str):
            found = match_value(value, self.tokens()) or self._number_named(value)
            if found is not None:
                return found[0]
        raise ReplyError(f"{value!r:.200} is not on the scale {self.display()}", kind="off-scale")

    def _number_named(self, text: str) -> tuple[Any] | None:
        """(value,) of the number that the text writes in another way, such as 4.0 for 4."""
        written = parse_number(text)
        if written is None or any(folded(token) == folded(text) for token, _ in self.tokens()):
            return None
        for value in self.ordered():
            if not isinstance(value, bool | str) and written == parse_number(_spelled(value)):
                return (value,)
        return None

    def number(self, value: Any) -> float | None:
        """The value's number: its score, itself, 1/0 for a boolean, None for a word without a score."""
        if self.scores is not None:
            return self.scores[value]
        return None if isinstance(value, str) else float(value)

    def numeric(self) -> bool:
        """Whether every value has a number."""
        return self.scores is not None or not any(isinstance(value, str) for value in self.ordered())

    def tokens(self) -> tuple[tuple[str, Any], ...]:
        """(token, value) pairs of the token support, in the written order."""
        return tuple((_spelled(value), value) for value in self.ordered())

    def display(self) -> str:
        """The values as a prompt names them."""
        return ", ".join(_spelled(value) for value in self.ordered())

    def sentence(self, field: str) -> str:
        """The sentence added to a prompt."""
        values = self.values()
        ends = (
            f", where {_spelled(values[0])} is the worst and {_spelled(values[-1])} the best" if len(values) > 1 else ""
        )
        return f"The {field} must be one of: {self.display()}{ends}."

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of a value; the enumeration has the worst value first."""
        kinds = {type(value) for value in self.ordered()}
        schema: dict[str, Any] = {"enum": list(self.values())}
        if len(kinds) == 1:
            schema = {"type": {str: "string", int: "integer", float: "number", bool: "boolean"}[kinds.pop()], **schema}
        return schema


class Categories(Discrete):
    """The values of a categorical judge: no worst and no best one."""

    def sentence(self, field: str) -> str:
        """The sentence added to a prompt."""
        return f"The {field} must be exactly one of: {self.display()}."


def _spelled(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
