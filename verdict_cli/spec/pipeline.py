"""A pipeline file as a whole (language.md, section 1)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from verdict_cli.keys import Keys, One, Seq
from verdict_cli.models import ModelKey
from verdict_cli.scales import ScaleKeys
from verdict_cli.spec.dataset import DatasetKeys
from verdict_cli.spec.evaluate import Evaluation
from verdict_cli.spec.gate import Gate
from verdict_cli.spec.steps import CustomType, StepKey
from verdict_cli.units.keys import NAME


class PipelineFile(Keys):
    """A pipeline of the Verdict language: a compound judge, the data it reads and how it is measured."""

    verdict: One
    """The language's version."""
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    """The pipeline's name."""
    description: str = ""
    """What the pipeline judges, in a sentence."""
    model: ModelKey | None = None
    """The model of every unit that sets none."""
    models: dict[str, ModelKey] = Field(default_factory=dict)
    """Named models, usable wherever a model is."""
    delimit: bool = False
    """Whether texts in prompts that rows or models wrote stand between tags that they cannot contain, in every unit that
    does not say otherwise."""
    scales: dict[str, ScaleKeys] = Field(default_factory=dict)
    """Named scales, usable wherever a scale is."""
    units: dict[str, CustomType] = Field(default_factory=dict)
    """Unit types of this file."""
    blocks: dict[str, Annotated[Seq[StepKey], Field(min_length=1)]] = Field(default_factory=dict)
    """Named blocks for `use:`."""
    dataset: DatasetKeys = DatasetKeys()
    """How the data is read where the command line does not say otherwise."""
    pipeline: Annotated[Seq[StepKey], Field(min_length=1)]
    """The steps, run one after another."""
    evaluate: dict[Annotated[str, Field(pattern=NAME)], Evaluation] = Field(default_factory=dict)
    """Figures that are measured on the results."""
    gates: Seq[Gate] = ()
    """Bounds that figures must keep, else the run exits with 1."""
