"""Extractors (language.md, section 5) as Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Unpack

from verdict_cli.errors import UsageError
from verdict_cli.language.authoring.arguments import ModelKeys, ModelLike, model_key


class Extractor:
    """How a unit's response is read from the reply."""

    name: ClassVar[str]

    def key(self, fields: Sequence[str]) -> Any:
        """The extractor as a pipeline file writes it; `fields` are the response's, the explanation aside."""
        return self.name


@dataclass(frozen=True, slots=True)
class StructuredOutputExtractor(Extractor):
    """The reply is a JSON object that satisfies the response schema."""

    name: ClassVar[str] = "structured"


@dataclass(frozen=True, slots=True)
class RawExtractor(Extractor):
    """The whole text into the unit's single string field."""

    name: ClassVar[str] = "raw"


class RegexExtractor(Extractor):
    """One pattern a field; `pattern` alone is that of the unit's only field."""

    name: ClassVar[str] = "regex"
    FIRST_INT: ClassVar[str] = "FIRST_INT"
    LAST_INT: ClassVar[str] = "LAST_INT"
    FIRST_FLOAT: ClassVar[str] = "FIRST_FLOAT"
    LAST_FLOAT: ClassVar[str] = "LAST_FLOAT"

    __slots__ = ("_fields", "_match", "_pattern")

    def __init__(
        self,
        pattern: str | None = None,
        *,
        fields: Mapping[str, str] | None = None,
        match: Literal["first", "last", "unique"] = "first",
    ) -> None:
        if (pattern is None) == (fields is None):
            hint = "`RegexExtractor(pattern=RegexExtractor.FIRST_INT)`, or `fields={'score': …}` for several"
            raise UsageError("RegexExtractor takes either `pattern` or `fields`", hint=hint)
        self._pattern = pattern
        self._fields = None if fields is None else dict(fields)
        self._match = match

    def key(self, fields: Sequence[str]) -> Any:
        """The patterns by field."""
        patterns = self._fields
        if patterns is None:
            if len(fields) != 1:
                raise UsageError(
                    f"RegexExtractor(pattern=…) is for a response of one field, here are {', '.join(fields) or 'none'}",
                    hint="give a pattern for each: `RegexExtractor(fields={'score': RegexExtractor.FIRST_INT})`",
                )
            patterns = {fields[0]: str(self._pattern)}
        return {
            "type": self.name,
            "fields": dict(patterns),
            **({} if self._match == "first" else {"match": self._match}),
        }


class PostHocExtractor(Extractor):
    """A first free-text call, then a second call that structures it; the second model is the unit's own where
    none is given."""

    name: ClassVar[str] = "post_hoc"
    __slots__ = ("_model",)

    def __init__(self, model: ModelLike | None = None, **keys: Unpack[ModelKeys]) -> None:
        self._model = None if model is None else model_key("PostHocExtractor", model, dict(keys))

    def key(self, fields: Sequence[str]) -> Any:
        """The name, or the name and the second model."""
        return self.name if self._model is None else {"type": self.name, "model": self._model}


@dataclass(frozen=True, slots=True)
class TokenProbabilityExtractor(Extractor):
    """Field `distribution`: value to probability, normalised over the scale's tokens."""

    name: ClassVar[str] = "token_probability"


@dataclass(frozen=True, slots=True)
class ArgmaxScoreExtractor(Extractor):
    """The most probable value of the scale."""

    name: ClassVar[str] = "argmax_score"


@dataclass(frozen=True, slots=True)
class SampleScoreExtractor(Extractor):
    """A seeded draw from the distribution over the scale."""

    name: ClassVar[str] = "sample_score"


class WeightedSummedScoreExtractor(Extractor):
    """The distribution's expectation; `weights` replace the values' own numbers."""

    name: ClassVar[str] = "weighted_summed_score"
    __slots__ = ("_weights",)

    def __init__(self, weights: Mapping[Any, float] | None = None) -> None:
        self._weights = None if weights is None else dict(weights)

    def key(self, fields: Sequence[str]) -> Any:
        """The name, or the name and the weights."""
        return self.name if self._weights is None else {"type": self.name, "weights": dict(self._weights)}


@dataclass(frozen=True, slots=True)
class VerdictExtractor(Extractor):
    """The last PASS or FAIL and the last `SCORE: n`; nothing found means FAIL and 0."""

    name: ClassVar[str] = "verdict"
