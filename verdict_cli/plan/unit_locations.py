"""The units of a pipeline file, before it is a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from verdict_cli.language.units.base import snake
from verdict_cli.messages import NamedValues

TOKEN_EXTRACTORS = ("token_probability", "argmax_score", "sample_score", "weighted_summed_score")


class UnitLocation(Struct, frozen=True):
    """A unit of the file: its path, its name, its built-in type, and all its keys, those of its custom type included."""

    path: str
    name: str
    type: str
    keys: NamedValues

    @property
    def reads_tokens(self) -> bool:
        """Whether its reply is read from log-probabilities."""
        extract = self.keys.get("extract")
        kind = extract.get("type") if isinstance(extract, dict) else extract
        return kind in TOKEN_EXTRACTORS


def locate_units(data: NamedValues) -> list[UnitLocation]:
    """Every unit of the file's data, in order."""
    customs = data.get("units") or {}
    locations = []
    for path, keys in _units(data):
        unit_keys = dict(keys)
        kind = unit_keys["unit"]
        while kind in customs:
            unit_keys = {**customs[kind], **unit_keys}
            kind = customs[kind]["base"]
        locations.append(
            UnitLocation(path, str(unit_keys.get("name") or snake(keys["unit"])), kind, unit_keys)
        )
    return locations


def _units(data: NamedValues) -> Iterator[tuple[str, NamedValues]]:
    for section in ("pipeline", "blocks"):
        yield from _within(data.get(section), section)


def _within(value: Any, path: str) -> Iterator[tuple[str, NamedValues]]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _within(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        if isinstance(value.get("unit"), str):
            yield path, value
            return
        for key in value:
            if isinstance(key, str) and re.fullmatch(r"[\w-]+", key):
                yield from _within(value[key], f"{path}.{key}")
