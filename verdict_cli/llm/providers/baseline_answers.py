"""Turn a level between worst and best into a reply: the part that all baselines share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from verdict_cli.messages import Alternative, NamedValues

_SHARPNESS = 4.0
"""How fast a value's probability falls with its distance. With 4, the better of two values has 0.98 at full overlap."""


class BaselineAnswer(Protocol):
    """A level between worst and best. Each call may sample again."""

    def level(self) -> float:
        """From 0 (worst) to 1 (best)."""
        ...

    def position_on(self, count: int) -> float:
        """The position on a scale of ``count`` values, from 0 (the first, worst) to ``count - 1``."""
        ...

    def sentence(self) -> str:
        """The level in words, for string fields."""
        ...

    def remark(self) -> str:
        """The level in words without a number, so that the first and the last number of a text are its score."""
        ...


def nearest_value(position: float) -> int:
    """The index of the value nearest to a position; halves are rounded to the better one."""
    return math.floor(position + 0.5)


def fill(schema: NamedValues, answer: BaselineAnswer) -> Any:
    """A value that satisfies the schema.

    Enums are read worst first, numbers run from ``minimum`` (worst; 0 where there is none) to ``maximum``
    (one more where there is none), an array that takes each value of an enum once is a ranking. Of alternatives it is
    the first.
    """
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return fill(schema["anyOf"][0], answer)
    if "enum" in schema:
        return schema["enum"][nearest_value(answer.position_on(len(schema["enum"])))]
    match schema.get("type"):
        case "object":
            filled: Any = {
                name: fill(part, answer) for name, part in schema.get("properties", {}).items()
            }
        case "array":
            filled = _fill_array(schema, answer)
        case "boolean":
            filled = bool(nearest_value(answer.position_on(2)))
        case "integer":
            low, high = (round(bound) for bound in _bounds(schema))
            filled = low + nearest_value(answer.position_on(high - low + 1))
        case "number":
            start, end = _bounds(schema)
            filled = start + answer.level() * (end - start)
        case "null":
            filled = None
        case _:
            filled = answer.sentence()
    return filled


def _bounds(schema: NamedValues) -> tuple[float, float]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None:
        low = 0 if high is None or high > 0 else high - 1
    return low, low + 1 if high is None else high


def _fill_array(schema: NamedValues, answer: BaselineAnswer) -> list[Any]:
    items = schema.get("items", {"type": "string"})
    least = schema.get("minItems", 0)
    if "enum" in items and (schema.get("uniqueItems") or least == len(items["enum"])):
        order = sorted(items["enum"], key=lambda _: answer.level())
        return order[: schema.get("maxItems", len(order))]
    if schema.get("uniqueItems") and items.get("type") == "integer":
        low, high = (round(bound) for bound in _bounds(items))
        return sorted(range(low, high + 1), key=lambda _: answer.level())[: max(1, least)]
    values = [fill(items, answer) for _ in range(max(1, least))]
    first = items.get("properties", {}).get("index", {}).get("minimum")
    if least and first is not None:  # answers to several entries, which are numbered
        values = [{**answer, "index": first + index} for index, answer in enumerate(values)]
    return values


def token_values(schema: NamedValues | None) -> tuple[str, ...]:
    """The tokens, worst first, of a schema's only property; empty where it is not one with few values."""
    properties = list((schema or {}).get("properties", {}).values())
    if len(properties) != 1:
        return ()
    (only,) = properties
    if "enum" in only:
        return tuple(str(value) for value in only["enum"])
    if only.get("type") == "boolean":
        return ("false", "true")
    if only.get("type") == "integer" and {"minimum", "maximum"} <= only.keys():
        return tuple(str(value) for value in range(only["minimum"], only["maximum"] + 1))
    return ()


def token(support: Sequence[str], position: float, top: int) -> tuple[str, tuple[Alternative, ...]]:
    """The token nearest to a position on the support, and up to ``top`` alternatives, it first, then by probability.

    The probabilities are a softmax over the distance to the position and sum to 1 over the whole support.
    """
    steps = max(1, len(support) - 1)
    weights = [
        math.exp(-_SHARPNESS * abs(index - position) / steps) for index in range(len(support))
    ]
    total = sum(weights)
    chosen = nearest_value(position)
    order = sorted(range(len(support)), key=lambda index: (index != chosen, -weights[index], index))
    ranked = tuple(Alternative(support[index], math.log(weights[index] / total)) for index in order)
    return support[chosen], ranked[:top]
