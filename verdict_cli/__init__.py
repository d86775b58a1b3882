"""Judge LLM outputs with compound judges: small graphs of LLM calls.

`from verdict_cli import Pipeline, Layer, JudgeUnit …` is the Python API. Each name is imported on first use, so that no
module which only reads `__version__` depends on it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 11):  # noqa: UP036 - a checkout can be run by any Python
    raise SystemExit(
        f"verdict: Python 3.11 or newer is needed, this is {sys.version.split()[0]}\n"
        "    install it beside this one, then install verdict with it: python3.12 -m pip install ."
    )

__version__ = "0.1.0"

if TYPE_CHECKING:
    from verdict_cli.errors import BudgetError as BudgetError
    from verdict_cli.errors import DataError as DataError
    from verdict_cli.errors import JournalError as JournalError
    from verdict_cli.errors import OutputError as OutputError
    from verdict_cli.errors import PinnedError as PinnedError
    from verdict_cli.errors import Problem as Problem
    from verdict_cli.errors import ProviderError as ProviderError
    from verdict_cli.errors import Refused as Refused
    from verdict_cli.errors import Rejected as Rejected
    from verdict_cli.errors import ReplyError as ReplyError
    from verdict_cli.errors import Retryable as Retryable
    from verdict_cli.errors import RowError as RowError
    from verdict_cli.errors import SpecError as SpecError
    from verdict_cli.errors import UsageError as UsageError
    from verdict_cli.errors import VerdictError as VerdictError
    from verdict_cli.language.authoring.arguments import Prompt as Prompt
    from verdict_cli.language.authoring.schema import Schema as Schema
    from verdict_cli.language.authoring.step import Block as Block
    from verdict_cli.language.authoring.step import Each as Each
    from verdict_cli.language.authoring.step import Layer as Layer
    from verdict_cli.language.authoring.units import *  # noqa: F403 - the units' names are there
    from verdict_cli.language.extractors.bound_extractor import Extractor as Extractor
    from verdict_cli.language.extractors.post_hoc import PostHocExtractor as PostHocExtractor
    from verdict_cli.language.extractors.raw import RawExtractor as RawExtractor
    from verdict_cli.language.extractors.regex import RegexExtractor as RegexExtractor
    from verdict_cli.language.extractors.structured import (
        StructuredOutputExtractor as StructuredOutputExtractor,
    )
    from verdict_cli.language.extractors.token_probability import (
        ArgmaxScoreExtractor as ArgmaxScoreExtractor,
    )
    from verdict_cli.language.extractors.token_probability import (
        SampleScoreExtractor as SampleScoreExtractor,
    )
    from verdict_cli.language.extractors.token_probability import (
        TokenProbabilityExtractor as TokenProbabilityExtractor,
    )
    from verdict_cli.language.extractors.token_probability import (
        WeightedSummedScoreExtractor as WeightedSummedScoreExtractor,
    )
    from verdict_cli.language.extractors.verdict import VerdictExtractor as VerdictExtractor
    from verdict_cli.language.extractors.verdict import build_rubric as build_rubric
    from verdict_cli.language.extractors.verdict import parse_verdict as parse_verdict
    from verdict_cli.language.metric_registry import Metric as Metric
    from verdict_cli.language.scales import Scale as Scale
    from verdict_cli.language.scales.boolean import BooleanScale as BooleanScale
    from verdict_cli.language.scales.continuous import ContinuousScale as ContinuousScale
    from verdict_cli.language.scales.discrete import DiscreteScale as DiscreteScale
    from verdict_cli.language.scales.discrete import LikertScale as LikertScale
    from verdict_cli.python.judge import Judge as Judge
    from verdict_cli.python.judged import Judged as Judged
    from verdict_cli.python.pipeline import Pipeline as Pipeline
    from verdict_cli.run.load_run import load_run as load_run

_MODULES = {
    "errors": "BudgetError DataError JournalError OutputError PinnedError Problem ProviderError Refused Rejected ReplyError "
    "Retryable RowError SpecError UsageError VerdictError",
    "language.authoring.arguments": "Prompt",
    "language.authoring.schema": "Schema",
    "language.authoring.step": "Block Each Layer",
    "language.extractors.bound_extractor": "Extractor",
    "language.extractors.post_hoc": "PostHocExtractor",
    "language.extractors.raw": "RawExtractor",
    "language.extractors.regex": "RegexExtractor",
    "language.extractors.structured": "StructuredOutputExtractor",
    "language.extractors.token_probability": "ArgmaxScoreExtractor SampleScoreExtractor TokenProbabilityExtractor "
    "WeightedSummedScoreExtractor",
    "language.extractors.verdict": "VerdictExtractor build_rubric parse_verdict",
    "language.metric_registry": "Metric",
    "language.scales": "Scale",
    "language.scales.boolean": "BooleanScale",
    "language.scales.continuous": "ContinuousScale",
    "language.scales.discrete": "DiscreteScale LikertScale",
    "python.judge": "Judge",
    "python.judged": "Judged",
    "python.pipeline": "Pipeline",
    "run.load_run": "load_run",
}
"""The public names of each module. Units come from their registry, where packages add their own."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(f"verdict_cli.{module}"), name)
    if name == "__all__":
        from verdict_cli.language.units import TYPES

        return sorted(
            [
                "__version__",
                *(name for names in _MODULES.values() for name in names.split()),
                *TYPES,
            ]
        )
    if name[0].isupper():  # submodules are looked up here too, and must not import the language
        from verdict_cli.language.authoring.unit_step import PACKAGE_UNITS
        from verdict_cli.language.authoring.units import unit_class
        from verdict_cli.language.extractors import EXTRACTORS
        from verdict_cli.language.scales import SCALES

        if (kind := unit_class(name) or PACKAGE_UNITS.get(name)) is not None:
            return kind
        for registry in (SCALES, EXTRACTORS):
            for part in registry:
                if registry.title(part) == name:
                    return registry[part]
    raise AttributeError(f"module 'verdict_cli' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
