"""The distribution over a scale's values that a reply's log-probabilities give."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.token_support import Support, may_begin, support_of
from verdict_cli.language.extractors.token_value import (
    TokenPosition,
    bare_token,
    find_value,
    is_special,
    position_at,
    spelled,
)
from verdict_cli.language.scales import Scale
from verdict_cli.messages import Alternative, Reply

UNCLEAR_REPLY = 0.01
"""The share of the scale's probability that may be on tokens that begin several values. More would bias the result."""
_ROUNDING = 0.01
"""How far above 0 a log-probability may be: servers compute them in low precision."""


def is_logprob(value: float) -> bool:
    """Whether it is the logarithm of a probability: not NaN, and not above 0 beyond rounding."""
    return value <= _ROUNDING


def distribution(
    reply: Reply, scale: Scale, *, after: str | None = None, min_mass: float = 0.0, first_token: bool = False
) -> tuple[dict[Any, float], float]:
    """The probability of each value, normalised over the token support and in its order; and the support's own mass.

    They are those at the position where the reply's value begins, with ``first_token`` at the first one.

    Raises:
        ReplyError: the model returned no log-probabilities, the reply is not exactly one value, the support's mass is
            below ``min_mass``, zero or NaN, or the value's first token does not identify it.
    """
    if not reply.logprobs:
        raise _no_logprobs()
    support = support_of(scale)
    if first_token:
        position, lead, around = reply.logprobs[0], "", False
    else:
        found = find_value(reply.text, support, after)
        index, lead, drawn = position_at(reply.logprobs, reply.text, found.start)
        position = reply.logprobs[index]
        around = not _values(support, drawn, lead, around=False)
        if _values(support, drawn, lead, around=around) != (found.value,):
            raise _several_tokens(reply.text.strip())
    mass, unclear = _mass(support, position, lead, around=around)
    total = math.fsum(mass.values())
    if unclear > UNCLEAR_REPLY * total and unclear + total >= min_mass:
        raise _several_tokens(reply.text.strip())
    if total == 0 or total < min_mass:
        raise _low_mass(total, min_mass)
    values = dict.fromkeys(value for _, value in scale.tokens())
    return {value: mass.get(value, 0.0) / total for value in values}, min(total, 1.0)


def _mass(support: Support, position: TokenPosition, lead: str, *, around: bool) -> tuple[dict[Any, float], float]:
    """The probability of each value, and of tokens that begin several values."""
    mass: dict[Any, float] = {}
    unclear = 0.0
    read = [_values(support, alternative.token, lead, around=around) for alternative in position]
    present = {values[0] for values in read if len(values) == 1}
    for alternative, values in zip(position, read, strict=True):
        if len(values) == 1 and support.is_clear(values[0], present):
            mass[values[0]] = mass.get(values[0], 0.0) + _probability(alternative)
        elif values:
            unclear += _probability(alternative)
    return mass, unclear


def _values(support: Support, token: str, lead: str, *, around: bool) -> tuple[Any, ...]:
    """The values that a token can mean, without ``lead``, the text before the value in the token that was drawn.

    ``around``: the drawn token has quotes, emphasis or a period around its value, so other tokens may have them too.
    """
    word = without_lead(spelled(token), lead)
    return support.values(word) or (support.values(bare_token(word)) if around else ())


def _probability(alternative: Alternative) -> float:
    if not is_logprob(alternative.logprob):
        raise ReplyError(f"{alternative.logprob!r} is not a log-probability", kind="no-logprobs")
    return math.exp(alternative.logprob)


def without_lead(word: str, lead: str) -> str:
    """A token's text without ``lead``, where it has it too; white space does not matter."""
    return word[len(lead) :] if lead.strip() and word.startswith(lead) else word


def _no_logprobs() -> ReplyError:
    return ReplyError(
        "the model returned no log-probabilities",
        hint="token extractors need a model that returns them; use `structured` or `regex` with this one",
        kind="no-logprobs",
    )


def _low_mass(mass: float, least: float) -> ReplyError:
    error = ReplyError(
        f"the scale's tokens have a probability of {mass:.2g} together, less than {least:g}",
        hint="ask for the value alone, or lower `min_mass`",
        kind="low-mass",
    )
    error.mass = mass
    return error


def _several_tokens(written: str) -> ReplyError:
    return ReplyError(
        f"this model writes values in several tokens, here {written!r}",
        hint="use a scale whose values are single tokens, such as letters, or give the extractor `sequence: true`",
        kind="no-logprobs",
    )


@dataclass(frozen=True, slots=True)
class SequenceDistribution:
    """The raw probability of each value whose tokens are all among the alternatives, and the values where they are not."""

    products: dict[Any, float]
    missing: tuple[Any, ...]
    mass: float

    def completed(self, replies: Iterable[Any] = ()) -> dict[Any, float]:
        """The distribution, in which a missing value has its share of these further replies. ReplyError where nothing has
        a probability."""
        drawn = list(replies)
        shares = {value: drawn.count(value) / len(drawn) if drawn else 0.0 for value in self.missing}
        total = math.fsum([*self.products.values(), *shares.values()])
        if total == 0:
            raise ReplyError("no value of the scale has a probability", kind="low-mass")
        return {value: (p + shares.get(value, 0.0)) / total for value, p in self.products.items()}


def sequence_distribution(
    reply: Reply, scale: Scale, *, after: str | None = None, min_mass: float = 0.0, sampled: bool = False
) -> SequenceDistribution:
    """The probability of each value as the product along its tokens.

    The reply's own tokens give the path: at each of its positions the alternatives either finish a value, can begin only
    one, which they then count for, or leave it open which value they begin. ``sampled``: further replies will give the
    probability of the values that are missing; without them, those that no alternative begins have none.

    Raises:
        ReplyError: as `distribution`, or values stay open and there are no further replies.
    """
    if not reply.logprobs:
        raise _no_logprobs()
    support = support_of(scale)
    found = find_value(reply.text, support, after)
    index, lead, _ = position_at(reply.logprobs, reply.text, found.start)
    path = _Path(support, found.value)
    for position in reply.logprobs[index:]:
        if not path.follow(position, lead):
            break
        lead = ""
    products, unclear = path.finished()
    if path.mass == 0 or path.mass < min_mass:
        raise _low_mass(path.mass, min_mass)
    if unclear > UNCLEAR_REPLY * path.mass and not sampled:
        raise ReplyError(
            f"several values begin as {reply.text.strip()!r:.80} does, or as another token in its place",
            hint="give the extractor `samples: 20`, which estimates these values from further replies",
            kind="no-logprobs",
        )
    values = tuple(dict.fromkeys(value for _, value in scale.tokens()))
    missing = tuple(value for value in values if value not in products)
    return SequenceDistribution({value: products.get(value, 0.0) for value in values}, missing, min(path.mass, 1.0))


class _Path:
    """The walk along a reply's tokens: what they have spelled so far, and with which probability."""

    def __init__(self, support: Support, value: Any) -> None:
        self.support, self.value = support, value
        self.text, self.reached, self.mass = "", 1.0, 0.0
        self.products: dict[Any, float] = {}
        self.open: list[tuple[Any, tuple[Any, ...], float]] = []
        """(value, longer values, probability) of texts that are a value, or None, and may continue as the longer ones."""

    def follow(self, position: TokenPosition, lead: str) -> bool:
        """Add one position's alternatives, of which the first was drawn. False where the value ends here."""
        complete, _ = _continuations(self.support, self.text)
        continues = False
        for place, alternative in enumerate(position):
            word = without_lead(spelled(alternative.token), lead)
            p = self.reached * _probability(alternative)
            if self.text and complete is not None and _is_end(word):
                self._add(complete, p)
                continue
            value, longer = _continuations(self.support, self.text + word)
            if not self.text and (place == 0 or value is not None or longer):
                self.mass += p
            if place == 0 and (longer or value is None):
                continues = True
            elif not longer:
                self._add(value, p)
            elif value is None and len(longer) == 1:
                self._add(longer[0], p)
            else:
                self.open.append((value, longer, p))
        if continues:
            self.reached *= _probability(position[0])
            self.text += without_lead(spelled(position[0].token), lead)
        return continues

    def _add(self, value: Any, p: float) -> None:
        if value is not None:
            self.products[value] = self.products.get(value, 0.0) + p

    def finished(self) -> tuple[dict[Any, float], float]:
        """The products, and the probability of texts that may become a value without one."""
        value, longer = _continuations(self.support, self.text)
        if self.value not in self.products and value == self.value:
            self.open.append((value, longer, self.reached))  # the reply ends here, or its next token is not known
        unclear = 0.0
        for value, longer, p in sorted(self.open, key=lambda one: (one[0] is None, len(one[1]))):
            if not all(other in self.products for other in longer):
                unclear += p
            elif value is not None:  # the longer values have tokens of their own, so this is the whole value
                self._add(value, p)
        return self.products, unclear


def _continuations(support: Support, text: str) -> tuple[Any, tuple[Any, ...]]:
    """The value that a text is, quotes and emphasis around it aside (None: no value), and the others that it begins."""
    word = support.normal(text)
    if word not in support.exact:
        word = support.normal(bare_token(word)) or word
    value = support.exact.get(word)
    begun = (other for known, other in support.exact.items() if known.startswith(word) and may_begin(word, known))
    return value, tuple(dict.fromkeys(other for other in begun if other != value))


def _is_end(word: str) -> bool:
    """Whether a token ends the value before it: a special token, a line end, a quote, emphasis or a period."""
    return not word or (not bare_token(word).strip(".") and bool(word.strip(" "))) or is_special(word)
