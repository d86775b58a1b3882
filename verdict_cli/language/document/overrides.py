"""Change a document before it is validated: `--set PATH=VALUE`, `--model NAME`, and removed values."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct, structs

from verdict_cli.errors import SpecError, UsageError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.document.source_positions import Document, DocumentPath, ValueNode
from verdict_cli.messages import NamedValues
from verdict_cli.regex import regex

Keys = NamedValues
_PART = regex(r"(?:^|\.)([\w-]+)|\[(-?\d{1,9})\]")


def apply_override(document: Document, settings: Sequence[str]) -> Document:
    """The document with each `PATH=VALUE` set; VALUE is YAML. UsageError when the path leads nowhere."""
    if not settings:
        return document
    data = copy.deepcopy(document.data)
    overrides = dict(document.overrides)
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path:
            raise UsageError(
                f"--set {setting!r} is not of the form PATH=VALUE",
                hint="--set 'pipeline[1].repeat=5'",
            )
        _put(data, parts_of(path), _value(text, setting), path)
        target = find_target(data, path)
        assert target is not None
        overrides[target.path] = "--set"
    return replace(document, data=data, overrides=overrides)


def override_model(document: Document, name: str) -> Document:
    """The document whose model is the one of `--model`. See `replace_model`."""
    model = replace_model(document.data, name)
    path: DocumentPath = ("model", "name") if isinstance(model, dict) else ("model",)
    return replace(
        document,
        data={**document.data, "model": model},
        overrides={**document.overrides, path: "--model"},
    )


def replace_model(data: Keys, name: str) -> Any:
    """The pipeline's `model` with another name and its other keys as they are; of a list, those of the first model.

    A name from `models:` is that model, with its own keys.
    """
    model = data.get("model")
    if isinstance(model, list) and model:
        model = model[0]
    if isinstance(model, str):
        model = _model_mapping(data, model)
    if not isinstance(model, dict) or set(model) <= {"name"} or name in _named_models(data):
        return name
    return {**model, "name": name}


def _named_models(data: Keys) -> Keys:
    models = data.get("models")
    return models if isinstance(models, dict) else {}


def _model_mapping(data: Keys, name: str) -> Any:
    """The mapping that a model's name stands for: a copy of its entry of `models:`, else the name alone."""
    target = _named_models(data).get(name, name)
    if isinstance(target, list) and target:
        target = target[0]
    return {"name": target} if isinstance(target, str) else copy.deepcopy(target)


def remove_value(document: Document, paths: Sequence[str]) -> Document:
    """The document without the values at these paths of the given document. UsageError for a path without a value."""
    targets = []
    for path in paths:
        target = find_target(document.data, path)
        if target is None:
            raise _absent(path, parts_of(path)[-1])
        targets.append(target.path)
    data, root = copy.deepcopy(document.data), document.root
    # From the back, so that removing an item of a list does not move the other targets.
    for target_path in sorted(
        set(targets), key=lambda path: [(str(type(part)), part) for part in path], reverse=True
    ):
        parent = data
        for part in target_path[:-1]:
            parent = parent[part]
        del parent[target_path[-1]]
        root = _without(root, target_path)
    return replace(document, data=data, root=root)


class OverrideTarget(Struct, frozen=True):
    """The value at a path, and the path with its indices counted from the front."""

    path: DocumentPath
    value: Any


def find_target(data: Any, path: str) -> OverrideTarget | None:
    """The target of a path, None where it has no value. UsageError for a malformed path."""
    value, normalized = data, []
    for part in parts_of(path):
        if isinstance(value, dict) and part in value:
            normalized.append(part)
        elif _has_index(value, part) and isinstance(part, int):
            normalized.append(part % len(value))
        else:
            return None
        value = value[part]
    return OverrideTarget(tuple(normalized), value)


def _without(node: ValueNode, path: DocumentPath) -> ValueNode:
    """The node without its value at the path; later items of the same list move up."""
    if not node.children or path[0] not in node.children:
        return node
    if len(path) > 1:
        return structs.replace(
            node, children=node.children | {path[0]: _without(node.children[path[0]], path[1:])}
        )
    first_key = path[0]
    moved = {
        key - 1
        if isinstance(first_key, int) and isinstance(key, int) and key > first_key
        else key: child
        for key, child in node.children.items()
        if key != first_key
    }
    return structs.replace(node, children=moved)


def parts_of(path: str) -> list[str | int]:
    """The keys and indices of a path. UsageError for a malformed one."""
    parts: list[str | int] = []
    position = 0
    while position < len(path):
        match = _PART.match(path, position)
        if match is None:
            raise UsageError(
                f"--set: {path!r} is not a path",
                hint="a path is written `pipeline[1].layer[0].scale`",
            )
        parts.append(int(match[2]) if match[2] is not None else match[1])
        position = match.end()
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
    parent = data
    for part in parts[:-1]:
        if isinstance(parent, dict) and isinstance(part, str):
            if part == "model" and isinstance(parent.get(part), str):
                parent[part] = _model_mapping(data, parent[part])
            parent = parent.setdefault(part, {})
        elif _has_index(parent, part):
            parent = parent[part]
        else:
            raise _absent(path, part)
    last = parts[-1]
    if not (isinstance(parent, dict) and isinstance(last, str)) and not _has_index(parent, last):
        raise _absent(path, last)
    parent[last] = value


def _has_index(value: Any, index: str | int) -> bool:
    return isinstance(value, list) and isinstance(index, int) and -len(value) <= index < len(value)


def _absent(path: str, part: str | int) -> UsageError:
    return UsageError(
        f"--set {path}: there is no {part!r} in the pipeline file",
        hint="paths start at the top of the file",
    )
