"""Extractors: how a unit's response is asked for and read from the reply (language.md, section 5)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from verdict_cli.extractors.post_hoc import PostHoc
from verdict_cli.extractors.raw import Raw
from verdict_cli.extractors.reading import EXPLANATION, FollowUp, Reading, Trouble
from verdict_cli.extractors.regex import Regex
from verdict_cli.extractors.structured import Structured
from verdict_cli.extractors.token_probability import (
    ArgmaxScore,
    SampleScore,
    TokenProbability,
    WeightedSummedScore,
)
from verdict_cli.extractors.verdict import Verdict, build_rubric, parse_verdict

Extractor = (
    Structured
    | Raw
    | Regex
    | PostHoc
    | TokenProbability
    | ArgmaxScore
    | SampleScore
    | WeightedSummedScore
    | Verdict
)
"""The registry: a new extractor is a file in this folder and a name in this line."""

NAMED: dict[str, Extractor] = {
    made.type: made
    for made in (
        Structured(),
        Raw(),
        PostHoc(),
        TokenProbability(),
        ArgmaxScore(),
        SampleScore(),
        WeightedSummedScore(),
        Verdict(),
    )
}
"""The extractors that can be spelled by their name alone: all but `regex`, which needs patterns."""

Name = Literal[
    "structured",
    "raw",
    "post_hoc",
    "token_probability",
    "argmax_score",
    "sample_score",
    "weighted_summed_score",
    "verdict",
]


def _spelling(value: Any) -> str | None:
    if isinstance(value, str):
        return "<name>"
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) and (kind in NAMED or kind == "regex") else None


ExtractKey = Annotated[
    Annotated[Name, Tag("<name>")]
    | Annotated[Structured, Tag("structured")]
    | Annotated[Raw, Tag("raw")]
    | Annotated[Regex, Tag("regex")]
    | Annotated[PostHoc, Tag("post_hoc")]
    | Annotated[TokenProbability, Tag("token_probability")]
    | Annotated[ArgmaxScore, Tag("argmax_score")]
    | Annotated[SampleScore, Tag("sample_score")]
    | Annotated[WeightedSummedScore, Tag("weighted_summed_score")]
    | Annotated[Verdict, Tag("verdict")],
    Discriminator(_spelling),
]
"""How a pipeline spells an extractor: a name, or a mapping with a `type`."""


def extractor(key: Any) -> Extractor:
    """The extractor that a spelling means."""
    return NAMED[key] if isinstance(key, str) else key


__all__ = [
    "EXPLANATION",
    "NAMED",
    "ArgmaxScore",
    "ExtractKey",
    "Extractor",
    "FollowUp",
    "PostHoc",
    "Raw",
    "Reading",
    "Regex",
    "SampleScore",
    "Structured",
    "TokenProbability",
    "Trouble",
    "Verdict",
    "WeightedSummedScore",
    "build_rubric",
    "extractor",
    "parse_verdict",
]
