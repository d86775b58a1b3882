"""Extractors: how a unit's response is asked for and read from the reply (language.md, section 5)."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from verdict_cli.language.entry_points import EntryPointGroup, PluginUnion, made_of, subclass_of
from verdict_cli.language.extractors.bound_extractor import (
    EXPLANATION,
    BaseExtractor,
    BoundExtractor,
    ExtractorIssue,
    FollowUp,
)
from verdict_cli.language.lazy_registry import LazyUnion, Registry

EXTRACTORS: Registry[BaseExtractor] = Registry(
    __name__,
    {
        "structured": "structured.Structured",
        "raw": "raw.Raw",
        "regex": "regex.Regex",
        "post_hoc": "post_hoc.PostHoc",
        "token_probability": "token_probability.TokenProbability",
        "argmax_score": "token_probability.ArgmaxScore",
        "sample_score": "token_probability.SampleScore",
        "weighted_summed_score": "token_probability.WeightedSummedScore",
        "verdict": "verdict.Verdict",
    },
)
"""Extractors by their `type`: a new extractor is a file in this folder and a line here."""

EXTRACTOR_PLUGINS: EntryPointGroup[type[BaseExtractor]] = EntryPointGroup(
    "verdict_cli.extractors", subclass_of(BaseExtractor)
)
"""Extractors of installed packages."""

ExtractorName = Literal[
    "structured",
    "raw",
    "post_hoc",
    "token_probability",
    "argmax_score",
    "sample_score",
    "weighted_summed_score",
    "verdict",
]
"""The extractors that can be spelled by their name alone: all but `regex`, which needs patterns."""


def _spelling(value: Any) -> str | None:
    if isinstance(value, str):
        return "<name>"
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) and kind in EXTRACTORS else None


def _offered(value: Any) -> BaseExtractor | None:
    keys = {"type": value} if isinstance(value, str) else value
    kind = keys.get("type") if isinstance(keys, dict) else None
    made = EXTRACTOR_PLUGINS.get(kind) if isinstance(kind, str) and kind not in EXTRACTORS else None
    return None if made is None else made_of(made, keys)


def _spelled(own: dict[str, Any], kinds: dict[str, Any]) -> dict[str, Any]:
    return {**own, "oneOf": [*own["oneOf"], {"enum": list(kinds)}, *kinds.values()]}


ExtractKey = Annotated[
    ExtractorName | BaseExtractor,
    LazyUnion(_spelling, EXTRACTORS.choices(str), {"<name>": ExtractorName}),
    PluginUnion(EXTRACTOR_PLUGINS, _offered, _spelled),
]
"""How a pipeline spells an extractor: a name, or a mapping with a `type`."""


def extractor(key: Any) -> BaseExtractor:
    """The extractor that a spelling means."""
    return _named(key) if isinstance(key, str) else key


@cache
def _named(name: str) -> BaseExtractor:
    kind = EXTRACTORS.get(name) or EXTRACTOR_PLUGINS.get(name)
    if kind is None:
        raise KeyError(name)
    return kind.model_validate({"type": name})


__all__ = [
    "EXPLANATION",
    "EXTRACTORS",
    "EXTRACTOR_PLUGINS",
    "BaseExtractor",
    "BoundExtractor",
    "ExtractKey",
    "ExtractorIssue",
    "FollowUp",
    "extractor",
]
