"""A pipeline file as a whole, and how it reads its data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from verdict_cli.config_model import ConfigModel, One, Uncounted
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.fields.field_keys import FieldTypes
from verdict_cli.language.gate_rules import GateList
from verdict_cli.language.scales import ScaleKeys
from verdict_cli.language.steps import CustomType, StepKey
from verdict_cli.language.units.base import UNIT_NAME
from verdict_cli.model import ModelKey

_USED = Uncounted("it counts where a unit uses it, as the unit means it")
_KEYS = Uncounted("its own fields count")
_SAME = Uncounted("every file has the same")
_DESCRIBES = Uncounted("it describes the pipeline for people")
_MEASURES = Uncounted("it measures results and asks nothing")
_CHOOSES = Uncounted("it says which rows are read, not what a row has", ("calls",))
_SENT = Uncounted("it says where scores are sent")


class DatasetKeys(ConfigModel):
    """Defaults for reading the data."""

    id: Annotated[str, Field(min_length=1)] | None = None
    """The column that names a row, or a path such as `conv.id`; its 0-based number where not given."""
    delimiter: Annotated[Literal[",", ";", "\t", "|"] | None, _CHOOSES] = None
    """What separates the cells of CSV files; by default, what separates the names in the header."""
    columns: dict[str, str] = Field(default_factory=dict)
    """The name in the file for a name in the pipeline."""
    where: Annotated[Annotated[str, Field(min_length=1)] | None, _CHOOSES] = None
    """An expression over `source`: only rows for which it is true are read."""
    trace: Annotated[Annotated[str, Field(min_length=1)] | None, _SENT] = None
    """An expression over `source`: the id of the trace that the row judges, where `--trace` and `verdict export` send its scores."""
    span: Annotated[Annotated[str, Field(min_length=1)] | None, _SENT] = None
    """An expression over `source`: the id of the span in that trace."""
    types: FieldTypes | None = Field(default=None, alias="schema")
    """The type of each column that is checked; CSV texts are converted to it."""


class PipelineFile(ConfigModel):
    """A pipeline of the Verdict language: a compound judge, the data it reads and its metrics."""

    verdict: Annotated[One, _SAME]
    """The language's version."""
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    """The pipeline's name."""
    description: Annotated[str, _DESCRIBES] = ""
    """What the pipeline judges, in a sentence."""
    model: Annotated[ModelKey | None, _USED] = None
    """The model of every unit that sets none."""
    models: Annotated[dict[str, ModelKey], _USED] = Field(default_factory=dict)
    """Named models, usable wherever a model is."""
    delimit: Annotated[bool, _USED] = False
    """Whether texts in prompts that rows or models wrote are put between tags that they cannot contain; the default of all
    units."""
    scales: Annotated[dict[str, ScaleKeys], _USED] = Field(default_factory=dict)
    """Named scales, usable wherever a scale is."""
    units: Annotated[dict[str, CustomType], _USED] = Field(default_factory=dict)
    """Unit types of this file."""
    blocks: Annotated[dict[str, Annotated[tuple[StepKey, ...], Field(min_length=1)]], _USED] = Field(
        default_factory=dict
    )
    """Named blocks for `use:`."""
    dataset: Annotated[DatasetKeys, _KEYS] = DatasetKeys()
    """How the data is read; options of the command line win."""
    pipeline: Annotated[tuple[StepKey, ...], Field(min_length=1), _USED]
    """The steps, run one after another."""
    evaluate: Annotated[dict[Annotated[str, Field(pattern=UNIT_NAME)], Evaluation], _MEASURES] = Field(
        default_factory=dict
    )
    """Metrics of the results."""
    gates: Annotated[GateList, _MEASURES] = ()
    """Limits on metrics, each a mapping or a text such as `right.accuracy >= 0.9`; a run that fails one exits with 1."""
    level: Annotated[float, Field(ge=0.5, lt=1), _MEASURES] = 0.95
    """The confidence level of the intervals in reports; gates have their own `confidence`."""
