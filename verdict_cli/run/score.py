"""A row's score, and the span of another tool's trace that the row judges."""

from __future__ import annotations

from typing import NamedTuple


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
    given = {"score.value": score.value, "score.label": score.label, "explanation": score.explanation}
    return {
        "gen_ai.evaluation.name": score.name,
        **{f"gen_ai.evaluation.{key}": value for key, value in given.items() if value is not None},
    }
