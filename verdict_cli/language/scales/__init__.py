"""Scales: the domain that a judge's values must be in (language.md, section 3; paper, section 3.1)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from verdict_cli.language.entry_points import EntryPointGroup, PluginUnion, made_of, one_of, subclass_of
from verdict_cli.language.scales.boolean import Boolean
from verdict_cli.language.scales.continuous import Continuous
from verdict_cli.language.scales.discrete import Categories, Discrete

Scale = Boolean | Discrete | Continuous
"""The registry: a new scale is a file in this folder and a name in this line."""

LIKERT = Discrete(range=(1, 5))

NAMED: dict[str, Scale] = {"likert": LIKERT, "boolean": Boolean()}
"""The scales that every pipeline can name."""

SCALE_PLUGINS: EntryPointGroup[type[Scale]] = EntryPointGroup(
    "verdict_cli.scales", subclass_of(Boolean, Discrete, Continuous)
)
"""Scales of installed packages: subclasses of ours, as which the rest of the program takes them."""

_KEYS = {"boolean": {"yes", "no"}, "discrete": {"range", "values", "scores"}, "continuous": {"min", "max"}}


def scale_kind_of(value: Any) -> str | None:
    """The kind of scale that a mapping spells: its `type`, or else the kind that alone has its keys."""
    if not isinstance(value, dict):
        return str(value.type) if isinstance(value, Scale) else None
    if "type" in value:
        kind = value["type"]
        return kind if isinstance(kind, str) and kind in _KEYS else None
    kinds = [kind for kind, keys in _KEYS.items() if keys & value.keys()]
    return kinds[0] if len(kinds) == 1 else None


def _spelling(value: Any) -> str | None:
    return "<name>" if isinstance(value, str) else scale_kind_of(value)


def _offered(value: Any) -> Scale | None:
    kind = value.get("type") if isinstance(value, dict) else None
    made = SCALE_PLUGINS.get(kind) if isinstance(kind, str) and kind not in _KEYS else None
    return None if made is None else made_of(made, value)


_OR_OFFERED = PluginUnion(SCALE_PLUGINS, _offered, one_of)

ScaleKeys = Annotated[
    Annotated[Boolean, Tag("boolean")]
    | Annotated[Discrete, Tag("discrete")]
    | Annotated[Continuous, Tag("continuous")],
    Discriminator(scale_kind_of),
    _OR_OFFERED,
]
"""A scale written out as a mapping."""

ScaleKey = Annotated[
    Annotated[str, Tag("<name>")]
    | Annotated[Boolean, Tag("boolean")]
    | Annotated[Discrete, Tag("discrete")]
    | Annotated[Continuous, Tag("continuous")],
    Discriminator(_spelling),
    _OR_OFFERED,
]
"""How a pipeline spells a scale: a name or a mapping."""

__all__ = [
    "LIKERT",
    "NAMED",
    "SCALE_PLUGINS",
    "Boolean",
    "Categories",
    "Continuous",
    "Discrete",
    "Scale",
    "ScaleKey",
    "ScaleKeys",
    "scale_kind_of",
]
