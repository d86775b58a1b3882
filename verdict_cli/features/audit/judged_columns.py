"""The columns whose text a pipeline judges."""

from __future__ import annotations

from collections.abc import Sequence

from verdict_cli.errors import UsageError
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.report.report_context import dataset_columns

# fmt: off
JUDGED_COLUMNS = (
    "answer", "response", "output", "completion", "reply", "generation", "summary", "candidate", "text", "claim",
    "prediction",
)
"""Names of columns that hold a judged text, the likeliest first."""
GIVEN_COLUMNS = frozenset({
    "question", "prompt", "query", "instruction", "instructions", "input", "task", "ticket", "topic", "title", "context",
    "contexts", "document", "documents", "passage", "passages", "article", "source", "reference", "expected", "gold",
    "rubric", "criteria", "criterion", "guidelines", "policy",
})
"""Names, or last words of names, of columns that say what the judged text is about or should be like."""
# fmt: on


def choosing_units(plan: Plan) -> list[Node]:
    """The units that choose among options."""
    return [node for node in plan.nodes if isinstance(node.work, LLMNode) and node.work.letters]


def option_columns(node: Node) -> list[str | None]:
    """The column of each option, None for an option that is not an unchanged column."""
    assert isinstance(node.work, LLMNode)
    columns: list[str | None] = []
    for _, option in node.work.options:
        path = option.paths[0] if len(option.paths) == 1 else ()
        whole = len(path) == 2 and option.text.strip() == f"source.{path[1]}"
        columns.append(str(path[1]) if whole else None)
    return columns


def find_judged_columns(plan: Plan, given: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The columns whose text is judged, and why there are none. UsageError for a column that no prompt uses."""
    shown = dataset_columns(plan)
    for column in given:
        if column not in shown:
            raise UsageError(
                f"--text {column}: no prompt uses source.{column}",
                hint=f"prompts use {', '.join(shown) or 'no column'}",
            )
    if given:
        return tuple(given), ""
    for node in choosing_units(plan):
        options = [column for column in option_columns(node) if column is not None]
        if options:
            return tuple(dict.fromkeys(options)), ""
    if len(shown) == 1:
        return tuple(shown), ""
    named = [column for word in JUDGED_COLUMNS for column in shown if column.lower() == word]
    ending = [column for column in shown if _last_word(column) in JUDGED_COLUMNS]
    left = [column for column in shown if _last_word(column) not in GIVEN_COLUMNS]
    likely = next((found for found in (named[:1], ending, left) if len(found) == 1), None)
    if likely is not None:
        return tuple(likely), ""
    return (), f"the judged text is ambiguous: --text COLUMN, one of {', '.join(shown) or 'none'}"


def _last_word(column: str) -> str:
    return column.lower().replace("-", "_").rpartition("_")[2]
