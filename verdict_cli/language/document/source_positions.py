"""The values of a YAML file with their positions."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import Problem

KeyPath = tuple[str | int, ...]
"""The keys and indices that lead to a part of a pipeline file: ``("pipeline", 1, "layer", 0, "scale")``."""
DocumentPath = tuple[str | int | float, ...]
"""The same in any YAML file, whose keys may be numbers."""


class Position(Struct, frozen=True):
    """A position in a file, counted from 1."""

    line: int
    column: int


class ValueNode(Struct):
    """A value and its position. ``size`` counts its keys and values, ``height`` its nested collections."""

    value: Any
    at: Position
    children: dict[Any, ValueNode] | None = None
    keys: dict[Any, Position] | None = None
    size: int = 1
    height: int = 0

    def add(self, key: Any, child: ValueNode, key_at: Position | None) -> None:
        """Append a list's item (``key_at`` None) or set a mapping's key."""
        if self.children is None:
            self.children, self.keys = {}, {}
        self.children[key] = child
        if key_at is None:
            self.value.append(child.value)
        else:
            self.value[key] = child.value
            assert self.keys is not None
            self.keys[key] = key_at
        self.size += child.size + (key_at is not None)
        self.height = max(self.height, child.height + 1)

    def at_path(self, path: DocumentPath) -> ValueNode | None:
        """The node at a path below this one; None where there is none."""
        node: ValueNode | None = self
        for key in path:
            node = (node.children or {}).get(key) if node else None
        return node

    def copy(self) -> ValueNode:
        """The same node with a value of its own, for an alias."""
        return replace(self, value=copy.deepcopy(self.value))


@dataclass(frozen=True, slots=True)
class Document:
    """A file's content: ``data`` is plain dict, list, str, int, float, bool or None; the top level a dict.

    ``overrides`` has the option of the command line that gave the value at a path, such as `--model`.
    """

    file: str
    data: Any
    root: ValueNode = field(repr=False, compare=False)
    overrides: Mapping[DocumentPath, str] = field(default_factory=dict, compare=False)

    def value_at(self, path: DocumentPath) -> Position:
        """The position of the value at ``path``; for a path that does not exist, of its nearest existing ancestor.

        The value of an alias is where its anchor is.
        """
        node = self.root
        for key in path:
            child = (node.children or {}).get(key)
            if child is None:
                break
            node = child
        return node.at

    def has(self, path: DocumentPath) -> bool:
        """Whether there is a value at ``path``."""
        node: ValueNode | None = self.root
        for key in path:
            node = (node.children or {}).get(key) if node else None
        return node is not None

    def key_at(self, path: DocumentPath) -> Position:
        """The position of the last key of ``path``; for a list's item and a missing key as ``value_at``."""
        node = self.root.at_path(path[:-1])
        keys = (node.keys if node and path else None) or {}
        return keys[path[-1]] if path and path[-1] in keys else self.value_at(path)

    def problem(
        self,
        code: str,
        message: str,
        hint: str,
        path: DocumentPath,
        *,
        key: bool = False,
        replacement: Any = None,
    ) -> Problem:
        """A problem of the value at a path, or with ``key`` of the key itself."""
        where = format_path(path)
        for given, option in self.overrides.items():
            if path[: len(given)] == given:
                return Problem(code, message, hint, option, path=where, replacement=replacement)
        position = self.key_at(path) if key else self.value_at(path)
        return Problem(
            code, message, hint, self.file, position.line, position.column, where, replacement
        )


def format_path(path: DocumentPath) -> str:
    """The path as messages show it: ``pipeline[1].layer[0].scale``, ``models['a b']``."""
    parts = []
    for key in path:
        if isinstance(key, str):
            parts.append(f".{key}" if key.isidentifier() else f"[{key!r}]")
        else:
            parts.append(f"[{json.dumps(key)}]")
    return "".join(parts).removeprefix(".")
