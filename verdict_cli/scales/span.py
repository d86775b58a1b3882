"""Ranges of a discrete scale: first and last value, both included, and optionally the step between values."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

LIMIT = 1000
"""The most values that a range may have."""


@lru_cache(maxsize=256, typed=True)  # 1 and 1.0 are equal as keys
def span(first: Any, last: Any, step: Any = 1) -> tuple[Any, ...]:
    """The values of a range without `trouble`. Decimals are counted as they are written: 0.1, 0.2, 0.3."""
    if isinstance(first, str):
        return tuple(chr(code) for code in range(ord(first), ord(last) + 1, int(step)))
    kind = int if all(isinstance(part, int) for part in (first, last, step)) else float
    low, width = _exact(first), _exact(step)
    return tuple(kind(low + width * place) for place in range(_count(first, last, width)))


def trouble(ends: Sequence[Any]) -> tuple[str, str] | None:
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
    if len(set(span(*ends))) < count:
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
