"""The `examples:` key: labelled rows that a prompt shows before the row to judge (few-shot; Brown et al., 2020)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from verdict_cli.config_model import ConfigModel, Whole

MOST_EXAMPLES = 2_000
"""The most rows that are kept to choose from: they are written into each run's spec.yaml, and `nearest` compares with all."""

ExampleChoice = Literal["balanced", "nearest", "errors"]


class Examples(ConfigModel):
    """Labelled rows that the prompt shows before the row to judge, never that row itself nor one of its cluster."""

    file: str | None = None
    """The labelled rows: a dataset, relative to the pipeline file. The first 2,000 rows count."""
    rows: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)] | None = None
    """The labelled rows themselves, in the place of a file."""
    k: Annotated[int, Field(ge=1, le=100), Whole] = 4
    """How many examples a prompt shows."""
    choose: ExampleChoice = "balanced"
    """`balanced`: as many of each label; `nearest`: those that share the most rare words with the row; `errors`: those that `prediction` got wrong first."""
    target: Annotated[str, Field(min_length=1)] | None = None
    """Expression over an example's `source` for the right answer; by default the `target` of the pipeline's only evaluation that has one. Rows where it is null are left out."""
    prediction: Annotated[str, Field(min_length=1)] | None = None
    """For `errors`: expression over an example's `source` for what a judge said of it."""
    explanation: Annotated[str, Field(min_length=1)] | None = None
    """Expression over an example's `source` for the reasons, which are shown before the answer."""
    columns: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """The columns of an example that are shown; by default those of the row that the prompt names."""
    cluster: Annotated[str, Field(min_length=1)] | None = None
    """Expression over `source`: a row never sees an example with the same value, such as `source.document_id`."""
    seed: Annotated[int, Field(ge=0), Whole] = 0
    """The seed of the order in which equally good examples are taken."""
