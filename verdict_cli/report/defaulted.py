"""How many answers are the `verdict` extractor's default, because the last reply states neither verdict nor score."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from verdict_cli.language.extractors.bound_extractor import DEFAULTED_FIELD
from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.storage.tables.reader import read_table, table_columns

_COLUMNS = ("unit", "row", "item", "call", "attempt", "failure")


def defaulted_answers(plan: Plan, calls: Path) -> dict[str, int]:
    """The number of defaulted answers of each unit that has some, by its id. A unit may pass on other fields (`propagate`), so
    they are counted in its calls."""
    units = {
        node.id
        for node in plan.nodes
        if isinstance(node.work, LLMNode) and DEFAULTED_FIELD in node.work.reading.output.fields
    }
    if not units or not calls.exists() or not set(_COLUMNS) <= set(table_columns(calls)):
        return {}
    last: dict[tuple[object, ...], tuple[int, bool]] = {}
    for batch in read_table(calls, _COLUMNS):
        for unit, row, item, call, attempt, failure in zip(*(batch[name] for name in _COLUMNS), strict=True):
            if unit in units:
                key = (unit, row, item, call)
                last[key] = max(last.get(key, (-1, False)), (attempt, failure == "no-verdict"))
    return dict(Counter(str(unit) for (unit, *_), (_, defaulted) in last.items() if defaulted))
