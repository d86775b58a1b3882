"""`--set PATH=VALUE`, and values taken away: changes to a document before it is validated."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from verdict_cli.errors import SpecError, UsageError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.document.source_positions import Document, DocumentPath, ValueNode

_PART = re.compile(r"(?:^|\.)([\w-]+)|\[(-?\d{1,9})\]")


def apply_override(document: Document, settings: Sequence[str]) -> Document:
    """The document with each `PATH=VALUE` set; VALUE is YAML. UsageError when the path leads nowhere."""
    if not settings:
        return document
    data = copy.deepcopy(document.data)
    for setting in settings:
        path, found, text = setting.partition("=")
        if not found or not path:
            raise UsageError(f"--set {setting!r} is not of the form PATH=VALUE", hint="--set 'pipeline[1].repeat=5'")
        _put(data, parts_of(path), _value(text, setting), path)
    return replace(document, data=data)


def remove_value(document: Document, paths: Sequence[str]) -> Document:
    """The document without what stands at these paths, all of them as in the document given. UsageError where there is
    nothing."""
    ways = []
    for path in paths:
        parts, place = parts_of(path), find_target(document.data, path)
        if not isinstance(place, OverrideTarget):
            raise _absent(path, parts[-1])
        ways.append(place.way)
    data, root = copy.deepcopy(document.data), document.root
    for way in sorted(set(ways), key=lambda way: [(str(type(part)), part) for part in way], reverse=True):
        here = data
        for part in way[:-1]:
            here = here[part]
        del here[way[-1]]
        root = _without(root, way)
    return replace(document, data=data, root=root)


@dataclass(frozen=True, slots=True)
class OverrideTarget:
    """What stands at a path, and the path with its indices counted from the front."""

    way: DocumentPath
    value: Any


def find_target(data: Any, path: str) -> OverrideTarget | None:
    """What stands at the path; None where there is nothing. UsageError where it is no path."""
    here, way = data, []
    for part in parts_of(path):
        if isinstance(here, dict) and part in here:
            way.append(part)
        elif _holds(here, part) and isinstance(part, int):
            way.append(part % len(here))
        else:
            return None
        here = here[part]
    return OverrideTarget(tuple(way), here)


def _without(node: ValueNode, way: DocumentPath) -> ValueNode:
    """The node without its value at the path; what follows in the same list moves up."""
    if not node.children or way[0] not in node.children:
        return node
    if len(way) > 1:
        return replace(node, children=node.children | {way[0]: _without(node.children[way[0]], way[1:])})
    at = way[0]
    moved = {
        key - 1 if isinstance(at, int) and isinstance(key, int) and key > at else key: child
        for key, child in node.children.items()
        if key != at
    }
    return replace(node, children=moved)


def parts_of(path: str) -> list[str | int]:
    """The keys and indices of a path. UsageError where it is none."""
    parts: list[str | int] = []
    place = 0
    while place < len(path):
        match = _PART.match(path, place)
        if match is None:
            raise UsageError(f"--set: {path!r} is no path", hint="a path is written `pipeline[1].layer[0].scale`")
        parts.append(int(match[2]) if match[2] is not None else match[1])
        place = match.end()
    return parts


def _value(text: str, setting: str) -> Any:
    try:
        parsed = parse_document(f"value: {text}".encode(), "--set").data
    except (SpecError, UnicodeEncodeError):
        parsed = {}
    if parsed.keys() != {"value"}:
        raise UsageError(
            f"--set {setting!r}: the value is not YAML", hint="put a text with special characters in quotes"
        )
    return parsed["value"]


def _put(data: Any, parts: list[str | int], value: Any, path: str) -> None:
    here = data
    for part in parts[:-1]:
        if isinstance(here, dict) and isinstance(part, str):
            here = here.setdefault(part, {})
        elif _holds(here, part):
            here = here[part]
        else:
            raise _absent(path, part)
    last = parts[-1]
    if not (isinstance(here, dict) and isinstance(last, str)) and not _holds(here, last):
        raise _absent(path, last)
    here[last] = value


def _holds(here: Any, place: str | int) -> bool:
    return isinstance(here, list) and isinstance(place, int) and -len(here) <= place < len(here)


def _absent(path: str, part: str | int) -> UsageError:
    return UsageError(
        f"--set {path}: there is no {part!r} in the pipeline file", hint="paths start at the top of the file"
    )
