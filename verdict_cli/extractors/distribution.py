"""A scale's probability distribution, read from a reply's log-probabilities (paper, section 3.2)."""

from __future__ import annotations

import math
from typing import Any

from verdict_cli.errors import ReplyError
from verdict_cli.extractors.support import Support, support_of
from verdict_cli.scales import Boolean, Discrete
from verdict_cli.values import Alternative, Reply, is_logprob

TOP = 20
"""Alternatives asked for at each position: the most that OpenAI's interface gives."""

UNCLEAR = 0.01
"""The share of probability that may lie on tokens that begin several values; more would bend the distribution."""

_Position = tuple[Alternative, ...]


def distribution(reply: Reply, scale: Boolean | Discrete) -> dict[Any, float]:
    """Probability of each value, normalised over the token support, values in the support's order.

    Read at the first position whose alternatives hold a support token. ReplyError when the model returned no
    log-probabilities, when no position holds one, when their mass is zero or no number, and when the model writes
    a value in several tokens of which the first does not tell it.
    """
    if not reply.logprobs:
        raise ReplyError(
            "the model returned no log-probabilities",
            hint="token extractors need a model that returns them; use `structured` or `regex` with this one",
            kind="no-logprobs",
        )
    support = support_of(scale)
    for place, position in enumerate(reply.logprobs):
        mass, unclear = _mass(support, position)
        if not mass and not (position and support.values(position[0].token)):
            continue
        total = math.fsum(mass.values())
        if total == 0 and unclear == 0:
            raise ReplyError("the scale's tokens have no probability at all", kind="no-logprobs")
        if unclear > UNCLEAR * total:
            raise _several_tokens(position[0].token)
        _refuse_longer(support, reply.logprobs[place : place + 3])
        values = dict.fromkeys(value for _, value in scale.tokens())
        return {value: mass.get(value, 0.0) / total for value in values}
    raise ReplyError(f"none of the tokens {scale.display()} is among the alternatives", kind="no-logprobs")


def _mass(support: Support, position: _Position) -> tuple[dict[Any, float], float]:
    """The probability on each value, and on tokens that begin several values."""
    mass: dict[Any, float] = {}
    unclear = 0.0
    for alternative in position:
        values = support.values(alternative.token)
        if len(values) == 1:
            mass[values[0]] = mass.get(values[0], 0.0) + _probability(alternative)
        elif values:
            unclear += _probability(alternative)
    return mass, unclear


def _probability(alternative: Alternative) -> float:
    if not is_logprob(alternative.logprob):
        raise ReplyError(f"{alternative.logprob!r} is no log-probability", kind="no-logprobs")
    return math.exp(alternative.logprob)


def _refuse_longer(support: Support, positions: tuple[_Position, ...]) -> None:
    chosen, *following = (position[0].token if position else "" for position in positions)
    if support.goes_on(chosen, "".join(following)):
        raise _several_tokens(chosen + "".join(following))


def _several_tokens(written: str) -> ReplyError:
    return ReplyError(
        f"this model writes values in several tokens, here {written!r}",
        hint="use a scale whose values are single tokens, such as letters",
        kind="no-logprobs",
    )
