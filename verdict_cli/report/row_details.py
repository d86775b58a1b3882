"""A row's details for a page: its source, its outputs, and every call with prompt, reply and probabilities.

The entries of `each` are tables: a line for each entry, with what every unit inside gave there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from msgspec import Struct

from verdict_cli.language.extractors.token_probability import is_logprob
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.plan.levels import ITEM_COLUMN
from verdict_cli.report.chat import as_conversation, chat_turns, image_notes, is_plain
from verdict_cli.report.compress import NESTED, encoded
from verdict_cli.stats.columns.column import Ints
from verdict_cli.storage.datasets.arrow_vectors import integers
from verdict_cli.storage.tables.reader import has_columns, read_arrow, read_rows
from verdict_cli.storage.tables.run_columns import RESULT_COLUMNS

MOST_TEXT_IN_DETAILS = 20_000
"""Characters of one text; a note says how many more it has."""
MOST_CALLS = 60
MOST_ENTRY_ROWS = 200
MOST_POSITIONS = 3
MOST_SHARES = 8
ROWS_PER_READ = 1000
"""As many as a page shows: each read decompresses the whole tables."""
LEFT_OUT = {
    "characters": "characters of long texts are left out here",
    "turns": "turns of its conversations are left out here",
    "entries": "of its entries are left out here",
    "calls": "of its calls are left out here",
    "unreadable": "of its calls cannot be shown: calls.parquet holds values that verdict does not write",
}
"""What a row's details say of what they lack, after its number."""
FLAGS = {"recalled": "from the journal", "cached": "cached", "repaired": "repaired"}
"""What a page says of a call by the columns that are true."""
_CALLS = (
    "row", "unit", "item", "attempt", "model", "messages", "reply", "finish_reason", "logprobs", "prompt_tokens",
    "completion_tokens", "cost_usd", "latency_s", "recalled", "cached", "repaired", "failure", "error",
)  # fmt: skip
_OWN = frozenset(column.name for column in RESULT_COLUMNS if not column.only)
"""Columns that are no outputs."""


def row_details(
    results: Path, calls: Path, indices: Ints, most: int = MOST_TEXT_IN_DETAILS
) -> Iterator[tuple[int, JsonObject]]:
    """Index and details of each of these rows of `results`, in this order. Texts are cut at `most` characters."""
    row_of_call = _row_of_each_call(calls) if len(indices) else np.empty(0)
    for start in range(0, len(indices), ROWS_PER_READ):
        chunk = indices[start : start + ROWS_PER_READ]
        ascending = np.sort(chunk).tolist()
        builders = [
            builder for batch in read_rows(results, ascending) for builder in _builders(batch, most)
        ]
        by_row = {builder.row: builder for builder in builders}
        its_calls = np.flatnonzero(np.isin(row_of_call, list(by_row)))
        for batch in read_rows(calls, its_calls.tolist(), _CALLS) if len(its_calls) else ():
            for call in _rows(batch):
                by_row[call["row"]].add(call)
        by_index = dict(zip(ascending, builders, strict=True))
        for index in chunk.tolist():
            yield index, by_index[index].details()


def _row_of_each_call(calls: Path) -> Any:
    if not has_columns(calls, _CALLS):
        return np.empty(0)
    parts = [integers(batch.column("row")) for batch in read_arrow(calls, ["row"])]
    return np.concatenate(parts) if parts else np.empty(0)


def _rows(batch: Mapping[str, list[Any]]) -> list[JsonObject]:
    return [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]


def _builders(batch: Mapping[str, list[Any]], most: int) -> list[_RowDetailsBuilder]:
    sources = {name: name.removeprefix("source.") for name in batch if name.startswith("source.")}
    outputs = [name for name in batch if name not in _OWN and name not in sources]
    return [_RowDetailsBuilder(row, sources, outputs, most) for row in _rows(batch)]


class _RowDetailsBuilder:
    """Collects one row's details, and counts what is left out.

    `sources` maps the dataset's columns in the results to their own names; `outputs` are the columns of the units.
    """

    def __init__(
        self, row: NamedValues, sources: Mapping[str, str], outputs: Sequence[str], most: int
    ) -> None:
        self.most = most
        self.row = row["row"]
        self.left_out = dict.fromkeys(LEFT_OUT, 0)
        self.failure = _failure(row)
        self.chats: dict[str, JsonObject] = {"source": {}, "outputs": {}}
        self.source = self.shown("source", {own: row[name] for name, own in sources.items()})
        given = _without_repeats({name: row[name] for name in outputs if row[name] is not None})
        tables, left = entry_tables(given)
        self.entries = [
            {
                "columns": table.columns,
                "rows": [
                    [self.cut(cell) for cell in cells] for cells in table.rows[:MOST_ENTRY_ROWS]
                ],
            }
            for table in tables
        ]
        self.left_out["entries"] = sum(
            max(0, len(table.rows) - MOST_ENTRY_ROWS) for table in tables
        )
        self.outputs = self.shown("outputs", left)
        self.calls: list[JsonObject] = []

    def shown(self, part: str, values: NamedValues) -> JsonObject:
        """The values, shortened, without those that are conversations, which become chats of the part."""
        texts = {}
        for name, value in values.items():
            if is_plain(value, self.most):
                texts[name] = value  # most values: nothing else is computed for them
                continue
            messages = as_conversation(value)
            if messages is None:
                texts[name] = self.cut(value)
            else:
                chat = self.chats[part][name] = chat_turns(messages, self.cut, self.most)
                self.left_out["turns"] += chat["left"]
        return texts

    def add(self, call: NamedValues) -> None:
        """Add the row's next call."""
        if len(self.calls) < MOST_CALLS:
            try:
                self.calls.append(self.call(call))
            except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
                self.left_out["unreadable"] += 1
        else:
            self.left_out["calls"] += 1

    def details(self) -> JsonObject:
        """The data of the page's script."""
        sentences = [
            f"{count:,} {LEFT_OUT[what]}." for what, count in self.left_out.items() if count
        ]
        return {
            "failure": self.failure,
            "source": self.source,
            "outputs": self.outputs,
            "chats": self.chats,
            "entries": self.entries,
            "calls": [{**call, "open": len(self.calls) == 1} for call in self.calls],
            "cut": " ".join(sentences),
        }

    def call(self, call: NamedValues) -> JsonObject:
        """The data of one call."""
        tokens = [call["prompt_tokens"], call["completion_tokens"]]
        messages = orjson.loads(call["messages"] or "[]")
        probabilities, invalid = _probabilities(call["logprobs"])
        flags = [word for key, word in FLAGS.items() if call[key]]
        if invalid:
            flags.append(f"invalid log-probabilities ignored: {invalid}")
        return {
            "unit": f"{call['unit']}, entry {call['item']}" if call["item"] else call["unit"],
            "model": call["model"],
            "attempt": call["attempt"],
            "tokens": tokens if tokens[0] is not None and any(tokens) else None,
            "cost": call["cost_usd"] if call["reply"] is not None else 0,
            "seconds": call["latency_s"],
            "finish": call["finish_reason"],
            "flags": flags,
            "failure": call["failure"],
            "error": self.cut(call["error"]),
            "reply": self.cut(call["reply"]),
            "probabilities": probabilities,
            "messages": [self.message(message) for message in messages],
        }

    def message(self, message: NamedValues) -> JsonObject:
        """A message of a prompt, with notes in place of its images."""
        images = image_notes([image["image"] for image in message.get("images") or ()])
        return {"role": message["role"], "content": self.cut(message["content"]), "images": images}

    def cut(self, value: Any) -> Any:
        """The value, shortened where it is a long text or holds much."""
        if isinstance(value, NESTED):
            text = encoded(value).decode()
            if len(text) <= self.most:
                return value
            value = text
        if not isinstance(value, str) or len(value) <= self.most:
            return value
        self.left_out["characters"] += len(value) - self.most
        return f"{value[: self.most]}… ({len(value) - self.most:,} characters more)"


def _without_repeats(values: NamedValues) -> JsonObject:
    """The values without those of the unit that gives the output, which `output` repeats."""
    units: dict[str, JsonObject] = {}
    for name, value in values.items():
        unit, _, field = name.rpartition(".")
        units.setdefault(unit, {})[field] = value
    output = units.pop("output", {})
    repeated = next((unit for unit in reversed(units) if output and units[unit] == output), None)
    return {name: value for name, value in values.items() if name.rpartition(".")[0] != repeated}


def _failure(row: NamedValues) -> str:
    if row["status"] == "ok":
        return ""
    if row["status"] == "abstained":
        return "no verdict: a judge was not confident enough and abstained"
    where = f" in {row['failure.node']}" if row.get("failure.node") else ""
    return f"{row.get('failure.kind')}{where}: {row.get('failure.message')}"[:2000]


def _probabilities(logprobs: Any) -> tuple[list[tuple[str, list[tuple[str, float]]]], int]:
    """The likeliest tokens at the first positions of a reply that have alternatives, and the number of alternatives
    with an invalid log-probability."""
    if not logprobs:
        return [], 0
    positions: list[tuple[str, list[tuple[str, float]]]] = []
    invalid = 0
    for number, alternatives in enumerate(logprobs, 1):
        # Rounding can make the log-probability of a certain token slightly positive.
        shares = [
            (alternative["token"], math.exp(min(alternative["logprob"], 0.0)))
            for alternative in alternatives
            if _is_valid(alternative)
        ]
        invalid += len(alternatives) - len(shares)
        if len(alternatives) > 1 and len(positions) < MOST_POSITIONS:
            shares.sort(key=lambda share: -share[1])
            positions.append((f"token {number}", shares[:MOST_SHARES]))
    return positions, invalid


def _is_valid(alternative: NamedValues) -> bool:
    """Whether it has a log-probability. JSON has null for numbers that are not finite."""
    logprob = alternative["logprob"]
    return logprob is not None and is_logprob(logprob)


class EntryTable(Struct, frozen=True):
    """Columns and rows: the entry's number, the entries by name, and the outputs of the units inside."""

    columns: list[str]
    rows: list[list[Any]]


def entry_tables(outputs: NamedValues) -> tuple[list[EntryTable], JsonObject]:
    """A table for the units that share a list, from a row's columns by name; and the columns that are in none."""
    left = dict(outputs)
    shared: dict[tuple[str, ...], dict[str, list[Any]]] = {}
    for column, value in outputs.items():
        unit, _, field = column.rpartition(".")
        if field == ITEM_COLUMN and isinstance(value, list):
            entries = dict(_numbered(left.pop(column)))
            shared.setdefault(tuple(entries), {})[unit] = [*entries.values()]
    tables = []
    for numbers, units in shared.items():
        rows = zip(*units.values(), strict=True)
        known: list[NamedValues] = [
            next((entry for entry in row if entry is not None), {}) for row in rows
        ]
        names = dict.fromkeys(
            name for entries in units.values() for entry in entries for name in entry or ()
        )
        columns: list[tuple[str, Sequence[Any]]] = [("entry", numbers)]
        columns += [(name, [entry.get(name) for entry in known]) for name in names]
        depth = numbers[-1].count(".") if numbers else 0
        for unit in units:
            for column in [name for name in left if name.startswith(f"{unit}.")]:
                values = [value for _, value in _numbered(left.pop(column), depth)]
                columns.append((column, values[: len(numbers)]))
        if numbers:
            cells = zip_longest(*(values for _, values in columns))
            tables.append(EntryTable([name for name, _ in columns], [*map(list, cells)]))
    return tables, left


def _numbered(
    values: Sequence[Any], depth: int | None = None, prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Number and value of each entry, of lists inside lists too; ``depth``: how deep, where values may be lists."""
    for position, value in enumerate(values):
        number = f"{prefix}{position}"
        if isinstance(value, list) and depth != 0:
            yield from _numbered(value, None if depth is None else depth - 1, f"{number}.")
        else:
            yield number, value
