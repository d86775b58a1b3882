"""A row's whole story for a page: its source, its outputs, and every call with prompt, reply and probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from verdict_cli.messages import is_logprob
from verdict_cli.report.page.compress import NESTED, encoded
from verdict_cli.stats.columns.column import Ints
from verdict_cli.storage.tables.arrow_vectors import integers
from verdict_cli.storage.tables.reader import read_arrow, read_rows, table_columns

MOST_TEXT_IN_DETAILS = 20_000
"""Characters of one text; what is beyond is left out, saying so."""
MOST_CALLS = 60
MOST_POSITIONS = 3
MOST_SHARES = 8
AT_A_TIME = 1000
"""Stories read together: as many as a page tells, because the whole tables are unpacked each time."""
_CALLS = (
    "row", "unit", "attempt", "model", "messages", "reply", "finish_reason", "logprobs", "prompt_tokens",
    "completion_tokens", "cost_usd", "latency_s", "recalled", "cached", "repaired", "failure", "error",
)  # fmt: skip
_OWN = ("row", "id", "status", "failure.kind", "failure.message", "failure.node", "calls", "cost_usd")


def row_details(
    results: Path, calls: Path, places: Ints, most: int = MOST_TEXT_IN_DETAILS
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Place and story of each of these places, in this order, `AT_A_TIME` of them read at once.

    Texts are cut at `most` characters.
    """
    numbers = _numbers(calls) if len(places) else np.empty(0)
    for start in range(0, len(places), AT_A_TIME):
        some = places[start : start + AT_A_TIME]
        ascending = np.sort(some).tolist()
        tellers = [teller for batch in read_rows(results, ascending) for teller in _tellers(batch, most)]
        of_row = {teller.row: teller for teller in tellers}
        its_calls = np.flatnonzero(np.isin(numbers, list(of_row)))
        for batch in read_rows(calls, its_calls.tolist(), _CALLS) if len(its_calls) else ():
            for call in _rows(batch):
                of_row[call["row"]].add(call)
        at = dict(zip(ascending, tellers, strict=True))
        for place in some.tolist():
            yield place, at[place].story()


def _numbers(calls: Path) -> Any:
    """The row of every call."""
    if not calls.is_file() or not set(_CALLS) <= set(table_columns(calls)):
        return np.empty(0)
    parts = [integers(batch.column("row")) for batch in read_arrow(calls, ["row"])]
    return np.concatenate(parts) if parts else np.empty(0)


def _rows(batch: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in zip(*batch.values(), strict=True):
        yield dict(zip(batch, values, strict=True))


def _tellers(batch: Mapping[str, list[Any]], most: int) -> Iterator[_RowDetailsBuilder]:
    sources = {name: name[7:] for name in batch if name.startswith("source.")}
    outputs = [name for name in batch if name not in _OWN and name not in sources]
    for row in _rows(batch):
        yield _RowDetailsBuilder(row, sources, outputs, most)


class _RowDetailsBuilder:
    """Tells one row's story, and says how much of it is left out.

    `sources` are the columns of the dataset under their own names, `outputs` those of the units.
    """

    def __init__(self, row: Mapping[str, Any], sources: Mapping[str, str], outputs: Sequence[str], most: int) -> None:
        self.most = most
        self.row = row["row"]
        self.left_out = self.calls_left_out = self.calls_unreadable = 0
        self.failure = _failure(row)
        self.source = {own: self.cut(row[name]) for name, own in sources.items()}
        self.outputs = {name: self.cut(row[name]) for name in outputs if row[name] is not None}
        self.calls: list[dict[str, Any]] = []

    def add(self, call: Mapping[str, Any]) -> None:
        """Take in the row's next call."""
        if len(self.calls) < MOST_CALLS:
            try:
                self.calls.append(self.call(call))
            except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
                self.calls_unreadable += 1
        else:
            self.calls_left_out += 1

    def story(self) -> dict[str, Any]:
        """What the page's script shows."""
        left = []
        if self.left_out:
            left.append(f"{self.left_out:,} characters of long texts are left out here.")
        if self.calls_left_out:
            left.append(f"{self.calls_left_out:,} of its calls are left out here.")
        if self.calls_unreadable:
            left.append(
                f"{self.calls_unreadable:,} of its calls cannot be shown: calls.parquet holds what no run writes there."
            )
        return {
            "failure": self.failure,
            "source": self.source,
            "outputs": self.outputs,
            "calls": [{**call, "open": len(self.calls) == 1} for call in self.calls],
            "cut": " ".join(left),
        }

    def call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """One call."""
        asked = call["prompt_tokens"] is not None and (call["prompt_tokens"] or call["completion_tokens"])
        messages = orjson.loads(call["messages"] or "[]")
        probabilities, invalid = _probabilities(call["logprobs"])
        return {
            "unit": call["unit"],
            "model": call["model"],
            "attempt": call["attempt"],
            "tokens": [call["prompt_tokens"], call["completion_tokens"]] if asked else None,
            "cost": call["cost_usd"] if call["reply"] is not None else 0,
            "seconds": call["latency_s"],
            "finish": call["finish_reason"],
            "flags": [
                word
                for word, key in (("from the journal", "recalled"), ("cached", "cached"), ("repaired", "repaired"))
                if call[key]
            ]
            + ([f"log-probabilities ignored because they are none: {invalid}"] if invalid else []),
            "failure": call["failure"],
            "error": self.cut(call["error"]),
            "reply": self.cut(call["reply"]),
            "probabilities": probabilities,
            "messages": [{**message, "content": self.cut(message["content"])} for message in messages],
        }

    def cut(self, value: Any) -> Any:
        """The value, shortened where it is a long text or holds much."""
        if isinstance(value, NESTED):
            text = encoded(value).decode()
            if len(text) <= self.most:
                return value
            value = text
        if not isinstance(value, str) or len(value) <= self.most:
            return value
        self.left_out += len(value) - self.most
        return f"{value[: self.most]}… ({len(value) - self.most:,} characters more)"


def _failure(row: Mapping[str, Any]) -> str:
    if row["status"] == "ok":
        return ""
    if row["status"] == "abstained":
        return "no verdict: a judge was not sure enough and abstained"
    where = f" in {row['failure.node']}" if row.get("failure.node") else ""
    return f"{row.get('failure.kind')}{where}: {row.get('failure.message')}"[:2000]


def _probabilities(logprobs: str | None) -> tuple[list[tuple[str, list[tuple[str, float]]]], int]:
    """The first positions of a reply at which more than one token could have stood, each with its likeliest tokens;
    and how many alternatives of the reply have no log-probability that is one."""
    if not logprobs:
        return [], 0
    found: list[tuple[str, list[tuple[str, float]]]] = []
    invalid = 0
    for place, position in enumerate(orjson.loads(logprobs)):
        shares = [(one["token"], math.exp(min(one["logprob"], 0.0))) for one in position if _is_valid(one)]
        invalid += len(position) - len(shares)
        if len(position) > 1 and len(found) < MOST_POSITIONS:
            shares.sort(key=lambda each: -each[1])
            found.append((f"token {place + 1}", shares[:MOST_SHARES]))
    return found, invalid


def _is_valid(alternative: Mapping[str, Any]) -> bool:
    """Whether its log-probability is one. JSON has null for those that are no finite numbers."""
    logprob = alternative["logprob"]
    return logprob is not None and is_logprob(logprob)
