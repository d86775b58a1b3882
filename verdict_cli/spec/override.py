"""`--set PATH=VALUE`: changes to a document before it is validated."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from verdict_cli.errors import SpecError, UsageError
from verdict_cli.spec.document import Document, parse_document

_PART = re.compile(r"(?:^|\.)([\w-]+)|\[(-?\d{1,9})\]")


def overridden(document: Document, settings: Sequence[str]) -> Document:
    """The document with each `PATH=VALUE` set; VALUE is YAML. UsageError when the path leads nowhere."""
    if not settings:
        return document
    data = copy.deepcopy(document.data)
    for setting in settings:
        path, found, text = setting.partition("=")
        if not found or not path:
            raise UsageError(
                f"--set {setting!r} is not of the form PATH=VALUE", hint="--set 'pipeline[1].repeat=5'"
            )
        _put(data, _parts(path), _value(text, setting), path)
    return replace(document, data=data)


def _parts(path: str) -> list[str | int]:
    parts: list[str | int] = []
    place = 0
    while place < len(path):
        match = _PART.match(path, place)
        if match is None:
            raise UsageError(
                f"--set: {path!r} is no path", hint="a path is written `pipeline[1].layer[0].scale`"
            )
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
            f"--set {setting!r}: the value is not YAML",
            hint="put a text with special characters in quotes",
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
