"""`token_probability` and the scores made from it; distributions read from log-probabilities."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from verdict_cli.errors import ReplyError
from verdict_cli.language.calibrations import MapKey, ProbabilityMap, ScoreWeights, ScoreWeightsKey, apply_map
from verdict_cli.language.extractors.bound_extractor import BaseExtractor, BoundExtractor, ExtractorIssue
from verdict_cli.language.extractors.token_support import Support, ambiguity, support_of
from verdict_cli.language.fields.types import NUMBER, DistributionType, FieldType, RecordType, ScaleType
from verdict_cli.language.scales.boolean import Boolean
from verdict_cli.language.scales.discrete import Discrete, Value
from verdict_cli.messages import Alternative, Reply, is_logprob

if TYPE_CHECKING:
    from verdict_cli.messages import Request


TOP = 20
"""Alternatives asked for at each position: the most that OpenAI's interface gives."""

UNCLEAR_REPLY = 0.01
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
        if unclear > UNCLEAR_REPLY * total:
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


FIELD = "distribution"


class _TokenExtractor(BaseExtractor):
    calibration: MapKey | None = None
    """A map that `verdict calibrate` fitted: the token probabilities are replaced by calibrated ones."""

    def problem(self, response: RecordType) -> ExtractorIssue | None:
        """Needs one field on a discrete or boolean scale whose values start with tokens of their own."""
        kinds = list(response.fields.values())
        scale = kinds[0].scale if len(kinds) == 1 and isinstance(kinds[0], ScaleType) else None
        name = getattr(self, "type", "")
        if not isinstance(scale, Boolean | Discrete):
            return (
                "",
                f"`{name}` needs a response of one field on a discrete or boolean scale, here it is {response.spell()}",
                "give the unit such a scale, leave `explanation` out, or use `structured`",
            )
        trouble = ambiguity(scale)
        if trouble:
            return (
                "",
                f"`{name}` cannot tell the values apart: {trouble}",
                "use values that begin differently, such as letters",
            )
        fitted = self.calibration
        if isinstance(fitted, ProbabilityMap) and fitted.method != "temperature":
            values = list(dict.fromkeys(value for _, value in scale.tokens()))
            if len(values) != 2 or fitted.positive not in values:
                return (
                    "calibration",
                    f"`{fitted.method}` maps the probability of {fitted.positive!r}, one of two values; the values are {scale.display()}",
                    "fit one to this scale, or use `--method temperature`",
                )
        return None

    def _reading(
        self, response: RecordType, name: str, kind: FieldType, score: Callable[[dict[Any, float], Request], Any]
    ) -> BoundExtractor:
        (field,) = response.fields.values()
        assert isinstance(field, ScaleType)
        scale = field.scale
        assert isinstance(scale, Boolean | Discrete)

        fitted = self.calibration
        assert fitted is None or isinstance(fitted, ProbabilityMap)

        def read(reply: Reply, request: Request) -> dict[str, Any]:
            found = distribution(reply, scale)
            return {name: score(found if fitted is None else apply_map(found, fitted), request)}

        worst_first = sorted(scale.tokens(), key=lambda pair: scale.values().index(pair[1]))
        support = tuple(token for token, _ in worst_first)
        return BoundExtractor(RecordType({name: kind}), read, top_logprobs=TOP, support=support)


class TokenProbability(_TokenExtractor):
    """Field `distribution`: value → probability, normalised over the scale's token support."""

    type: Literal["token_probability"] = "token_probability"
    """The kind of extractor."""

    def bind(self, response: RecordType) -> BoundExtractor:
        """Gives the distribution itself."""
        (field,) = response.fields.values()
        assert isinstance(field, ScaleType)
        return self._reading(response, FIELD, DistributionType(field.scale), lambda found, _: found)


class ArgmaxScore(_TokenExtractor):
    """The most probable value; the first in the support's order when several are."""

    type: Literal["argmax_score"] = "argmax_score"
    """The kind of extractor."""

    def bind(self, response: RecordType) -> BoundExtractor:
        """Gives the distribution's mode."""
        ((name, kind),) = response.fields.items()
        return self._reading(response, name, kind, lambda found, _: max(found, key=lambda value: found[value]))


class SampleScore(_TokenExtractor):
    """A value drawn from the distribution, seeded by the run's seed, the row, the unit and the attempt."""

    type: Literal["sample_score"] = "sample_score"
    """The kind of extractor."""

    def bind(self, response: RecordType) -> BoundExtractor:
        """Gives a seeded draw."""
        ((name, kind),) = response.fields.items()

        def draw(found: dict[Any, float], request: Request) -> Any:
            key = f"{request.seed}|{request.row.lot}|{request.node}|{request.call}|{request.attempt}"
            seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest())
            return random.Random(seed).choices(list(found), weights=list(found.values()))[0]

        return self._reading(response, name, kind, draw)


class WeightedSummedScore(_TokenExtractor):
    """The distribution's expectation, as in G-Eval (Liu et al., 2023)."""

    type: Literal["weighted_summed_score"] = "weighted_summed_score"
    """The kind of extractor."""
    weights: ScoreWeightsKey | None = None
    """Numbers that replace the values' own: a mapping, or a file that `verdict calibrate` wrote."""

    def problem(self, response: RecordType) -> ExtractorIssue | None:
        """Beyond what every token extractor needs: each value has a number."""
        trouble = super().problem(response)
        if trouble:
            return trouble
        (field,) = response.fields.values()
        assert isinstance(field, ScaleType) and isinstance(field.scale, Boolean | Discrete)
        values = list(dict.fromkeys(value for _, value in field.scale.tokens()))
        if self.weights is None:
            if field.scale.numeric():
                return None
            return (
                "",
                f"the values {field.scale.display()} have no number",
                "give the scale `scores:` or the extractor `weights:`",
            )
        weights = self._numbers()
        for value in weights:
            if value not in values:
                return ("weights", f"{value!r} is not a value of the scale", f"its values are {field.scale.display()}")
        missing = [value for value in values if value not in weights]
        return ("weights", f"the value {missing[0]!r} has no weight", "give every value a number") if missing else None

    def _numbers(self) -> dict[Value, float]:
        """The weights, written out or fitted."""
        if isinstance(self.weights, ScoreWeights):
            return self.weights.weights
        assert isinstance(self.weights, dict)
        return self.weights

    def bind(self, response: RecordType) -> BoundExtractor:
        """Gives the sum of probability times number."""
        ((name, field),) = response.fields.items()
        assert isinstance(field, ScaleType)
        number = self._numbers().__getitem__ if self.weights is not None else field.scale.number

        def expectation(found: dict[Any, float], _: Request) -> float:
            return math.fsum(p * (number(value) or 0.0) for value, p in found.items())

        return self._reading(response, name, NUMBER, expectation)
