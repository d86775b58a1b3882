"""Scales of a few values: a range of numbers or letters, or listed values."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field

from verdict_cli.errors import ReplyError
from verdict_cli.keys import Keys, Seq
from verdict_cli.scales.word import bare

LIMIT = 1000
"""The most values that a range may have."""

Value = Annotated[str | int | float | bool, Field(union_mode="left_to_right")]


class Discrete(Keys):
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
            return self._range_problem()
        seen: set[tuple[type, Any]] = set()
        for value in self.values_ or ():
            if (type(value), value) in seen:
                return ("values", f"the value {value!r} stands twice", "name each value once")
            seen.add((type(value), value))
        return self._scores_problem()

    def _range_problem(self) -> tuple[str, str, str] | None:
        assert self.range is not None
        first, last, *rest = self.range
        step = rest[0] if rest else 1
        if isinstance(step, bool | str) or step <= 0:
            return ("range", f"the step {step!r} is not a number above 0", "write `range: [0, 1, 0.25]`")
        if isinstance(first, str) and isinstance(last, str):
            if len(first) != 1 or len(last) != 1 or not isinstance(step, int):
                return (
                    "range",
                    "a range of letters takes two single letters and a whole step",
                    "write `range: [a, e]`, or list the `values`",
                )
            count = (ord(last) - ord(first)) // step + 1
        elif not isinstance(first, str | bool) and not isinstance(last, str | bool):
            count = (
                int((Decimal(str(last)) - Decimal(str(first))) / Decimal(str(step))) + 1
                if last >= first
                else 0
            )
        else:
            return (
                "range",
                f"the ends {first!r} and {last!r} are not of one kind",
                "both numbers, or both single letters",
            )
        if count < 1:
            return (
                "range",
                f"the range runs from {first!r} down to {last!r}",
                "put the smaller end first; `end_is_worst: true` flips the direction",
            )
        if count > LIMIT:
            return (
                "range",
                f"the range has {count} values, more than {LIMIT}",
                "use a larger step or `type: continuous`",
            )
        return self._scores_problem()

    def _scores_problem(self) -> tuple[str, str, str] | None:
        for value in self.scores or {}:
            if value not in self.ordered():
                return (
                    "scores",
                    f"{value!r} is not a value of the scale",
                    f"its values are {self.display()}",
                )
        missing = [value for value in self.ordered() if value not in self.scores] if self.scores else []
        return (
            ("scores", f"the value {missing[0]!r} has no score", "give every value a number")
            if missing
            else None
        )

    def ordered(self) -> tuple[Any, ...]:
        """The values in the order in which they are written."""
        if self.values_ is not None:
            return self.values_
        assert self.range is not None
        first, last, *rest = self.range
        if isinstance(first, str):
            step = int(rest[0]) if rest else 1
            return tuple(chr(code) for code in range(ord(first), ord(str(last)) + 1, step))
        kind = int if all(isinstance(part, int) for part in self.range) else float
        low, high = Decimal(str(first)), Decimal(str(last))
        width = Decimal(str(rest[0])) if rest else Decimal(1)
        return tuple(kind(low + width * place) for place in range(int((high - low) / width) + 1))

    def values(self) -> tuple[Any, ...]:
        """The values, worst first."""
        return self.ordered()[::-1] if self.end_is_worst else self.ordered()

    def read(self, value: Any) -> Any:
        """The value that a reply's text or JSON value names; ReplyError when it names none."""
        values = self.ordered()
        for known in values:
            if known == value and isinstance(known, bool) == isinstance(value, bool):
                return known
        if isinstance(value, str):
            word = bare(value)
            exact = [known for known in values if _spelled(known) == word]
            loose = exact or [known for known in values if _spelled(known).casefold() == word.casefold()]
            if len(loose) == 1:
                return loose[0]
            if not loose and (number := _number(word)) is not None:
                for known in values:
                    if not isinstance(known, bool | str) and known == number:
                        return known
        raise ReplyError(f"{value!r} is not on the scale {self.display()}", kind="off-scale")

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
            f", where {_spelled(values[0])} is the worst and {_spelled(values[-1])} the best"
            if len(values) > 1
            else ""
        )
        return f"The {field} must be one of: {self.display()}{ends}."

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of a value; the enumeration has the worst value first."""
        kinds = {type(value) for value in self.ordered()}
        schema: dict[str, Any] = {"enum": list(self.values())}
        if len(kinds) == 1:
            schema = {
                "type": {str: "string", int: "integer", float: "number", bool: "boolean"}[kinds.pop()],
                **schema,
            }
        return schema


class Categories(Discrete):
    """The values of a categorical judge: no worst and no best one."""

    def sentence(self, field: str) -> str:
        """The sentence added to a prompt."""
        return f"The {field} must be exactly one of: {self.display()}."


def _spelled(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _number(word: str) -> Decimal | None:
    try:
        number = Decimal(word)
    except ArithmeticError:
        return None
    return number if number.is_finite() else None
