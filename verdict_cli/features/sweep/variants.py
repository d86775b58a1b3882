"""`--vary PATH=V1,V2`: the variants of a pipeline that a sweep runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from verdict_cli.errors import SpecError, UsageError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.document.overrides import OverrideTarget, find_target, parts_of
from verdict_cli.language.document.source_positions import Document

SWITCH = ("on", "off")
MOST_VALUE_LENGTH = 60


@dataclass(frozen=True, slots=True)
class SweepVariant:
    """One pipeline of a sweep: `settings` are as `--set` takes them, `off` the paths that are left out."""

    name: str
    settings: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Choice:
    """One value of one path."""

    name: str
    setting: str = ""
    off: str = ""


def variants(document: Document, vary: Sequence[str], *, together: bool = False) -> tuple[SweepVariant, ...]:
    """Every combination of the values, the last path changing fastest; `together` takes the first values of all
    paths, then the second ones, and so on.

    Values are items of a YAML list. For a path to a mapping or a list, `on` keeps it and `off` leaves it out; elsewhere
    they are texts. UsageError if a path or its values cannot be read.
    """
    axes = [_axis(document, one) for one in vary]
    paths = [axis[0] for axis in axes]
    if len(set(paths)) < len(paths):
        duplicate = next(path for path in paths if paths.count(path) > 1)
        raise UsageError(f"--vary has {duplicate} twice", hint="give all values of a path at once")
    short = _short_names(paths)
    choices = [
        [_choice(path, name, text, value, switched) for text, value in values]
        for (path, values, switched), name in zip(axes, short, strict=True)
    ]
    if together:
        if len({len(each) for each in choices}) > 1:
            counts = ", ".join(f"{path} has {len(each)}" for path, each in zip(paths, choices, strict=True))
            raise UsageError(f"--together needs as many values of each path: {counts}")
        combined: list[tuple[_Choice, ...]] = list(zip(*choices, strict=True))
    else:
        combined = list(product(*choices))
    combinations = [
        SweepVariant(
            " ".join(one.name for one in each),
            tuple(one.setting for one in each if one.setting),
            tuple(one.off for one in each if one.off),
        )
        for each in combined
    ]
    names = [one.name for one in combinations]
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"--vary has the variant {duplicate} twice", hint="values must differ")
    return tuple(combinations)


def _axis(document: Document, vary: str) -> tuple[str, list[tuple[str, Any]], bool]:
    """The path, its values as text and parsed, and whether they are `on` and `off` of a container."""
    path, given, text = vary.partition("=")
    if not given or not path:
        raise UsageError(f"--vary {vary!r} is not of the form PATH=V1,V2", hint="--vary 'pipeline[0].repeat=1,3,5'")
    parts_of(path)
    values = _values(text, vary)
    target = find_target(document.data, path)
    words = {value for value in values if isinstance(value, str)}
    switched = len(words) == len(values) and words <= set(SWITCH) and _is_container(target)
    return path, [(_text(value), value) for value in values], switched


def _is_container(target: OverrideTarget | None) -> bool:
    return target is not None and isinstance(target.value, dict | list)


def _values(text: str, vary: str) -> list[Any]:
    try:
        parsed = parse_document(f"value: [{text}]".encode(), "--vary").data
    except (SpecError, UnicodeEncodeError):
        parsed = {}
    values = parsed.get("value") if parsed.keys() == {"value"} else None
    if not isinstance(values, list) or not values:
        raise UsageError(
            f"--vary {vary!r}: the values are not YAML, separated by commas",
            hint="put texts with commas or special characters in quotes; a list is written [a, b]",
        )
    return values


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= MOST_VALUE_LENGTH else f"{text[: MOST_VALUE_LENGTH - 1]}…"


def _choice(path: str, name: str, text: str, value: Any, switched: bool) -> _Choice:
    if not switched:
        return _Choice(f"{name}={text}", setting=f"{path}={json.dumps(value)}")
    return _Choice(f"{name}={text}", off=path if value == "off" else "")


def _short_names(paths: Sequence[str]) -> list[str]:
    """The last key of each path where it is unique; else, and for a path that ends in an index, the whole path."""
    last = [path.rpartition(".")[2] if "." in path and not path.endswith("]") else path for path in paths]
    return [short if last.count(short) == 1 else path for short, path in zip(last, paths, strict=True)]
