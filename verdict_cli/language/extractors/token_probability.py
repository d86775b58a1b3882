"""`token_probability` and the scores made from it; distributions read from log-probabilities."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from verdict_cli.config_model import python_constructor
from verdict_cli.errors import ReplyError
from verdict_cli.language.calibrations import MapKey, ProbabilityMap, ScoreWeights, ScoreWeightsKey, apply_map
from verdict_cli.language.extractors.bound_extractor import BoundExtractor, Extractor, ExtractorIssue
from verdict_cli.language.extractors.token_support import Support, ambiguity, support_of
from verdict_cli.language.extractors.token_value import TokenPosition, bare_token, find_value, position_at, spelled
from verdict_cli.language.fields.types import MASS_TYPE, NUMBER, DistributionType, FieldType, RecordType, ScaleType
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.discrete import Value
from verdict_cli.messages import Alternative, Reply, is_logprob

if TYPE_CHECKING:
    from verdict_cli.messages import Request


TOP_LOGPROBS = 20
"""Alternatives requested at each position: the most that OpenAI's API returns."""

UNCLEAR_REPLY = 0.01
"""The share of the scale's probability that may be on tokens that begin several values. More would bias the result."""


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
        raise ReplyError(
            "the model returned no log-probabilities",
            hint="token extractors need a model that returns them; use `structured` or `regex` with this one",
            kind="no-logprobs",
        )
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
    if total == 0 or total < min_mass:
        raise ReplyError(
            f"the scale's tokens have a probability of {total:.2g} together, less than {min_mass:g}",
            hint="ask for the value alone, or lower `min_mass`",
            kind="low-mass",
        )
    if unclear > UNCLEAR_REPLY * total:
        raise _several_tokens(reply.text.strip())
    values = dict.fromkeys(value for _, value in scale.tokens())
    return {value: mass.get(value, 0.0) / total for value in values}, min(total, 1.0)


def _mass(support: Support, position: TokenPosition, lead: str, *, around: bool) -> tuple[dict[Any, float], float]:
    """The probability of each value, and of tokens that begin several values."""
    mass: dict[Any, float] = {}
    unclear = 0.0
    for alternative in position:
        values = _values(support, alternative.token, lead, around=around)
        if len(values) == 1:
            mass[values[0]] = mass.get(values[0], 0.0) + _probability(alternative)
        elif values:
            unclear += _probability(alternative)
    return mass, unclear


def _values(support: Support, token: str, lead: str, *, around: bool) -> tuple[Any, ...]:
    """The values that a token can mean, without ``lead``, the text before the value in the token that was drawn.

    ``around``: the drawn token has quotes, emphasis or a period around its value, so other tokens may have them too.
    """
    word = spelled(token)
    word = word[len(lead) :] if lead.strip() and word.startswith(lead) else word
    return support.values(word) or (support.values(bare_token(word)) if around else ())


def _probability(alternative: Alternative) -> float:
    if not is_logprob(alternative.logprob):
        raise ReplyError(f"{alternative.logprob!r} is not a log-probability", kind="no-logprobs")
    return math.exp(alternative.logprob)


def _several_tokens(written: str) -> ReplyError:
    return ReplyError(
        f"this model writes values in several tokens, here {written!r}",
        hint="use a scale whose values are single tokens, such as letters",
        kind="no-logprobs",
    )


DISTRIBUTION_FIELD = "distribution"
MASS_FIELD = "mass"

SPARE_TOKENS = 8
"""Tokens that a reply may have beside its value: quotes, emphasis, a period, white space."""

BYTES_A_TOKEN = 3
"""A cautious estimate of how much of a value one token writes."""


class _TokenExtractor(Extractor):
    after: Annotated[str, Field(min_length=1)] | None = None
    """Text that comes before the value, such as `Score:`, so that reasons may come before it; its last occurrence counts."""
    min_mass: Annotated[float, Field(ge=0, le=1)] = 0.5
    """The least probability that the scale's tokens must have together; below it, the reply cannot be read."""
    first_token: bool = False
    """Read the alternatives of the reply's first token, whatever the reply says; `min_mass` still holds. For recordings of judges that were read so."""
    calibration: MapKey | None = None
    """A map that `verdict calibrate` fitted: the token probabilities are replaced by calibrated ones."""

    def validation_error(self, response: RecordType) -> ExtractorIssue | None:
        """The response must be one field on a scale whose values start with tokens of their own."""
        kinds = list(response.fields.values())
        scale = kinds[0].scale if len(kinds) == 1 and isinstance(kinds[0], ScaleType) else None
        if scale is None or not scale.tokens():
            return (
                "",
                f"`{self.type}` needs a response of one field on a discrete or boolean scale, here it is {response.type_name()}",
                "give the unit such a scale, leave `explanation` out, or use `structured`",
            )
        if self.first_token and self.after is not None:
            return ("first_token", "`first_token` and `after` exclude each other", "give one of them")
        if MASS_FIELD in response.fields:
            return (
                "",
                f"`{self.type}` gives a field {MASS_FIELD!r} of its own",
                "choose another name for the response's field",
            )
        ambiguous = ambiguity(scale)
        if ambiguous:
            return (
                "",
                f"`{self.type}` cannot distinguish the values: {ambiguous}",
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

    def _bound(
        self, response: RecordType, name: str, kind: FieldType, score: Callable[[dict[Any, float], Request], Any]
    ) -> BoundExtractor:
        scale = _scale(response)
        fitted = self.calibration
        assert fitted is None or isinstance(fitted, ProbabilityMap)

        def read(reply: Reply, request: Request) -> dict[str, Any]:
            probabilities, mass = distribution(
                reply, scale, after=self.after, min_mass=self.min_mass, first_token=self.first_token
            )
            value = score(probabilities if fitted is None else apply_map(probabilities, fitted), request)
            return {name: value, MASS_FIELD: mass}

        worst_first = sorted(scale.tokens(), key=lambda pair: scale.values().index(pair[1]))
        support = tuple(token for token, _ in worst_first)
        longest = max(-(-len(token.encode()) // BYTES_A_TOKEN) for token in support)
        return BoundExtractor(
            RecordType({name: kind, MASS_FIELD: MASS_TYPE}),
            read,
            top_logprobs=TOP_LOGPROBS,
            support=support,
            instruction=_VALUE_ALONE if self.after is None else f"End with {self.after!r} and the value alone.",
            token_cap=longest + SPARE_TOKENS if self.after is None else 0,
        )


_VALUE_ALONE = "Do not explain. Respond with the value alone."


def _scale(response: RecordType) -> Scale:
    (field,) = response.fields.values()
    assert isinstance(field, ScaleType)
    return field.scale


class TokenProbabilityExtractor(_TokenExtractor):
    """Field `distribution`: value → probability, normalised over the scale's token support."""

    type: Literal["token_probability"] = "token_probability"
    """The type of extractor."""

    def bind(self, response: RecordType) -> BoundExtractor:
        kind = DistributionType(_scale(response))
        return self._bound(response, DISTRIBUTION_FIELD, kind, lambda probabilities, _: probabilities)


class ArgmaxScoreExtractor(_TokenExtractor):
    """The most probable value; of several, the first in the support's order."""

    type: Literal["argmax_score"] = "argmax_score"
    """The type of extractor."""

    def bind(self, response: RecordType) -> BoundExtractor:
        ((name, kind),) = response.fields.items()
        return self._bound(
            response, name, kind, lambda probabilities, _: max(probabilities, key=probabilities.__getitem__)
        )


class SampleScoreExtractor(_TokenExtractor):
    """A value drawn from the distribution, seeded by the run's seed, the row, the unit and the attempt."""

    type: Literal["sample_score"] = "sample_score"
    """The type of extractor."""

    def bind(self, response: RecordType) -> BoundExtractor:
        ((name, kind),) = response.fields.items()

        def draw(probabilities: dict[Any, float], request: Request) -> Any:
            key = f"{request.seed}|{request.row.lot}|{request.node}|{request.call}|{request.attempt}"
            seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest())
            return random.Random(seed).choices(list(probabilities), weights=list(probabilities.values()))[0]

        return self._bound(response, name, kind, draw)


class WeightedSummedScoreExtractor(_TokenExtractor):
    """The distribution's expectation, as in G-Eval (Liu et al., 2023)."""

    type: Literal["weighted_summed_score"] = "weighted_summed_score"
    """The type of extractor."""
    weights: ScoreWeightsKey | None = None
    """Numbers that replace the values' own: a mapping, or a file that `verdict calibrate` wrote."""

    @python_constructor
    def __init__(self, weights: Mapping[Any, float] | None = None, **keys: Any) -> None:
        keys["weights"] = dict(weights) if isinstance(weights, Mapping) else weights
        super().__init__(**keys)

    def validation_error(self, response: RecordType) -> ExtractorIssue | None:
        """In addition, each value must have a number."""
        issue = super().validation_error(response)
        if issue:
            return issue
        scale = _scale(response)
        if self.weights is None:
            if scale.numeric():
                return None
            hint = "give the scale `scores:` or the extractor `weights:`"
            return ("", f"the values {scale.display()} have no number", hint)
        values = list(dict.fromkeys(value for _, value in scale.tokens()))
        weights = self._numbers()
        for value in weights:
            if value not in values:
                return ("weights", f"{value!r} is not a value of the scale", f"its values are {scale.display()}")
        missing = [value for value in values if value not in weights]
        return ("weights", f"the value {missing[0]!r} has no weight", "give every value a number") if missing else None

    def _numbers(self) -> dict[Value, float]:
        """The weights, written out or fitted."""
        if isinstance(self.weights, ScoreWeights):
            return self.weights.weights
        assert isinstance(self.weights, dict)
        return self.weights

    def bind(self, response: RecordType) -> BoundExtractor:
        (name,) = response.fields
        number = self._numbers().__getitem__ if self.weights is not None else _scale(response).number

        def expectation(probabilities: dict[Any, float], _: Request) -> float:
            return math.fsum(p * (number(value) or 0.0) for value, p in probabilities.items())

        return self._bound(response, name, NUMBER, expectation)
