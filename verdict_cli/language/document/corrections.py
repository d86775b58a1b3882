"""Apply the correction of a mistake to a document, so that the mistakes behind it are found in the same round."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec import Struct

from verdict_cli.errors import Problem
from verdict_cli.language.document.source_positions import (
    Document,
    DocumentPath,
    KeyPath,
    ValueNode,
)
from verdict_cli.regex import regex

_MEANT = regex(r"did you mean '(.+?)'\?")


class Corrected(Struct, frozen=True):
    """A document with its mistakes corrected. ``removed`` are the paths of values for which no correction is known: they were taken
    out, and what depends on them cannot be judged."""

    document: Document
    removed: tuple[DocumentPath, ...]


def correct_mistakes(document: Document, mistakes: Mapping[KeyPath, Problem]) -> Corrected:
    """The document in which each mistake is corrected as its hint says, or else taken out."""
    data, root = copy.deepcopy(document.data), copy.deepcopy(document.root)
    removed = []
    for path in sorted(mistakes, key=len, reverse=True):
        problem = mistakes[path]
        parent, node = _parent(data, path), root.at_path(path[:-1])
        if parent is None or not path:
            continue
        suggestion = _MEANT.search(problem.hint)
        if problem.code == "unknown-key" and suggestion and suggestion[1] not in parent:
            parent[suggestion[1]] = parent.pop(path[-1], None)
            _rename(node, path[-1], suggestion[1])
        elif problem.code != "unknown-key" and suggestion:
            parent[path[-1]] = suggestion[1]
        elif problem.replacement is not None:
            parent[path[-1]] = problem.replacement
        elif isinstance(parent, dict):
            parent.pop(path[-1], None)
            if problem.code != "unknown-key":  # nothing depends on a key that means nothing
                removed.append(path)
        else:
            removed.append(path)
    return Corrected(replace(document, data=data, root=root), tuple(removed))


def _parent(data: Any, path: DocumentPath) -> Any:
    """The mapping or list that holds the value at the path; None where there is none."""
    here = data
    for part in path[:-1]:
        try:
            here = here[part]
        except (LookupError, TypeError):
            return None
    return here if isinstance(here, dict | list) else None


def _rename(node: ValueNode | None, key: Any, name: str) -> None:
    """Have the key's position found under its right name."""
    if node is None or not node.children or not node.keys or key not in node.children:
        return
    node.children[name] = node.children.pop(key)
    node.keys[name] = node.keys.pop(key)
