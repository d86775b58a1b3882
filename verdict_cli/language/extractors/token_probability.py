"""`token_probability` and the scores made from it; distributions read from log-probabilities."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from verdict_cli.config_model import Whole, python_constructor
from verdict_cli.language.calibrations import MapKey, ProbabilityMap, ScoreWeights, ScoreWeightsKey, apply_map
from verdict_cli.language.extractors.bound_extractor import (
    EXPLANATION,
    MASS_FIELD,
    SAMPLED_FIELD,
    BoundExtractor,
    Extractor,
    ExtractorIssue,
    MoreReplies,
)
from verdict_cli.language.extractors.token_distribution import distribution, sequence_distribution
from verdict_cli.language.extractors.token_support import ambiguity, support_of
from verdict_cli.language.extractors.token_value import find_value
from verdict_cli.language.fields.types import (
    MASS_TYPE,
    NUMBER,
    SAMPLED_TYPE,
    TEXT,
    DistributionType,
    FieldType,
    RecordType,
    ScaleType,
)
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.discrete import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verdict_cli.messages import Reply, Request


TOP_LOGPROBS = 20
"""Alternatives requested at each position: the most that OpenAI's API returns."""

DISTRIBUTION_FIELD = "distribution"

LEAST_PROBABILITY = 1e-10
"""What a value that is not among a reply's alternatives counts as in a logarithm: servers report none that is smaller."""

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
    sequence: bool = False
    """Whether a value may have several tokens: its probability is then the product along them, where all are among the alternatives."""
    samples: Annotated[int, Field(ge=0, le=1000), Whole] = 0
    """With `sequence`: how many further replies (at temperature 1) give the probability of the values whose tokens are not all among the alternatives; the output `sampled` says where they did."""
    calibration: MapKey | None = None
    """A map that `verdict calibrate` fitted: the token probabilities are replaced by calibrated ones."""

    def validation_error(self, response: RecordType) -> ExtractorIssue | None:
        """The response must be one field on a scale whose values start with tokens of their own."""
        fields = _judged(response)
        kinds = list(fields.values())
        scale = kinds[0].scale if len(kinds) == 1 and isinstance(kinds[0], ScaleType) else None
        if scale is None or not scale.tokens():
            return (
                "",
                f"`{self.type}` needs a response of one field on a discrete or boolean scale, here it is {response.type_name()}",
                "give the unit such a scale, or use `structured`",
            )
        if len(fields) < len(response.fields) and self.after is None:
            return (
                "",
                f"`{self.type}` needs `after` where an `explanation` comes before the value",
                'write `after: "Score:"`, or leave `explanation` out',
            )
        if self.first_token and (self.after is not None or self.sequence):
            other = "after" if self.after is not None else "sequence"
            return ("first_token", f"`first_token` and `{other}` exclude each other", "give one of them")
        if self.samples and not self.sequence:
            return ("samples", "`samples` needs `sequence: true`", "without it every value is read from one token")
        for own in (MASS_FIELD, *([SAMPLED_FIELD] if self.samples else [])):
            if own in response.fields:
                hint = "choose another name for the response's field"
                return ("", f"`{self.type}` gives a field {own!r} of its own", hint)
        ambiguous = None if self.sequence else ambiguity(scale)
        if ambiguous:
            return (
                "",
                f"`{self.type}` cannot distinguish the values: {ambiguous}",
                "use values that begin differently, such as letters, or give the extractor `sequence: true`",
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
        scale, after, explains = _scale(response), self.after, EXPLANATION in response.fields
        support = support_of(scale)

        def output(reply: Reply, request: Request, probabilities: dict[Any, float], mass: float) -> dict[str, Any]:
            fitted = self.calibration
            assert fitted is None or isinstance(fitted, ProbabilityMap)
            explained = {EXPLANATION: _before(reply.text, after)} if explains else {}
            value = score(probabilities if fitted is None else apply_map(probabilities, fitted), request)
            return {**explained, name: value, MASS_FIELD: mass}

        def read(reply: Reply, request: Request) -> dict[str, Any]:
            least = self.min_mass
            if not self.sequence:
                found = distribution(reply, scale, after=after, min_mass=least, first_token=self.first_token)
                return output(reply, request, *found)
            known = sequence_distribution(reply, scale, after=after, min_mass=least, sampled=self.samples > 0)
            if self.samples and known.missing:
                return {SAMPLED_FIELD: True, MASS_FIELD: known.mass}
            given = output(reply, request, known.completed(), known.mass)
            return {**given, SAMPLED_FIELD: False} if self.samples else given

        def complete(reply: Reply, request: Request, values: Sequence[Any]) -> dict[str, Any]:
            known = sequence_distribution(reply, scale, after=after, min_mass=self.min_mass, sampled=True)
            return {**output(reply, request, known.completed(values), known.mass), SAMPLED_FIELD: True}

        explained = {EXPLANATION: TEXT} if explains else {}
        evidence = {MASS_FIELD: MASS_TYPE, **({SAMPLED_FIELD: SAMPLED_TYPE} if self.samples else {})}
        worst_first = sorted(scale.tokens(), key=lambda pair: scale.values().index(pair[1]))
        tokens = tuple(token for token, _ in worst_first)
        longest = max(-(-len(token.encode()) // BYTES_A_TOKEN) for token in tokens)
        cap = longest + SPARE_TOKENS if after is None else 0
        return BoundExtractor(
            RecordType({**explained, name: kind, **evidence}),
            read,
            top_logprobs=TOP_LOGPROBS,
            support=tokens,
            instruction=_instruction(after, explains=explains),
            token_cap=cap,
            more=MoreReplies(
                self.samples,
                lambda response: response[SAMPLED_FIELD],
                BoundExtractor(
                    RecordType({name: kind}),
                    lambda reply, _: {name: find_value(reply.text, support, after).value},
                    token_cap=cap,
                ),
                lambda reply, request, replies: complete(reply, request, [one[name] for one in replies]),
            )
            if self.samples
            else None,
            sequence=self.sequence,
        )


def _instruction(after: str | None, *, explains: bool) -> str:
    if after is None:
        return "Do not explain. Respond with the value alone."
    end = f'"{after.strip()}" and the value alone.'
    return f"Explain first, then end with {end}" if explains else f"End with {end}"


def _before(text: str, after: str | None) -> str:
    """The reasons: what comes before the last ``after``."""
    return text[: text.rfind(after)].strip() if after is not None else ""


def _judged(response: RecordType) -> dict[str, FieldType]:
    """The response's fields without the explanation."""
    return {name: kind for name, kind in response.fields.items() if not (name == EXPLANATION and kind == TEXT)}


def _scale(response: RecordType) -> Scale:
    (field,) = _judged(response).values()
    assert isinstance(field, ScaleType)
    return field.scale


class TokenProbabilityExtractor(_TokenExtractor):
    """Field `distribution`: value → probability, normalised over the scale's token support."""

    type: Literal["token_probability"] = "token_probability"
    """The type of extractor."""
    log: bool = False
    """Gives the response's own field instead of `distribution`: the natural logarithm of the probability of the scale's best value, such as that of `true`."""

    def validation_error(self, response: RecordType) -> ExtractorIssue | None:
        """In addition, `log` needs a best value."""
        issue = super().validation_error(response)
        if issue is None and self.log and _scale(response).best() is None:
            hint = "give the scale `ordered: true`, or leave `log` out and use `distribution`"
            return ("log", "no value of the scale is the best, whose probability could be the score", hint)
        return issue

    def bind(self, response: RecordType) -> BoundExtractor:
        if self.log:
            (name,), best = _judged(response), _scale(response).best()
            return self._bound(
                response, name, NUMBER, lambda probabilities, _: math.log(max(probabilities[best], LEAST_PROBABILITY))
            )
        kind = DistributionType(_scale(response))
        return self._bound(response, DISTRIBUTION_FIELD, kind, lambda probabilities, _: probabilities)


class ArgmaxScoreExtractor(_TokenExtractor):
    """The most probable value; of several, the first in the support's order."""

    type: Literal["argmax_score"] = "argmax_score"
    """The type of extractor."""

    def bind(self, response: RecordType) -> BoundExtractor:
        ((name, kind),) = _judged(response).items()
        return self._bound(
            response, name, kind, lambda probabilities, _: max(probabilities, key=probabilities.__getitem__)
        )


class SampleScoreExtractor(_TokenExtractor):
    """A value drawn from the distribution, seeded by the run's seed, the row, the unit and the attempt."""

    type: Literal["sample_score"] = "sample_score"
    """The type of extractor."""

    def bind(self, response: RecordType) -> BoundExtractor:
        ((name, kind),) = _judged(response).items()

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
        (name,) = _judged(response)
        number = self._numbers().__getitem__ if self.weights is not None else _scale(response).number

        def expectation(probabilities: dict[Any, float], _: Request) -> float:
            return math.fsum(p * (number(value) or 0.0) for value, p in probabilities.items())

        return self._bound(response, name, NUMBER, expectation)
