"""Scales with the constructors and texts of haizelabs' library, over this project's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from verdict_cli.language.scales import Scale as OwnScale
from verdict_cli.language.scales.boolean import BooleanScale as OwnBooleanScale
from verdict_cli.language.scales.continuous import ContinuousScale as OwnContinuousScale
from verdict_cli.language.scales.discrete import Categories
from verdict_cli.language.scales.discrete import DiscreteScale as OwnDiscreteScale


class Scale:
    """A scale: `own` is this project's, `values` and the text are those of the library."""

    values: list[Any]

    def __init__(self, own: OwnScale, values: Sequence[Any], text: str) -> None:
        self.own, self.values, self._text = own, list(values), text

    def value_mapping_fn(self, output: Any) -> Any:
        """The value that a reply's text means."""
        return self.own.read(output)

    def index(self, value: Any) -> int:
        """The place of a value on the scale."""
        return self.values.index(value)

    def __str__(self) -> str:
        return self._text


class DiscreteScale(Scale):
    """Listed values, or a range given as a tuple. A list of words is nominal: no word is the worst or the best."""

    def __init__(self, values: Sequence[Any], end_is_worst: bool = False) -> None:
        has_words = isinstance(values, list) and any(isinstance(value, str) for value in values)
        if has_words and not end_is_worst:
            own: OwnScale = Categories.model_validate({"values": values})
        else:
            own = OwnDiscreteScale(values, end_is_worst=end_is_worst)
        written = own.values()  # worst first
        super().__init__(own, written[::-1] if end_is_worst else written, ", ".join(map(str, written)))


class BooleanScale(Scale):
    """Yes or no."""

    def __init__(self, yes: Sequence[str] = ("yes", "Yes", "YES"), no: Sequence[str] = ("no", "No", "NO")) -> None:
        own = OwnBooleanScale(yes=_each_once(yes), no=_each_once(no))
        super().__init__(own, [*no, *yes], f"{'/'.join(yes)},{'/'.join(no)}")


class ContinuousScale(Scale):
    """Any number between two ends."""

    def __init__(self, min_value: float, max_value: float, end_is_worst: bool = False) -> None:
        ends = (max_value, min_value) if end_is_worst else (min_value, max_value)
        own = OwnContinuousScale(min_value, max_value, end_is_worst=end_is_worst)
        super().__init__(own, [], f"{ends[0]} - {ends[1]}")


def LikertScale(end_is_worst: bool = False) -> Scale:  # noqa: N802 - the library's name
    """The integers from 1 to 5."""
    return DiscreteScale((1, 5), end_is_worst)


def _each_once(words: Sequence[str]) -> list[str]:
    """The words without those that differ in case alone: our scales ignore the case."""
    return list({word.casefold(): word for word in reversed(words)}.values())[::-1]
