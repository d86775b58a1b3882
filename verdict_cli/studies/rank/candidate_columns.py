"""Where candidates stand in a row, and how the outcome says who won: both known from the pipeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verdict_cli.errors import RowError, UsageError
from verdict_cli.language.units.choice_base import LETTERS, ChoiceUnit
from verdict_cli.language.units.pairwise import PairwiseJudgeUnit
from verdict_cli.messages import Result
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.run.outcome import compile_reward
from verdict_cli.studies.rank.candidates import Candidate

_OPTION = re.compile(r"source\.([A-Za-z_]\w*)(?:\[(\d+)\])?")
_SAID = ("ranking", "choice", "chosen")

Order = tuple[int, ...]
"""Places from best on, as far as the outcome says; none for a tie."""


@dataclass(frozen=True)
class CandidateColumns:
    """The columns of a row that take the candidates: one of a scoring judge, several of a comparing one.

    ``listed``: one column takes them all, as a list. ``count`` is how many stand in a row.
    """

    columns: tuple[str, ...]
    count: int
    listed: bool = False

    def row(self, shared: Mapping[str, Any], texts: Sequence[str]) -> dict[str, Any]:
        """The row in which these candidates stand, in this order."""
        if self.listed:
            return {**shared, self.columns[0]: list(texts)}
        return {**shared, **dict(zip(self.columns, texts, strict=True))}


def find_candidate_columns(plan: Plan, shared: Mapping[str, Any], named: Sequence[str]) -> CandidateColumns:
    """Where the candidates stand: in the columns named, else in the options of the unit that chooses among them, else in
    the one column that the shared row lacks. UsageError where that is not clear."""
    node = chooser(plan)
    if named:
        if len(named) == 1 and node is not None and isinstance(node.unit, ChoiceUnit):
            return CandidateColumns(tuple(named), node.unit.count(), listed=True)
        return CandidateColumns(tuple(named), len(named))
    if node is not None:
        return _options(node)
    lacking = [used.column for used in plan.columns if used.asked and used.column not in shared]
    if len(lacking) != 1:
        said = ", ".join(lacking) or "none"
        raise UsageError(
            f"which column takes the candidate? The pipeline's columns that --row does not give are: {said}",
            hint="give the others with --row '{…}', or name it: --as response",
        )
    return CandidateColumns((lacking[0],), 1)


def chooser(plan: Plan) -> Node | None:
    """The first unit that chooses among options."""
    return next((node for node in plan.nodes if isinstance(node.unit, ChoiceUnit)), None)


def judge_asks_both_orders(plan: Plan) -> bool:
    """Whether every pair is asked in both orders by the pipeline itself."""
    units = [node.unit for node in plan.nodes if isinstance(node.unit, PairwiseJudgeUnit)]
    return bool(units) and all(unit.positions == "both" for unit in units)


def _options(node: Node) -> CandidateColumns:
    work = node.work
    assert isinstance(work, LLMNode)
    if not work.options:
        return CandidateColumns(work.letters, len(work.letters))
    found = [_OPTION.fullmatch(expression.text.strip()) for _, expression in work.options]
    columns = [match.group(1) for match in found if match is not None]
    indexed = [match is not None and match.group(2) is not None for match in found]
    if len(columns) == len(found) and not any(indexed) and len(set(columns)) == len(columns):
        return CandidateColumns(tuple(columns), len(columns))
    if len(columns) == len(found) and all(indexed) and len(set(columns)) == 1:
        return CandidateColumns((columns[0],), len(found), listed=True)
    texts = ", ".join(expression.text for _, expression in work.options)
    raise UsageError(
        f"{node.id}: it is not clear which columns take the candidates: its options are {texts}",
        hint="name them: --as response_A,response_B",
    )


def reader(plan: Plan, text: str | None, count: int) -> Callable[[Result, Sequence[str]], Order]:
    """What says who won from an outcome and the texts that stood there: `ranking`, `choice` or `chosen` of the last step or of
    the unit that chooses, or an expression. The function raises RowError for an outcome that does not say it."""
    value = _value(plan, text)

    def order(result: Result, texts: Sequence[str]) -> Order:
        found = value(result)
        if isinstance(found, list | tuple):
            return tuple(_place(one, texts, count) for one in found)
        if isinstance(found, bool):
            return (0,) if found else (1,)
        if isinstance(found, str) and found.strip().lower() in ("tie", ""):
            return ()
        return (_place(found, texts, count),)

    return order


def _value(plan: Plan, text: str | None) -> Callable[[Result], Any]:
    if text is not None:
        return compile_reward(plan, text, "--choice")
    node = next(
        (
            each
            for each in (plan.output_node, chooser(plan))
            if each is not None and any(name in each.output.fields for name in _SAID)
        ),
        None,
    )
    if node is None:
        raise UsageError(
            "the pipeline does not say which candidate it prefers: no `choice` and no `ranking`",
            hint="name it: --choice \"'A' if output.score > 0 else 'B'\"",
        )
    name = next(name for name in _SAID if name in node.output.fields)

    def value(result: Result) -> Any:
        output = result.outputs[node.index]
        if output is None:
            raise RowError(f"{node.id} was skipped", kind="skipped")
        return output[name]

    return value


def _place(found: Any, texts: Sequence[str], count: int) -> int:
    """The place that a letter, a number from 0, or the candidate's own text names."""
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < count:
        return found
    if isinstance(found, str):
        letters = LETTERS[:count]
        if len(found.strip()) == 1 and found.strip().upper() in letters:
            return letters.index(found.strip().upper())
        if found in texts:
            return list(texts).index(found)
    raise RowError(f"{found!r:.80} names none of the {count} candidates", kind="no-answer")


def candidate_texts(found: Sequence[Candidate], field: str | None) -> list[str]:
    """The candidates' texts. UsageError where it is not clear which text of an object is meant."""
    return [one.text(field) for one in found]
