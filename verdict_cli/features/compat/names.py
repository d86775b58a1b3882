"""The names of haizelabs' library (PyPI `verdict` 0.2.7): `from verdict_cli.compat import …` runs code written for it.

docs/from-verdict.md has each name's counterpart in this project, and what differs.
"""

from __future__ import annotations

from typing import Any

from verdict_cli.features.compat.graph import (
    Block,
    FieldMapUnit,
    Layer,
    MapUnit,
    MaxPoolUnit,
    MeanPoolUnit,
    MeanVariancePoolUnit,
    Unit,
)
from verdict_cli.features.compat.judges import (
    BestOfKJudgeUnit,
    CategoricalJudgeUnit,
    ConversationalUnit,
    CoTUnit,
    DatasetWrapper,
    EnsembleVerifyJudge,
    ExperimentConfig,
    GEvalJudge,
    Image,
    JudgeUnit,
    ModelEnsembleJudge,
    PairwiseJudgeUnit,
    Pipeline,
    RankerUnit,
    display_stats,
)
from verdict_cli.features.compat.schema import (
    BooleanScale,
    ContinuousScale,
    Conversation,
    DiscreteScale,
    LikertScale,
    Message,
    ModelSelectionPolicy,
    PostHocExtractor,
    Prompt,
    ProviderModel,
    RateLimitPolicy,
    RegexExtractor,
    Scale,
    Schema,
    vLLMModel,
)
from verdict_cli.language.extractors.raw import RawExtractor
from verdict_cli.language.extractors.structured import StructuredOutputExtractor
from verdict_cli.language.extractors.token_probability import (
    ArgmaxScoreExtractor,
    SampleScoreExtractor,
    TokenProbabilityExtractor,
    WeightedSummedScoreExtractor,
)


class _RateLimit:
    """`ratelimit.disable()` and `enable()`: no effect, because no limit is set by default."""

    def disable(self) -> None:
        """Nothing to disable."""

    enable = disable


ratelimit: Any = _RateLimit()

__all__ = [
    "ArgmaxScoreExtractor",
    "BestOfKJudgeUnit",
    "Block",
    "BooleanScale",
    "CategoricalJudgeUnit",
    "CoTUnit",
    "ContinuousScale",
    "Conversation",
    "ConversationalUnit",
    "DatasetWrapper",
    "DiscreteScale",
    "EnsembleVerifyJudge",
    "ExperimentConfig",
    "FieldMapUnit",
    "GEvalJudge",
    "Image",
    "JudgeUnit",
    "Layer",
    "LikertScale",
    "MapUnit",
    "MaxPoolUnit",
    "MeanPoolUnit",
    "MeanVariancePoolUnit",
    "Message",
    "ModelEnsembleJudge",
    "ModelSelectionPolicy",
    "PairwiseJudgeUnit",
    "Pipeline",
    "PostHocExtractor",
    "Prompt",
    "ProviderModel",
    "RankerUnit",
    "RateLimitPolicy",
    "RawExtractor",
    "RegexExtractor",
    "SampleScoreExtractor",
    "Scale",
    "Schema",
    "StructuredOutputExtractor",
    "TokenProbabilityExtractor",
    "Unit",
    "WeightedSummedScoreExtractor",
    "display_stats",
    "ratelimit",
    "vLLMModel",
]
