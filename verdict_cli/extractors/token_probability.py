"""`token_probability` and the scores made from it: `argmax_score`, `sample_score`, `weighted_summed_score`."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from verdict_cli.calibrations import MapKey, ScoreWeightsKey
from verdict_cli.calibrations.kinds import ProbabilityMap, ScoreWeights
from verdict_cli.calibrations.mapped import mapped
from verdict_cli.extractors.distribution import TOP, distribution
from verdict_cli.extractors.keys import Extractor
from verdict_cli.extractors.reading import Reading, Trouble
from verdict_cli.extractors.support import ambiguity
from verdict_cli.fields import NUMBER, Distribution, FieldType, OnScale, Record
from verdict_cli.scales import Boolean, Discrete
from verdict_cli.scales.discrete import Value

if TYPE_CHECKING:
    from verdict_cli.values import Reply, Request

FIELD = "distribution"


class _TokenExtractor(Extractor):
    calibration: MapKey | None = None
    """A map that `verdict calibrate` fitted: the token probabilities are replaced by calibrated ones."""

    def problem(self, response: Record) -> Trouble | None:
        """Needs one field on a discrete or boolean scale whose values start with tokens of their own."""
        kinds = list(response.fields.values())
        scale = kinds[0].scale if len(kinds) == 1 and isinstance(kinds[0], OnScale) else None
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
        self, response: Record, name: str, kind: FieldType, score: Callable[[dict[Any, float], Request], Any]
    ) -> Reading:
        (field,) = response.fields.values()
        assert isinstance(field, OnScale)
        scale = field.scale
        assert isinstance(scale, Boolean | Discrete)

        fitted = self.calibration
        assert fitted is None or isinstance(fitted, ProbabilityMap)

        def read(reply: Reply, request: Request) -> dict[str, Any]:
            found = distribution(reply, scale)
            return {name: score(found if fitted is None else mapped(found, fitted), request)}

        worst_first = sorted(scale.tokens(), key=lambda pair: scale.values().index(pair[1]))
        support = tuple(token for token, _ in worst_first)
        return Reading(Record({name: kind}), read, top_logprobs=TOP, support=support)


class TokenProbability(_TokenExtractor):
    """Field `distribution`: value → probability, normalised over the scale's token support."""

    type: Literal["token_probability"] = "token_probability"
    """The kind of extractor."""

    def bind(self, response: Record) -> Reading:
        """Gives the distribution itself."""
        (field,) = response.fields.values()
        assert isinstance(field, OnScale)
        return self._reading(response, FIELD, Distribution(field.scale), lambda found, _: found)


class ArgmaxScore(_TokenExtractor):
    """The most probable value; the first in the support's order when several are."""

    type: Literal["argmax_score"] = "argmax_score"
    """The kind of extractor."""

    def bind(self, response: Record) -> Reading:
        """Gives the distribution's mode."""
        ((name, kind),) = response.fields.items()
        return self._reading(
            response, name, kind, lambda found, _: max(found, key=lambda value: found[value])
        )


class SampleScore(_TokenExtractor):
    """A value drawn from the distribution, seeded by the run's seed, the row, the unit and the attempt."""

    type: Literal["sample_score"] = "sample_score"
    """The kind of extractor."""

    def bind(self, response: Record) -> Reading:
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

    def problem(self, response: Record) -> Trouble | None:
        """Beyond what every token extractor needs: each value has a number."""
        trouble = super().problem(response)
        if trouble:
            return trouble
        (field,) = response.fields.values()
        assert isinstance(field, OnScale) and isinstance(field.scale, Boolean | Discrete)
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
                return (
                    "weights",
                    f"{value!r} is not a value of the scale",
                    f"its values are {field.scale.display()}",
                )
        missing = [value for value in values if value not in weights]
        return (
            ("weights", f"the value {missing[0]!r} has no weight", "give every value a number")
            if missing
            else None
        )

    def _numbers(self) -> dict[Value, float]:
        """The weights, written out or fitted."""
        if isinstance(self.weights, ScoreWeights):
            return self.weights.weights
        assert isinstance(self.weights, dict)
        return self.weights

    def bind(self, response: Record) -> Reading:
        """Gives the sum of probability times number."""
        ((name, field),) = response.fields.items()
        assert isinstance(field, OnScale)
        number = self._numbers().__getitem__ if self.weights is not None else field.scale.number

        def expectation(found: dict[Any, float], _: Request) -> float:
            return math.fsum(p * (number(value) or 0.0) for value, p in found.items())

        return self._reading(response, name, NUMBER, expectation)
