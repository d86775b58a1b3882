"""`decision`: the answer of a decision model, with its probability and the whole distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Literal

from verdict_cli.config_model import Issue
from verdict_cli.language.extractors.bound_extractor import BoundExtractor, Extractor
from verdict_cli.language.extractors.structured import json_object, repaired
from verdict_cli.language.extractors.token_probability import (
    DISTRIBUTION_FIELD,
    decided_distribution,
)
from verdict_cli.language.fields.types import (
    NUMBER,
    DistributionType,
    Fields,
    RecordType,
    ScaleType,
    Values,
)
from verdict_cli.language.scales import Scale
from verdict_cli.messages import Reply, Request

PROBABILITY_FIELD, EXPECTED_FIELD = "p", "expected"


class DecisionExtractor(Extractor):
    """A decision model's answer: the most probable value, its probability `p`, the `distribution`, and `expected` where values have numbers.

    A chat model is asked for JSON, as by `structured`; the other fields are null then.
    """

    type: Literal["decision"] = "decision"
    """The type of extractor."""
    value_alone: ClassVar[bool] = False
    """Whether the output is the unit's own field alone."""
    own_names: ClassVar[tuple[str, ...]] = (PROBABILITY_FIELD, DISTRIBUTION_FIELD, EXPECTED_FIELD)

    def validation_error(self, response: RecordType) -> Issue | None:
        """The response must be one field on a scale."""
        kinds = list(response.fields.values())
        if len(kinds) != 1 or not isinstance(kinds[0], ScaleType):
            message = f"`decision` needs a response of one field on a scale, here it is {response.type_name()}"
            return Issue("", message, "leave the other fields out, or use `structured`")
        duplicate = next((name for name in self.own_names if name in response.fields), None)
        if duplicate is not None and not self.value_alone:
            return Issue(
                "",
                f"`decision` gives a field {duplicate!r} of its own",
                "choose another name for the response's field",
            )
        return None

    def for_decisions(self) -> Extractor:
        return self

    def bind(self, response: RecordType) -> BoundExtractor:
        ((name, kind),) = response.fields.items()
        assert isinstance(kind, ScaleType)
        scale = kind.scale
        other_fields = {} if self.value_alone else _other_fields(scale)
        decide = _decider(scale)
        tokens = {token for token, _ in scale.anchors()}

        def read(reply: Reply, request: Request) -> Values:
            if request.questions or (reply.logprobs is not None and reply.text in tokens):
                decided = decide(reply)
                return {name: decided["value"]} | {field: decided[field] for field in other_fields}
            values = response.read(json_object(reply.text, cut=reply.finish_reason == "length"))
            return values | dict.fromkeys(other_fields)

        return BoundExtractor(
            RecordType({name: kind, **other_fields}),
            read,
            json_schema=response.json_schema(),
            corrects=True,
            deviates=lambda text: text not in tokens and repaired(text),
            thoughts="keep",
        )


class DecidedValueExtractor(DecisionExtractor):
    """The value alone: `structured` on a decision model."""

    value_alone = True


def _other_fields(scale: Scale) -> Fields:
    fields: Fields = {} if not scale.values() else {PROBABILITY_FIELD: NUMBER}
    fields[DISTRIBUTION_FIELD] = DistributionType(scale)
    return fields | ({EXPECTED_FIELD: NUMBER} if scale.values() and scale.numeric() else {})


def _decider(scale: Scale) -> Callable[[Reply], Values]:
    """The function that gives all fields of an answer, and its value: of a scale of all numbers the mean, else the most probable
    one, of several the first."""
    anchors = scale.anchors()
    values = scale.token_values()
    low, high = scale.bounds() or (0.0, 1.0)
    numbers = {}
    if scale.numeric():
        numbers = {value: scale.number(value) or 0.0 for _, value in anchors}

    def decide(reply: Reply) -> Values:
        probabilities, _ = decided_distribution(reply, anchors)
        fields: Values = {DISTRIBUTION_FIELD: probabilities}
        if numbers:
            mean = math.fsum(p * numbers[value] for value, p in probabilities.items())
            fields[EXPECTED_FIELD] = round(mean, 12)
        if not values:
            return fields | {"value": min(high, max(low, fields[EXPECTED_FIELD]))}
        best = max(values, key=lambda value: probabilities[value])
        return fields | {"value": best, PROBABILITY_FIELD: probabilities[best]}

    return decide
