"""The columns of the data that a pipeline names, and those that a prompt seems to name."""

from __future__ import annotations

from dataclasses import dataclass

from verdict_cli.errors import Problem


@dataclass(frozen=True)
class Used:
    """A dataset column that something names, and where that is written: ``file:line:column``, path.

    ``asked``: a unit needs it; otherwise only metrics, gates or `where` do, and a row can be judged without it.
    ``is_needed``: no run is possible without it; metrics are merely not split by a column that is missing.
    ``hint`` says what else could be done where the column is missing.
    """

    column: str
    place: str
    asked: bool = True
    is_needed: bool = True
    hint: str = ""


@dataclass(frozen=True)
class Brace:
    """A literal brace in a prompt that holds a name alone; ``problem`` is what it is where the data has that column."""

    column: str
    problem: Problem
