"""Scales of a few values: a range of numbers or letters, or listed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.config import JsonDict

from verdict_cli.config_model import (
    Issue,
    JsonSchema,
    KeyRule,
    MessageAndHint,
    NonEmptyTuple,
    python_constructor,
)
from verdict_cli.errors import UsageError
from verdict_cli.language.scales import Scale, Value, shuffled_order
from verdict_cli.language.scales.written_number import (
    Tokens,
    are_labels,
    fold_case,
    match_value,
    number_ends,
    parse_number,
)
from verdict_cli.messages import plain_text

MAX_VALUES = 1000
"""The most values that a range may have."""


@lru_cache(maxsize=256, typed=True)  # 1 and 1.0 are equal as keys
def parse_range(first: Any, last: Any, step: Any = 1) -> tuple[Any, ...]:
    """The values of a range that has no `range_error`. Decimals are counted as written: 0.1, 0.2, 0.3."""
    if isinstance(first, str):
        return tuple(chr(code) for code in range(ord(first), ord(last) + 1, int(step)))
    kind = int if all(isinstance(number, int) for number in (first, last, step)) else float
    low, width = _exact(first), _exact(step)
    return tuple(kind(low + width * index) for index in range(_count(first, last, width)))


def range_error(ends: Sequence[Any]) -> MessageAndHint | None:
    """(what is wrong, hint) of a range without values, with too many, or with ends of different types, else None."""
    first, last, *steps = ends
    step = steps[0] if steps else 1
    if isinstance(step, bool | str) or step <= 0:
        return f"the step {step!r} is not a number above 0", "write `range: [0, 1, 0.25]`"
    are_texts = isinstance(first, str) and isinstance(last, str)
    if are_texts and not (_letters(first, last) and isinstance(step, int)):
        expected = "two single letters of one alphabet and case, and a whole step"
        hint = "write `range: [a, e]`, or list the `values`"
        return f"a range of letters takes {expected}", hint
    if not are_texts and any(isinstance(end, str | bool) for end in (first, last)):
        message = f"the ends {first!r} and {last!r} are not of one type"
        return message, "both numbers, or both single letters"
    low, high = (ord(first), ord(last)) if are_texts else (first, last)
    return _count_error(ends, _count(low, high, step))


def _count_error(ends: Sequence[Any], count: int) -> MessageAndHint | None:
    """What is wrong with a range of so many values."""
    first, last, *steps = ends
    if count < 1:
        hint = "put the smaller end first; `end_is_worst: true` flips the direction"
        return f"the range runs from {first!r} down to {last!r}", hint
    if count > MAX_VALUES:
        number = count if count < 10**15 else f"{Decimal(count):.1e}"
        return (
            f"the range has {number} values, more than {MAX_VALUES}",
            "use a larger step or `type: continuous`",
        )
    if len(set(parse_range(*ends))) < count:
        return (
            f"the step {(steps or [1])[0]!r} is too small to distinguish values near {last!r}",
            "use a larger step",
        )
    return None


def _count(first: Any, last: Any, step: Any) -> int:
    low, high = _exact(first), _exact(last)
    return int((high - low) / _exact(step)) + 1 if high >= low else 0


def _exact(number: float | Fraction) -> Fraction:
    """The number as written: 0.1 is one tenth."""
    return Fraction(str(number))


def _letters(first: str, last: str) -> bool:
    """Whether both are single characters, and all characters between them are letters."""
    single = len(first) == len(last) == 1
    return single and all(chr(code).isalpha() for code in range(ord(first), ord(last) + 1))


_LETTER: JsonDict = {"pattern": r"^\D$", "type": "string"}
_RANGE: JsonDict = {
    "anyOf": [
        {"items": {"type": "number"}},
        {"prefixItems": [_LETTER, _LETTER], "items": {"type": "integer"}},
    ]
}
"""What of `range_error` a JSON Schema can say."""


_ONE = (
    "a discrete scale needs either `range` or `values`",
    "write `range: [1, 5]` or `values: [unsafe, safe]`",
)


_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


class DiscreteScale(Scale):
    """Listed values, or a range with both ends included; worst value first.

    A range, numbers and values with `scores` are ordered. Words without scores are nominal: none is the worst or the best.
    """

    key_rules = (
        KeyRule("", "", ("range", "values"), *_ONE),
        KeyRule("range", "values", (), *_ONE, at=""),
    )

    type: Literal["discrete"] = "discrete"
    """The type of scale."""
    range: (
        Annotated[tuple[Value, ...], Field(min_length=2, max_length=3, json_schema_extra=_RANGE)]
        | None
    ) = None
    """First and last value (integers, decimals or single letters) and optionally the step between values."""
    values_: NonEmptyTuple[Value] | None = Field(default=None, alias="values")
    """The values; of an ordered scale the worst first."""
    ordered_: bool | None = Field(default=None, alias="ordered")
    """Whether the listed `values` run from worst to best; by default where they are numbers or have `scores`."""
    shuffle: bool = False
    """Whether the prompt lists the values of a nominal scale in an order drawn for each row and unit."""
    end_is_worst: bool = False
    """Whether the last value is the worst one."""
    scores: dict[Value, float] | None = None
    """A number for each value, used wherever a number is needed."""

    @python_constructor
    def __init__(
        self,
        values: Sequence[Any] | None = None,
        /,
        *,
        scores: Mapping[Any, float] | None = None,
        end_is_worst: bool = False,
        ordered: bool | None = None,
        shuffle: bool = False,
        **keys: Any,
    ) -> None:
        """A tuple is a range with an optional step, `(1, 5)`, `("a", "e")`, `(0, 1, 0.25)`; a list has the values."""
        if values is not None:
            if isinstance(values, str) or not isinstance(values, Sequence):
                hint = "a range `DiscreteScale((1, 5))`, or the values `DiscreteScale(['A', 'B'])`"
                raise UsageError(
                    f"{type(self).__name__} takes a tuple or a list, not {values!r:.80}", hint=hint
                )
            keys["range" if isinstance(values, tuple) else "values"] = values
        keys |= {"scores": dict(scores) if isinstance(scores, Mapping) else scores}
        super().__init__(**keys, end_is_worst=end_is_worst, ordered=ordered, shuffle=shuffle)

    @property
    def ordered(self) -> bool:
        if self.ordered_ is not None:
            return self.ordered_
        words = any(isinstance(value, str | bool) for value in self.values_ or ())
        # `end_is_worst` says which end is the worst, so there is one.
        return not words or self.scores is not None or self.end_is_worst

    def validation_error(self) -> Issue | None:
        if broken := self.broken_rule():
            return broken
        if self.range is not None:
            error = range_error(self.range)
            return Issue("range", *error) if error is not None else self._values_error()
        earlier_spellings: set[Any] = set()
        for index, value in enumerate(self.values_ or ()):
            spellings = {value, plain_text(value)}
            if not plain_text(value).strip():
                message = f"{value!r} is not a word that a model can answer"
                return Issue(f"values.{index}", message, "give each value a name")
            if spellings & earlier_spellings:
                message = f"the value {value!r} is a duplicate"
                return Issue(f"values.{index}", message, "name each value once")
            earlier_spellings |= spellings
        return self._values_error()

    def _values_error(self) -> Issue | None:
        scores = None
        if self.scores is not None:
            scores = self.numbers_error("scores", self.scores, "score")
        return scores or self._order_error() or self.descriptions_error()

    def _order_error(self) -> Issue | None:
        orders = {
            "a range": self.range is not None,
            "`scores`": self.scores is not None,
            "`end_is_worst`": self.end_is_worst,
        }
        order = next((name for name, is_set in orders.items() if is_set), None)
        if self.ordered_ is False and order is not None:
            hint = "leave `ordered: false` out, or list only `values`"
            return Issue("ordered", f"a scale with {order} is ordered", hint)
        if self.shuffle and self.ordered:
            hint = (
                "leave `shuffle` out, or write `ordered: false` if no value is better than another"
            )
            return Issue("shuffle", "an ordered scale is listed from one end to the other", hint)
        return None

    def warning(self) -> Issue | None:
        if (
            self.values_ is None
            or len(self.values_) != 2
            or self.ordered_ is not None
            or self.scores is not None
        ):
            return None
        first, last = self.values_
        if isinstance(first, str | bool) or isinstance(last, str | bool) or 0 <= last - first <= 1:
            return None
        message = f"the scale has two values, {first} and {last}, and none between them: did you mean range"
        hint = f"write `range: [{first}, {last}]`; `ordered: true` says that two values are meant"
        return Issue("values", message, hint)

    def label_warning(self) -> Issue | None:
        words = [value for value in self.values() if isinstance(value, str)]
        if (
            not self.ordered
            or len(words) != len(self.values())
            or len(words) < 2
            or not are_labels(words)
        ):
            return None
        key = "scores"
        if self.scores is None:
            key = "ordered" if self.ordered_ else "end_is_worst"
        return Issue(
            key,
            f"the values look like labels, but the prompt calls {words[0]!r} the worst and {words[-1]!r} the best of them",
            "set `scale_instructions: false` and name the values in the prompt, or take the order away",
        )

    def written_values(self) -> tuple[Any, ...]:
        """The values in the order of the file."""
        if self.values_ is not None:
            return self.values_
        assert self.range is not None
        return parse_range(*self.range)

    def values(self) -> tuple[Any, ...]:
        return self.written_values()[::-1] if self.end_is_worst else self.written_values()

    def read(self, value: Any) -> Any:
        for member in self.written_values():
            if member == value and isinstance(member, bool) == isinstance(value, bool):
                return member
        if isinstance(value, str):
            match = match_value(value, self.tokens()) or self._match_number(value)
            if match is not None:
                return match[0]
        raise self.off_scale(value)

    def _match_number(self, text: str) -> tuple[Any] | None:
        """(value,) of the number that the text writes in another way, such as 4.0 for 4."""
        number = parse_number(text, number_ends(self))
        if number is None or any(fold_case(token) == fold_case(text) for token, _ in self.tokens()):
            return None
        for value in self.written_values():
            if not isinstance(value, bool | str) and number == Decimal(plain_text(value)):
                return (value,)
        return None

    def number(self, value: Any) -> float | None:
        """The value's score, itself, 1/0 for a boolean, None for a word without a score."""
        if self.scores is not None:
            return self.scores[value]
        return None if isinstance(value, str) else float(value)

    def numeric(self) -> bool:
        return self.scores is not None or not any(
            isinstance(value, str) for value in self.written_values()
        )

    @property
    def has_scores(self) -> bool:
        return self.scores is not None

    def tokens(self) -> Tokens:
        return tuple((plain_text(value), value) for value in self.written_values())

    def display(self) -> str:
        return ", ".join(plain_text(value) for value in self.written_values())

    def sentence(self, field: str) -> str:
        if not self.ordered:
            return f"The {field} must be exactly one of: {self.display()}."
        values = self.values()
        ends = ""
        if len(values) > 1:
            ends = f", where {plain_text(values[0])} is the worst and {plain_text(values[-1])} the best"
        return f"The {field} must be one of: {self.display()}{ends}."

    def is_shuffled(self) -> bool:
        return self.shuffle

    def shuffled_sentence(self, field: str, draw: int) -> str:
        words = [plain_text(value) for value in self.written_values()]
        return f"The {field} must be exactly one of: {', '.join(shuffled_order(words, draw))}."

    def json_schema(self) -> JsonSchema:
        """The enumeration has the worst value of an ordered scale first."""
        types = [_JSON_TYPES[kind] for kind in {*map(type, self.written_values())}]
        kind = {"type": types[0]} if len(types) == 1 else {}
        return {**kind, "enum": list(self.values())}


class LikertScale(DiscreteScale):
    """The integers from 1 to 5."""

    @python_constructor
    def __init__(self, *, end_is_worst: bool = False) -> None:
        super().__init__((1, 5), end_is_worst=end_is_worst)


LIKERT = DiscreteScale((1, 5))


class Categories(DiscreteScale):
    """The values of a categorical judge: no worst and no best one."""

    @property
    def ordered(self) -> bool:
        return False

    def warning(self) -> Issue | None:
        return None
