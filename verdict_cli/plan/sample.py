"""Made-up values of a type, with which a function is tried before anything is run."""

from __future__ import annotations

from typing import Any

from verdict_cli.fields import Distribution, FieldType, OnScale, Plain, Record, TextList, Transcript
from verdict_cli.scales import Continuous, Scale

_PLAIN: dict[str, Any] = {"str": "1", "int": 1, "float": 0.5, "bool": True}


class _Row(dict[str, Any]):
    """A mapping with a text for every column that is not declared."""

    def __missing__(self, column: str) -> str:
        return "1"


def sample(kind: FieldType) -> Any:
    """A value of the type; of a type that is not known, 1."""
    if isinstance(kind, Record):
        return _Row({name: sample(inner) for name, inner in kind.fields.items()})
    if isinstance(kind, OnScale):
        return _on(kind.scale)
    if isinstance(kind, Distribution):
        return {_on(kind.scale): 1.0}
    if isinstance(kind, Transcript):
        return [{"role": "speaker", "content": "1"}]
    if isinstance(kind, TextList):
        return ["1"]
    return _PLAIN[kind.name] if isinstance(kind, Plain) else 1


def _on(scale: Scale) -> Any:
    return scale.max if isinstance(scale, Continuous) else scale.values()[-1]
