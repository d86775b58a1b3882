"""How labels and predictions that are never equal are made comparable: tried on the labels themselves before it is said."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from verdict_cli.errors import ReplyError
from verdict_cli.language.scales import Scale, named_scales
from verdict_cli.run.data_preflight.label_tally import Tally, label_value_key

_MOST_WORDS = 10
_TURNED: dict[str, Callable[[str], Any]] = {
    "lower": str.lower,
    "upper": str.upper,
    "trim": str.strip,
    "trim | lower": lambda text: text.strip().lower(),
    "trim | upper": lambda text: text.strip().upper(),
    "title": str.title,
    "int": int,
    "float": float,
}
"""Filters of expressions, and what they make of a text; ValueError where that would be a default."""


def fix(tally: Tally) -> str:
    """What to write so that labels and predictions can be equal; the first that fits every label."""
    return next(_fixes(tally))


def _fixes(tally: Tally) -> Iterator[str]:
    values = tally.possible.values
    labels = [value for _, value in tally.seen.values()] if not tally.others else []
    if labels and values and all(isinstance(value, bool) for value in values):
        yield from _for_truth(tally, labels)
    if labels and values and all(isinstance(label, bool) for label in labels):
        yield from _of_truth(tally, values)
    yield from _turned(tally, labels)
    if values and labels and all(str(value) in {str(label) for label in labels} for value in values):
        yield f"write `target: {_operand(tally.target.text)} | string`"
    if tally.possible.numeric:
        wrong = [label for label in labels if isinstance(label, str) and not _is_number(label)]
        if wrong and len(wrong) < len(labels):
            yield (
                f"labels that are no numbers, such as {wrong[0]!r:.60}, are to be empty (null); "
                "`dataset: {schema: {COLUMN: float}}` reads the others as numbers"
            )
    words = [label for label in labels if isinstance(label, str)]
    if values and 1 < len(words) == len(labels) <= _MOST_WORDS:
        listed = ", ".join(words)
        yield f"correct the labels, or use them as the scale's values, worst first: `scale: {{values: [{listed}]}}`"
    yield "correct the labels or the scale, or convert one side in its expression"


def _for_truth(tally: Tally, labels: list[Any]) -> Iterator[str]:
    """Predictions are true or false, labels are words."""
    scale = tally.possible.scale or named_scales()["boolean"]
    meant = {label: _truth(scale, label) for label in labels}
    prediction = _operand(tally.evaluation.prediction or "")
    words = {truth: label for label, truth in meant.items() if isinstance(label, str)}
    plain = all(isinstance(label, str) and label.isprintable() and not set(label) & set("'\"\\") for label in labels)
    if None not in meant.values() and plain and len(words) == len(labels):
        yes = words.get(True, _token(scale, True))
        no = words.get(False, _token(scale, False))
        yield f"write `prediction: \"'{yes}' if {prediction} else '{no}'\"`"
    column = tally.target.path
    if None not in meant.values() and column is not None and len(column) == 2 and _all_read(labels):
        yield f"write `dataset: {{schema: {{{column[1]}: bool}}}}`, which reads the labels as true and false"
    if plain and len(labels) == 2:
        one, other = labels
        yield (
            f"write `prediction: \"'{one}' if {prediction} else '{other}'\"`, or with the two labels exchanged: "
            "the first is the one that true means"
        )


def _of_truth(tally: Tally, values: tuple[Any, ...]) -> Iterator[str]:
    """Labels are true or false, predictions are words."""
    words = {_truth(named_scales()["boolean"], value): value for value in values}
    if len(values) == 2 and words.keys() == {True, False}:
        target = _operand(tally.target.text)
        yield f"write `target: \"'{words[True]}' if {target} else '{words[False]}'\"`"


def _turned(tally: Tally, labels: list[Any]) -> Iterator[str]:
    """A filter that brings every label among the predictions; of numbers that are not listed, one that reads them."""
    known = {label_value_key(value) for value in tally.possible.values or ()}
    for name, turn in _TURNED.items():
        number = name in ("int", "float")
        if number and not tally.possible.numeric:
            continue
        try:
            made = {label_value_key(turn(label) if isinstance(label, str) else label) for label in labels}
        except (ValueError, OverflowError):
            continue
        finite = all(is_text or math.isfinite(value) for is_text, value in made)
        if made and finite and (made <= known or (number and not known)):
            yield f"write `target: {_operand(tally.target.text)} | {name}`"


def _truth(scale: Scale, label: Any) -> bool | None:
    try:
        return bool(scale.read(label))
    except ReplyError:
        return None


def _token(scale: Scale, value: bool) -> str:
    """The word that prompts use for true or for false."""
    return next(token for token, meant in scale.tokens() if meant is value)


def _all_read(labels: list[Any]) -> bool:
    """Whether a column of the type `bool` takes these labels."""
    return all(_truth(named_scales()["boolean"], label) is not None for label in labels)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _operand(text: str) -> str:
    """The expression as one side of another."""
    return text if all(part.isidentifier() for part in text.split(".")) else f"({text})"
