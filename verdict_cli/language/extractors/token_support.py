"""The token support of a scale: which tokens of a reply mean which values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from verdict_cli.language.scales import Scale

_PIECE = re.compile(r"[^\W\d_]+|\d+|.", re.DOTALL)


@dataclass(frozen=True)
class Support:
    """The value of each token; `cased` where two values differ only in case."""

    exact: Mapping[str, Any]
    cased: bool

    def values(self, token: str) -> tuple[Any, ...]:
        """The values that a token can mean: one of its own, else all that it begins.

        A single Latin letter does not begin a word: it is rarely a tokenizer's first piece, but often a stray alternative.
        """
        word = self.normal(token)
        if word in self.exact:
            return (self.exact[word],)
        candidates = [value for known, value in self.exact.items() if known.startswith(word) and may_begin(word, known)]
        return tuple(dict.fromkeys(candidates))

    def is_clear(self, value: Any, present: Set[Any]) -> bool:
        """Whether the token of a value means it and does not begin a longer one: `1` may begin `10` where the tokenizer
        writes digits one by one, which it does not where `10` is among the values that are ``present``."""
        longer = self.longer.get(value)
        return longer is None or not longer.isdisjoint(present)

    @cached_property
    def longer(self) -> dict[Any, frozenset[Any]]:
        """The longer values that each value begins, where it begins some."""
        begun: dict[Any, frozenset[Any]] = {}
        for word, value in self.exact.items():
            longer = {other for known, other in self.exact.items() if known.startswith(word) and may_begin(word, known)}
            if longer - {value}:
                begun[value] = begun.get(value, frozenset()) | (longer - {value})
        return begun

    def normal(self, token: str) -> str:
        """The token without surrounding space, and without case where case does not matter."""
        word = token.strip().strip("▁Ġ")
        return word if self.cased else word.casefold()


def may_begin(word: str, known: str) -> bool:
    """Whether a token that a known one starts with may mean it: not a single Latin letter of a word."""
    return bool(word) and not (len(word) == 1 and known[:2].isascii() and known[:2].isalpha())


def support_of(scale: Scale) -> Support:
    cased = _cased(scale)
    return Support({(token if cased else token.casefold()): value for token, value in _stripped(scale)}, cased)


def ambiguity(scale: Scale) -> str | None:
    """Why the first token does not distinguish the scale's values, None when it does.

    Numbers and single words are assumed to start with a token of their own, a minus sign aside; a value of several
    words or pieces starts with its first piece, which must not start another value.
    """
    seen: dict[str, Any] = {}
    for token, value in _stripped(scale):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        first = _PIECE.match(token)
        piece = token if first is None or (number and first[0] != "-") else first[0]
        key = piece if _cased(scale) else piece.casefold()
        if key in seen and seen[key] != value:
            return f"the values {seen[key]!r} and {value!r} begin with the same token {piece!r}"
        seen[key] = value
    return None


def _stripped(scale: Scale) -> list[tuple[str, Any]]:
    return [(token.strip(), value) for token, value in scale.tokens()]


def _cased(scale: Scale) -> bool:
    folded: dict[str, Any] = {}
    return any(folded.setdefault(token.casefold(), value) != value for token, value in _stripped(scale))
