"""The class that everything written in a pipeline file derives from.

Its fields are the YAML keys. It is strict (no silent conversion), frozen, and refuses unknown keys, so that
the JSON Schema made from it and the program itself say the same about every file.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Strict


class Keys(BaseModel):
    """A mapping of the pipeline language: strict, frozen, no unknown keys."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )


def _whole(value: Any) -> Any:
    """An integral float as an int: JSON Schema counts 3.0 as an integer, and so do we."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = BeforeValidator(_whole)
"""Stands last in ``Annotated[int, …, Whole]``, behind the constraints."""

T = TypeVar("T")
Seq = Annotated[tuple[T, ...], Strict(False)]
"""A YAML list, kept as a tuple."""
