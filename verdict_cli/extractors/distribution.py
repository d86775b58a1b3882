"""A scale's probability distribution, read from a reply's log-probabilities (paper, section 3.2)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verdict_cli.errors import ReplyError
from verdict_cli.scales import Scale
from verdict_cli.scales.boolean import Boolean
from verdict_cli.scales.discrete import Discrete
from verdict_cli.values import Alternative, Reply

TOP = 20
"""Alternatives asked for at each position: the most that OpenAI's interface gives."""


def ambiguity(scale: Boolean | Discrete) -> str | None:
    """Why the scale's values cannot be told apart by their first token, None when they can.

    Numbers and single words are taken to start with a token of their own; a value of several words or pieces
    starts with its first piece, which must not start another value.
    """
    seen: dict[str, Any] = {}
    for token, value in scale.tokens():
        piece = (
            token
            if not isinstance(value, str)
            else re.match(r"[^\W\d_]+|\d+|.", token.strip() or " ", re.DOTALL)[0]
        )  # type: ignore[index]
        key = piece if _cased(scale) else piece.casefold()
        if key in seen and seen[key] != value:
            return f"the values {seen[key]!r} and {value!r} begin with the same token {piece!r}"
        seen[key] = value
    return None


@dataclass(frozen=True)
class Support:
    """The tokens of a scale's values: exact ones, and the beginnings that only one value has."""

    exact: Mapping[str, Any]
    cased: bool

    def value(self, token: str) -> tuple[Any] | None:
        """(value,) of a token, None for a token that stands for no value or for several."""
        word = self.normal(token)
        if word in self.exact:
            return (self.exact[word],)
        if not word:
            return None
        begun = {id(value): value for known, value in self.exact.items() if known.startswith(word)}
        values = list(dict.fromkeys(begun.values()))
        return (values[0],) if len(values) == 1 else None

    def normal(self, token: str) -> str:
        """The token without surrounding space, and without case where case does not matter."""
        word = token.strip().strip("▁Ġ")
        return word if self.cased else word.casefold()

    def continued(self, token: str, following: str) -> str | None:
        """The longer value that a token followed by another one begins, such as 10 by `1` and `0`."""
        word = self.normal(token)
        longer = word + self.normal(following)
        if not following[:1].isspace() and word in self.exact and longer != word:
            return next((known for known in self.exact if known.startswith(longer) and known != word), None)
        return None


def support_of(scale: Boolean | Discrete) -> Support:
    """The scale's support."""
    cased = _cased(scale)
    return Support({(token if cased else token.casefold()): value for token, value in scale.tokens()}, cased)


def distribution(reply: Reply, scale: Scale) -> dict[Any, float]:
    """Probability of each value, normalised over the token support, values in the support's order.

    Read at the first position whose alternatives hold a support token. ReplyError when the model returned no
    log-probabilities, when no position holds one, or when their mass is zero or no number.
    """
    assert isinstance(scale, Boolean | Discrete)
    if not reply.logprobs:
        raise ReplyError(
            "the model returned no log-probabilities",
            hint="token extractors need a model that returns them; use `structured` or `regex` with this one",
            kind="no-logprobs",
        )
    support = support_of(scale)
    for place, position in enumerate(reply.logprobs):
        mass: dict[Any, float] = {}
        for alternative in position:
            known = support.value(alternative.token)
            if known is not None:
                mass[known[0]] = mass.get(known[0], 0.0) + _probability(alternative)
        if mass:
            _refuse_split(support, reply.logprobs, place)
            total = math.fsum(mass.values())
            if total <= 0:
                raise ReplyError("the scale's tokens have no probability at all", kind="no-logprobs")
            values = dict.fromkeys(value for _, value in scale.tokens())
            return {value: mass.get(value, 0.0) / total for value in values}
    wanted = scale.display()
    raise ReplyError(f"none of the tokens {wanted} is among the alternatives", kind="no-logprobs")


def _refuse_split(support: Support, positions: tuple[tuple[Alternative, ...], ...], place: int) -> None:
    if place + 1 < len(positions) and positions[place] and positions[place + 1]:
        chosen, following = positions[place][0].token, positions[place + 1][0].token
        longer = support.continued(chosen, following)
        if longer is not None:
            raise ReplyError(
                f"this model writes {longer!r} in several tokens, so {chosen!r} may begin it",
                hint="use a scale whose values are single tokens, such as letters",
                kind="no-logprobs",
            )


def _probability(alternative: Alternative) -> float:
    if math.isnan(alternative.logprob) or alternative.logprob > 0.01:
        raise ReplyError(f"{alternative.logprob!r} is no log-probability", kind="no-logprobs")
    return math.exp(alternative.logprob)


def _cased(scale: Boolean | Discrete) -> bool:
    folded: dict[str, Any] = {}
    for token, value in scale.tokens():
        if folded.setdefault(token.casefold(), value) != value:
            return True
    return False
