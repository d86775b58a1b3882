"""Extractors: how a unit's response is requested and read from the reply."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from pydantic import Discriminator, Tag
from typing_extensions import TypeAliasType

from verdict_cli.config_model import (
    Expected,
    LazyUnion,
    MessageAndHint,
    RegisteredName,
    display_value,
    subclass_of,
)
from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.language.extractors.bound_extractor import Extractor
from verdict_cli.registry import Registry

EXTRACTORS: Registry[type[Extractor]] = Registry(
    __name__,
    {
        "decision": "decision.DecisionExtractor",
        "structured": "structured.StructuredOutputExtractor",
        "raw": "raw.RawExtractor",
        "regex": "regex.RegexExtractor",
        "post_hoc": "post_hoc.PostHocExtractor",
        "token_probability": "token_probability.TokenProbabilityExtractor",
        "argmax_score": "token_probability.ArgmaxScoreExtractor",
        "sample_score": "token_probability.SampleScoreExtractor",
        "weighted_summed_score": "token_probability.WeightedSummedScoreExtractor",
        "verdict": "verdict.VerdictExtractor",
    },
    "verdict_cli.extractors",
    subclass_of(Extractor),
)
"""Extractors by their `type`: a new extractor is a file in this folder and a line here."""


def _extractor_tag(value: Any) -> str | None:
    name = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return f"<{name}>" if isinstance(name, str) and name in EXTRACTORS else None


def _name_or_extractor(value: Any) -> str:
    return "<name>" if isinstance(value, str) else "<extractor>"


def _expected(value: Any) -> MessageAndHint:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind is not None:
        return f"unknown extractor {kind!r}", nearest_spelling(str(kind), EXTRACTORS.names())
    return (
        f"expected an extractor, found {display_value(value)}",
        f"a name ({', '.join(EXTRACTORS.names())}) or a mapping with `type`",
    )


ExtractorKeys = Annotated[
    Extractor,
    LazyUnion(_extractor_tag, EXTRACTORS.choices("<{}>".format), registry=EXTRACTORS),
    Expected(_expected),
]
"""An extractor written out as a mapping."""

ExtractKey = TypeAliasType(
    "ExtractKey",
    Annotated[
        Annotated[str, RegisteredName(EXTRACTORS), Tag("<name>")]
        | Annotated[ExtractorKeys, Tag("<extractor>")],
        Discriminator(_name_or_extractor),
    ],
)
"""An extractor in a pipeline: a name, or a mapping with a `type`."""


def resolve_extractor(key: str | Extractor) -> Extractor:
    """The extractor of a name, or the one that is written out."""
    return _named_extractor(key) if isinstance(key, str) else key


@cache
def _named_extractor(name: str) -> Extractor:
    return EXTRACTORS[name].model_validate({"type": name})
