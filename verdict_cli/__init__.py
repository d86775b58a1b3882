"""Judge LLM outputs with compound judges: small graphs of LLM calls.

`from verdict_cli import Pipeline, Layer, JudgeUnit …` is the Python API; each name is imported on first use.
`__init__.pyi` says the same to type checkers, so that no module which reads `__version__` depends on the API.
"""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info < (3, 11):  # noqa: UP036 - a checkout can be run by any Python
    raise SystemExit(
        f"verdict: Python 3.11 or newer is needed, this is {sys.version.split()[0]}\n"
        "    install it beside this one, then: python3.12 -m pip install verdict-cli"
    )

__version__ = "0.1.0"

_HOMES = {
    "python.extractors": (
        "ArgmaxScoreExtractor",
        "Extractor",
        "PostHocExtractor",
        "RawExtractor",
        "RegexExtractor",
        "SampleScoreExtractor",
        "StructuredOutputExtractor",
        "TokenProbabilityExtractor",
        "VerdictExtractor",
        "WeightedSummedScoreExtractor",
    ),
    "python.judge": ("Judge",),
    "python.judged": ("Judged",),
    "python.pipeline": ("Pipeline",),
    "python.prompts": ("Prompt",),
    "python.scales": ("BooleanScale", "ContinuousScale", "DiscreteScale", "LikertScale", "Scale"),
    "python.schema": ("Schema",),
    "python.steps": ("Block", "Layer"),
    "python.unit": ("Unit",),
    "python.units": (
        "ArgumentUnit",
        "BestOfKJudgeUnit",
        "CategoricalJudgeUnit",
        "CoTUnit",
        "ConversationalUnit",
        "DebateUnit",
        "JudgeUnit",
        "MapUnit",
        "MaxPoolUnit",
        "MeanPoolUnit",
        "MeanVariancePoolUnit",
        "MedianFilterUnit",
        "MedianPoolUnit",
        "MinPoolUnit",
        "ModePoolUnit",
        "PairwiseJudgeUnit",
        "RankerUnit",
        "RubricUnit",
    ),
    "errors": (
        "BudgetError",
        "DataError",
        "JournalError",
        "OutputError",
        "PinnedError",
        "Problem",
        "ProviderError",
        "Refused",
        "Rejected",
        "ReplyError",
        "Retryable",
        "RowError",
        "SpecError",
        "UsageError",
        "VerdictError",
    ),
    "language.metric_registry": ("Metric",),
    "language.extractors.verdict": ("build_rubric", "parse_verdict"),
}
"""The module in which each public name is defined."""


__all__ = ["__version__", *sorted(name for names in _HOMES.values() for name in names)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"verdict_cli.{module}"), name)
    raise AttributeError(f"module 'verdict_cli' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
