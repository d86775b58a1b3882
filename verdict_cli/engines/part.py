"""A stretch of a run's rows, which an engine may run anywhere: with a journal and tables of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from verdict_cli.data import joined
from verdict_cli.engines.columns import CALL_COLUMNS, result_columns
from verdict_cli.engines.directory import RunDirectory
from verdict_cli.engines.tally import Tally
from verdict_cli.errors import VerdictError
from verdict_cli.plan import Plan
from verdict_cli.values import Output, Row


@dataclass(frozen=True)
class Part:
    """``rows`` in the dataset's order, ``count`` of them, each with a key that no other row of the run has.

    ``folder`` takes the part's journal and tables. ``pinned`` are the outputs of the pinned units, None where this part
    is to ask for them; a part without rows does that alone.
    """

    rows: Iterable[Row]
    count: int
    folder: RunDirectory
    pinned: Mapping[int, Output | None] | None = None


@dataclass(frozen=True)
class PartDone:
    """What came of a part: its counts, and the pinned units' outputs.

    ``complete``: each of its rows has a result. ``trouble`` is what stopped it, None where nothing did.
    """

    tally: Tally
    pinned: Mapping[int, Output | None]
    complete: bool
    trouble: VerdictError | None = None


def join(parts: Sequence[Part], into: RunDirectory, plan: Plan, source: Sequence[str]) -> None:
    """Writes the tables of the parts, in this order, as one: the same bytes as a run of all their rows in one part.

    ``source`` are the dataset's columns. OutputError when the disk refuses, DataError for a table that is damaged.
    """
    columns = result_columns(plan, source)
    joined([part.folder.results for part in parts], into.results, columns)
    joined([part.folder.calls for part in parts], into.calls, CALL_COLUMNS)
