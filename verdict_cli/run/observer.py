"""What watches a run: its rows and their units, for a display or for tracing; and the scores that are traced."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from verdict_cli.messages import Ask, Failure, Output, Row
from verdict_cli.run_facts import RunFacts


class JudgedSpan(NamedTuple):
    """The span of another tool's trace that a row judges, by its ids in hex; None for the trace as a whole."""

    trace_id: str
    span_id: str | None


class Score(NamedTuple):
    """One score of a row: what the judge gave, its number or its label or both, and why."""

    name: str
    given: bool | float | str
    value: float | None
    label: str | None
    explanation: str | None


EVALUATION_EVENT = "gen_ai.evaluation.result"
"""The event of the GenAI conventions that holds one score."""


def evaluation_attributes(score: Score) -> dict[str, str | float]:
    """The attributes of a score's event."""
    given = {
        "score.value": score.value,
        "score.label": score.label,
        "explanation": score.explanation,
    }
    return {
        "gen_ai.evaluation.name": score.name,
        **{f"gen_ai.evaluation.{key}": value for key, value in given.items() if value is not None},
    }


_NOTHING: AbstractContextManager[Callable[[object], None]] = nullcontext(lambda _: None)
_NO_ROW: AbstractContextManager[Callable[[object, object], None]] = nullcontext(lambda _, __: None)


class RunObserver:
    """Context managers around what happens in a run, each of which yields a function that receives the outcome.

    These do nothing.
    """

    def run(self, name: str) -> AbstractContextManager[Callable[[RunFacts], None]]:
        """The whole run."""
        return _NOTHING

    def row(
        self, row: Row, judged: JudgedSpan | None = None
    ) -> AbstractContextManager[Callable[[Failure | None, Iterable[Score]], None]]:
        """One row, and the span that it judges. Units that all rows share belong to the run."""
        return _NO_ROW

    def unit(self, node: str) -> AbstractContextManager[Callable[[Output | None], None]]:
        """One unit at one row; an exception marks it as failed."""
        return _NOTHING

    def calls(self, ask: Ask) -> Ask:
        """``ask``, watched."""
        return ask
