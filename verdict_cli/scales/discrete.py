"""Scales of a few values: a range of numbers or letters, or listed values."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from verdict_cli.errors import ReplyError
from verdict_cli.keys import Keys, Seq
from verdict_cli.scales.span import span, trouble
from verdict_cli.scales.word import folded, named, number

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
            wrong = trouble(self.range)
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
                return (
                    "scores",
                    f"{value!r} is not a value of the scale",
                    f"its values are {self.display()}",
                )
        for value in self.ordered():
            if value not in self.scores:
                return ("scores", f"the value {value!r} has no score", "give every value a number")
        return None

    def ordered(self) -> tuple[Any, ...]:
        """The values in the order in which they are written."""
        if self.values_ is not None:
            return self.values_
        assert self.range is not None
        return span(*self.range)

    def values(self) -> tuple[Any, ...]:
        """The values, worst first."""
        return self.ordered()[::-1] if self.end_is_worst else self.ordered()

    def read(self, value: Any) -> Any:
        """The value that a reply's text or JSON value names; ReplyError when it names none."""
        for known in self.ordered():
            if known == value and isinstance(known, bool) == isinstance(value, bool):
                return known
        if isinstance(value, str):
            found = named(value, self.tokens()) or self._number_named(value)
            if found is not None:
                return found[0]
        raise ReplyError(f"{value!r:.200} is not on the scale {self.display()}", kind="off-scale")

    def _number_named(self, text: str) -> tuple[Any] | None:
        """(value,) of the number that the text writes in another way, such as 4.0 for 4."""
        written = number(text)
        if written is None or any(folded(token) == folded(text) for token, _ in self.tokens()):
            return None
        for value in self.ordered():
            if not isinstance(value, bool | str) and written == number(_spelled(value)):
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
