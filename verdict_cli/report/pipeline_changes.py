"""What differs between the pipelines of two runs: prompts, models, scales and whatever else their files say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from verdict_cli.report import formatting
from verdict_cli.report.document import CodeBlock, Part, Section, Table

MOST_CHANGES = 100
_LONGEST = 120
_IGNORED = frozenset({"evaluate", "gates", "description", "name", "level"})
"""Keys that change what is measured or how the run is called, not what is asked."""


@dataclass(frozen=True, slots=True)
class PipelineChange:
    """A key whose values differ, with both; None where a pipeline has no such key."""

    path: str
    first: Any
    second: Any


def pipeline_changes(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[PipelineChange]:
    """The differences between two resolved pipelines, in the order of the first; measuring keys are left out."""
    kept = [{key: value for key, value in each.items() if key not in _IGNORED} for each in (first, second)]
    return list(_changes(kept[0], kept[1], ""))[:MOST_CHANGES]


def _changes(first: Any, second: Any, path: str) -> Iterator[PipelineChange]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in dict.fromkeys((*first, *second)):
            yield from _changes(first.get(key), second.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(first, list) and isinstance(second, list):
        for index in range(max(len(first), len(second))):
            one, other = (each[index] if index < len(each) else None for each in (first, second))
            yield from _changes(one, other, f"{path}[{index}]")
    elif first != second or type(first) is not type(second):
        yield PipelineChange(path, first, second)


def changes_section(changes: Sequence[PipelineChange]) -> Iterator[Section]:
    """A table of the differences, and the lines of texts that differ; no section where the pipelines are alike."""
    if not changes:
        return
    rows = [(each.path, _cell(each.first), _cell(each.second)) for each in changes]
    parts: list[Part] = [
        Table(("key", "a", "b"), rows, records=any(len(cell) > _LONGEST // 2 for row in rows for cell in row))
    ]
    parts += [
        CodeBlock(f"{each.path}: lines that differ", _lines(each.first, each.second))
        for each in changes
        if isinstance(each.first, str) and isinstance(each.second, str) and "\n" in each.first + each.second
    ]
    yield Section("What differs between the pipelines", parts)


def _lines(first: str, second: str) -> str:
    return "\n".join(unified_diff(first.splitlines(), second.splitlines(), "a", "b", lineterm="", n=1))


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return formatting.visible_text(" ".join(text.split()), _LONGEST)
