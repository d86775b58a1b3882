"""Python functions in a pipeline: they come from the Python API only, a file has no spelling for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from verdict_cli.fields import Record


class Code(Protocol):
    """A Python function that stands where a file has expressions: at `propagate`, `map`, `validate` or, which a
    file has not at all, at `process`."""

    @property
    def name(self) -> str:
        """How messages name it."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The values that it is called with: `output`, `outputs`, `response`, `input`, `previous`, `source`, `unit`."""

    @property
    def text(self) -> str:
        """What stands for it in a fingerprint: its source, or a text of its own in every process."""

    @property
    def traceable(self) -> bool:
        """Whether the text is the same in every process."""

    @property
    def gives(self) -> Record | None:
        """The declared fields of what it gives; None where they are not declared."""

    def __call__(self, given: Mapping[str, Any]) -> Any:
        """What it gives for the values of its parameters, in plain dictionaries and lists."""


Path = tuple[str | int, ...]
Codes = Mapping[Path, Code]
"""The functions of a pipeline by the path at which a file would have expressions."""
