"""How a pipeline reads its data (language.md, section 9)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from verdict_cli.fields import Fields
from verdict_cli.keys import Keys


class DatasetKeys(Keys):
    """Defaults for reading the data."""

    id: Annotated[str, Field(min_length=1)] | None = None
    """The column that names a row; its 0-based number where not given."""
    columns: dict[str, str] = Field(default_factory=dict)
    """The name in the file for a name in the pipeline."""
    where: Annotated[str, Field(min_length=1)] | None = None
    """An expression over `source`: only rows for which it is true are read."""
    types: Fields | None = Field(default=None, alias="schema")
    """The type of each column that is checked; CSV texts are converted to it."""
