"""A row's scores as other tools take them, and the span of the trace that the row judges."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.language.fields.types import FieldType, MassType, ScaleType, without_null
from verdict_cli.messages import NamedValues, Result
from verdict_cli.plan.node import Plan
from verdict_cli.run.observer import JudgedSpan, Score

_EXPLANATION = "explanation"
_HEX = {
    "trace": re.compile(r"(?!0{32})[0-9a-fA-F]{32}"),
    "span": re.compile(r"(?!0{16})[0-9a-fA-F]{16}"),
}
"""The ids of OpenTelemetry; one of zeros alone is none."""


def judged_span(plan: Plan, source: NamedValues) -> JudgedSpan | None:
    """The span that the row judges; None where `dataset.trace` is not set or gives nothing for this row."""
    trace = None if plan.trace is None else _identity(plan, "trace", source)
    return None if trace is None else JudgedSpan(trace, _identity(plan, "span", source))


def check_judged_span(plan: Plan, source: NamedValues) -> str:
    """Why no event can be sent to the span that the row judges, "" if it can, or if the row has none."""
    for key, length in (("trace", 32), ("span", 16)):
        expression = getattr(plan, key)
        if expression is None:
            continue
        try:
            value = expression({"source": source})
        except RowError as error:
            return f"`dataset.{key}` fails on this row: {error.message}"
        if (
            value is not None
            and value != ""
            and not (isinstance(value, str) and _HEX[key].fullmatch(value))
        ):
            return f"`dataset.{key}` gives {value!r:.80}, expected {length} hex digits"
    return ""


def _identity(plan: Plan, key: str, source: NamedValues) -> str | None:
    expression = getattr(plan, key)
    try:
        value = None if expression is None else expression({"source": source})
    except RowError:
        return None  # the row has no such value
    return None if value is None or value == "" else str(value)


def result_scores(plan: Plan, result: Result) -> Iterator[Score]:
    """The scores of a row: none of one that failed or abstained."""
    if result.status == "ok":
        yield from output_scores(
            plan, {plan.nodes[index].id: result.outputs[index] for index in plan.outputs}
        )


def output_scores(plan: Plan, outputs: NamedValues) -> Iterator[Score]:
    """A score for each number, boolean and value of a scale in the outputs of the last step, which are given by unit.

    It is named `PIPELINE.FIELD`, or `PIPELINE.UNIT.FIELD` if the last step has several units.
    """
    for index in plan.outputs:
        node = plan.nodes[index]
        output = outputs[node.id]
        if not isinstance(output, Mapping):
            continue  # skipped, or a list: the entries of an `each` are not scores of the row
        home = plan.name if plan.output_node is not None else f"{plan.name}.{node.id}"
        explanation = output.get(_EXPLANATION)
        if not isinstance(explanation, str):
            explanation = None
        for field, kind in node.result.fields.items():
            field_value = output.get(field)
            value, label = _value_and_label(without_null(kind), field_value)
            if field_value is not None and (value is not None or label is not None):
                yield Score(f"{home}.{field}", field_value, value, label, explanation)


def _value_and_label(kind: FieldType, value: Any) -> tuple[float | None, str | None]:
    """The value's number and its text, as far as it has them. Both are None for what is not a score."""
    if isinstance(kind, MassType):
        return None, None
    if isinstance(value, bool):
        return float(value), "true" if value else "false"
    if isinstance(value, int | float):
        return (float(value), None) if math.isfinite(value) else (None, None)
    if isinstance(value, str) and isinstance(kind, ScaleType):
        return kind.scale.number(value) if kind.scale.numeric() else None, value
    return None, None
