"""What `verdict init` recognises in a dataset's columns: conversations, lists of texts, columns within columns, and the
scores of another tool (`verdict import`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from verdict_cli.language.conversation import looks_like_conversation

ColumnPath = tuple[str, ...]
"""A column's name, and the keys within it."""

MOST_NESTED = 60
"""Columns within columns that are offered."""
_DEPTH = 3
SCORES = "scores"
"""The column of imported logs with the other tool's scores by name."""
_MOST_SCORES = 5
_PLAIN_KEY = re.compile(r"[^{}'\"\\]+")


def nested_columns(samples: Mapping[str, Sequence[Any]]) -> dict[str, tuple[ColumnPath, list[Any]]]:
    """The columns within mappings, such as `conv.id`, each with its path and its values; None where a row has none.

    A name that a column of the dataset has is that column's.
    """
    found: dict[str, tuple[ColumnPath, list[Any]]] = {}
    todo: list[tuple[ColumnPath, Sequence[Any]]] = [((name,), values) for name, values in samples.items()]
    while todo and len(found) < MOST_NESTED:
        path, values = todo.pop(0)
        if len(path) > 1 and ".".join(path) not in samples:
            found[".".join(path)] = (path, list(values))
        mappings = [value for value in values if value is not None]
        if len(path) <= _DEPTH and mappings and all(isinstance(value, Mapping) for value in mappings):
            keys = dict.fromkeys(key for value in mappings for key in value if isinstance(key, str))
            inner = [((*path, key), [value.get(key) if value else None for value in values]) for key in keys]
            todo = inner + todo
    return found


def column_type(values: Sequence[Any]) -> str | None:
    """The type to declare for a column: a conversation, or a list of texts; None for any other."""
    seen = [value for value in values if value is not None]
    if not seen:
        return None
    null = "?" if len(seen) < len(values) else ""
    if all(map(looks_like_conversation, seen)):
        return f"conversation{null}"
    is_texts = all(isinstance(value, list) and all(isinstance(text, str) for text in value) for value in seen)
    return f"list[str]{null}" if is_texts else None


def suggested_columns(samples: Mapping[str, Sequence[Any]], excluded: Sequence[str | None]) -> list[str]:
    """The columns that a judge probably reads: conversations and lists of texts, else all columns of texts."""
    typed = {name: column_type(values) for name, values in samples.items() if name not in excluded}
    if any(kind and kind.startswith("conversation") for kind in typed.values()):
        return [name for name, kind in typed.items() if kind]
    return [name for name in typed if typed[name] or any(isinstance(value, str) for value in samples[name])]


def compared_scores(samples: Mapping[str, Sequence[Any]], scale: str) -> list[tuple[str, list[str]]]:
    """Evaluations that compare the judge with the scores of another tool, which every row has: a name and its lines.

    ``scale`` is that of `Scaffold`; scores that it cannot be compared with are left out.
    """
    found: list[tuple[str, list[str]]] = []
    for path, values in nested_columns({SCORES: samples.get(SCORES, ())}).values():
        named = len(path) > 1 and all(map(_PLAIN_KEY.fullmatch, path)) and "".join(path).isprintable()
        lines = _comparison(column_slot(path)[1:-1], values, scale) if named and None not in values else None
        if lines is not None:
            found.append(
                (f"their_{'_'.join(re.findall(r'[a-z0-9]+', '_'.join(path[1:]).lower())) or len(found)}", lines)
            )
    return list(dict(reversed(found)).items())[::-1][:_MOST_SCORES]


def _comparison(path: str, values: Sequence[Any], scale: str) -> list[str] | None:
    is_boolean = scale == "boolean"
    if all(isinstance(value, bool) for value in values):
        return ["prediction: output.score", _target(path)] if is_boolean else None
    if all(isinstance(value, str) for value in values):  # Inspect writes C for correct and I for incorrect
        known = is_boolean and set(values) <= {"C", "I"}
        return ["prediction: output.score", _target(f"{path} == 'C'")] if known else None
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return None
    if is_boolean and set(values) <= {0, 1}:
        return ["prediction: output.score", _target(f"{path} == 1")]
    if is_boolean:
        return ["prediction: 1.0 if output.score else 0.0", _target(path), "kind: numeric", "metrics: [mae, spearman]"]
    is_range = re.fullmatch(r"\d+-\d+", scale) is not None
    return ["prediction: output.score", _target(path), "kind: numeric", "metrics: [spearman]"] if is_range else None


def _target(expression: str) -> str:
    quoted = re.fullmatch(r"[\w.]+", expression, re.ASCII) is None
    return f"target: {json.dumps(expression, ensure_ascii=False) if quoted else expression}"


def column_slot(path: ColumnPath) -> str:
    """The placeholder of a column."""
    made = "source"
    for key in path:
        quote = '"' if "'" in key else "'"
        made += f".{key}" if re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII) else f"[{quote}{key}{quote}]"
    return f"{{{made}}}"
