"""Read candidates: JSONL and JSON files of texts or objects, and text files of one candidate each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from verdict_cli.errors import DataError, Problem, RowError, UsageError
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.units.base import NO_PREFERENCE
from verdict_cli.language.units.choice import LETTERS, ChoiceUnit, PairwiseJudgeUnit, label_letters
from verdict_cli.messages import JsonObject, NamedValues, Result
from verdict_cli.plan.levels import in_lists
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.plural import plural
from verdict_cli.run.outcome import compile_reward
from verdict_cli.storage.datasets.files import open_bytes

_PREFERENCE_FIELDS = ("ranking", "choice", "chosen")

Order = tuple[int, ...]
"""Positions in a row, best first, as far as the outcome gives them; empty for a tie."""


OrderReader = Callable[[Result, Sequence[str]], Order | None]
"""Gives the order that a result has, of the candidates with these texts; None where the row failed or names none of them."""


class CandidateColumns(Struct, frozen=True):
    """The columns of a row that take the candidates: one of a scoring judge, several of a comparing one.

    ``listed``: one column takes them all, as a list. ``count`` is the number of candidates in a row.
    """

    columns: tuple[str, ...]
    count: int
    listed: bool = False

    def row(self, shared: NamedValues, texts: Sequence[str]) -> JsonObject:
        """The row with these candidates, in this order."""
        if self.listed:
            return {**shared, self.columns[0]: list(texts)}
        return {**shared, **dict(zip(self.columns, texts, strict=True))}


def find_candidate_columns(
    plan: Plan, shared: NamedValues, column_names: Sequence[str]
) -> CandidateColumns:
    """The columns named, else those in the options of the unit that chooses, else the one that the shared row lacks.

    UsageError if that is ambiguous.
    """
    node = choosing_unit(plan)
    if column_names:
        if len(column_names) == 1 and node is not None and isinstance(node.unit, ChoiceUnit):
            return CandidateColumns(tuple(column_names), node.unit.count(), listed=True)
        return CandidateColumns(tuple(column_names), len(column_names))
    if node is not None:
        return _option_columns(node)
    missing = [used.column for used in plan.columns if used.asked and used.column not in shared]
    if len(missing) != 1:
        columns = ", ".join(missing) or "none"
        raise UsageError(
            f"which column takes the candidate? The pipeline's columns that --row lacks are: {columns}",
            hint="give the others with --row '{…}', or name it: --as response",
        )
    return CandidateColumns((missing[0],), 1)


def choosing_unit(plan: Plan) -> Node | None:
    """The first unit that chooses among options."""
    return next((node for node in plan.nodes if isinstance(node.unit, ChoiceUnit)), None)


def judges_both_orders(plan: Plan) -> bool:
    """Whether the pipeline itself judges every pair in both orders."""
    units = [node.unit for node in plan.nodes if isinstance(node.unit, PairwiseJudgeUnit)]
    return bool(units) and all(unit.positions == "both" for unit in units)


def _option_columns(node: Node) -> CandidateColumns:
    work = node.work
    assert isinstance(work, LLMNode)
    if not work.options:
        return CandidateColumns(work.letters, len(work.letters))
    columns = tuple(column for column in work.option_columns if column is not None)
    if len(set(columns)) == len(work.options):
        return CandidateColumns(columns, len(columns))
    # An option may be an entry of a column's list, such as `source.answers[0]`.
    lists = {_list_of(option) for _, option in work.options}
    if len(lists) == 1 and "" not in lists:
        return CandidateColumns(tuple(lists), len(work.options), listed=True)
    texts = ", ".join(expression.text for _, expression in work.options)
    raise UsageError(
        f"{node.id}: the columns of the candidates are ambiguous: its options are {texts}",
        hint="name them: --as response_A,response_B",
    )


def _list_of(option: Expression) -> str:
    """The column whose entry the option is, "" for another option."""
    path = option.path or ()
    is_entry = len(path) == 3 and path[0] == "source" and isinstance(path[2], int)
    return str(path[1]) if is_entry else ""


def order_reader(plan: Plan, text: str | None, count: int) -> OrderReader:
    """A function from a result and its candidates' texts to their order.

    It reads `ranking`, `choice` or `chosen` of the last step or of the unit that chooses, or the expression ``text``.
    """
    read = _preference(plan, text)

    def order(result: Result, texts: Sequence[str]) -> Order | None:
        if result.failure is not None:
            return None
        try:
            preference = read(result)
        except RowError:
            return None
        if isinstance(preference, bool):
            return (0,) if preference else (1,)
        if isinstance(preference, str) and preference.strip().lower() in (*NO_PREFERENCE, ""):
            return ()
        names = preference if isinstance(preference, list | tuple) else [preference]
        places = [place for name in names if (place := _position(name, texts, count)) is not None]
        return tuple(places) if len(places) == len(names) else None

    return order


def _preference(plan: Plan, text: str | None) -> Callable[[Result], Any]:
    if text is not None:
        return compile_reward(plan, text, "--choice")
    nodes = filter(None, (plan.output_node, choosing_unit(plan)))
    fields = [
        (node, name) for node in nodes for name in _PREFERENCE_FIELDS if name in node.result.fields
    ]
    if not fields:
        raise UsageError(
            "the pipeline gives no preference: no `choice` and no `ranking`",
            hint="name it: --choice \"'A' if output.score > 0 else 'B'\"",
        )
    node, name = fields[0]
    pairwise = isinstance(node.work, LLMNode) and len(node.work.letters) == 2
    letters = label_letters(node.result.fields[name]) if pairwise else {}

    def value(result: Result) -> Any:
        output = in_lists(node, result.outputs[node.index]) or {}
        preference = output.get(name)
        return letters.get(preference, preference) if name == "choice" else preference

    return value


def _position(name: Any, texts: Sequence[str], count: int) -> int | None:
    """The position that a letter, a number from 0, or the candidate's own text names; None where it names none."""
    if isinstance(name, int) and not isinstance(name, bool) and 0 <= name < count:
        return name
    if isinstance(name, str):
        letter = name.strip().upper()
        if letter in list(LETTERS[:count]):
            return LETTERS.index(letter)
        if name in texts:
            return list(texts).index(name)
    return None


_NAMES = ("id", "name", "label")


class Candidate(Struct, frozen=True):
    """One candidate: its label, and its text or its columns."""

    label: str
    value: str | NamedValues

    def text(self, field: str | None) -> str:
        """The text that is judged: the value itself, or one field of it. UsageError if there is none."""
        if isinstance(self.value, str):
            return self.value
        texts = [
            value
            for name, value in self.value.items()
            if isinstance(value, str) and (name == field if field else name not in _NAMES)
        ]
        if len(texts) != 1:
            has = ", ".join(map(repr, self.value))
            raise UsageError(
                f"which text of candidate {self.label!r} is meant? It has {has}",
                hint="name the field: --field response",
            )
        return str(texts[0])


def read_candidates(paths: Sequence[str]) -> tuple[Candidate, ...]:
    """The candidates of all files, in order; `-` is JSONL on standard input.

    DataError for a value that is no candidate, UsageError for fewer than two.
    """
    everyone = [candidate for path in paths for candidate in _read_file(path)]
    if len(everyone) < 2:
        raise UsageError(
            f"{plural(len(everyone), 'candidate')}: a ranking needs at least 2",
            hint="give a JSONL or JSON file with several, or several text files",
        )
    if len({candidate.label for candidate in everyone}) < len(everyone):
        everyone = [
            Candidate(f"{candidate.label}#{index}", candidate.value)
            for index, candidate in enumerate(everyone)
        ]
    return tuple(everyone)


def _read_file(path: str) -> list[Candidate]:
    if path == "-":
        return _lines(sys.stdin.buffer.read(), "standard input")
    file = Path(path)
    name = file.name.removesuffix(".gz").removesuffix(".zst")
    with open_bytes(file) as stream:
        content = stream.read()
    if name.endswith((".jsonl", ".ndjson")):
        return _lines(content, path)
    if name.endswith(".json"):
        return _array(content, path)
    try:
        return [Candidate(file.stem, content.decode("utf-8").strip())]
    except UnicodeDecodeError:
        raise DataError(
            Problem("bad-encoding", "a candidate's text is not UTF-8", "save it as UTF-8", path)
        ) from None


def _lines(content: bytes, name: str) -> list[Candidate]:
    candidates: list[Candidate] = []
    for line, text in enumerate(content.splitlines(), 1):
        if text.strip():
            candidates.append(_candidate(_json(text, name, line), len(candidates), name, line))
    return candidates


def _array(content: bytes, name: str) -> list[Candidate]:
    items = _json(content, name, 0)
    if not isinstance(items, list):
        raise DataError(
            Problem("not-a-list", "candidates in JSON are a list", 'write `["…", "…"]`', name)
        )
    return [_candidate(item, index, name, 0) for index, item in enumerate(items)]


def _json(text: bytes, name: str, line: int) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        line_number = line or error.lineno
        raise DataError(
            Problem(
                "broken-json", f"not valid JSON: {error.msg}", "", name, line_number, error.colno
            )
        ) from None


def _candidate(value: Any, index: int, name: str, line: int) -> Candidate:
    if isinstance(value, str):
        return Candidate(str(index), value)
    if not isinstance(value, dict):
        raise DataError(
            Problem(
                "not-a-candidate",
                f"candidate {index} is {value!r:.60}",
                "a text or an object",
                name,
                line,
            )
        )
    label = next(
        (str(value[key]) for key in _NAMES if isinstance(value.get(key), str | int)), str(index)
    )
    return Candidate(label, value)
