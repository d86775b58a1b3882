"""Labels of an evaluation before a run: whether a prediction can equal them, and how to make them comparable."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from verdict_cli.errors import Problem, ReplyError
from verdict_cli.language.scales.boolean import Boolean
from verdict_cli.run.label_tally import Key, Tally, label_value_key

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
    scale = tally.possible.scale or Boolean()
    meant = {label: _truth(scale, label) for label in labels}
    prediction = _operand(tally.evaluation.prediction or "")
    words = {truth: label for label, truth in meant.items() if isinstance(label, str)}
    plain = all(isinstance(label, str) and label.isprintable() and not set(label) & set("'\"\\") for label in labels)
    if None not in meant.values() and plain and len(words) == len(labels):
        yes = words.get(True, scale.yes[0])
        no = words.get(False, scale.no[0])
        yield f"write `prediction: \"'{yes}' if {prediction} else '{no}'\"`"
    column = tally.target.way
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
    words = {_truth(Boolean(), value): value for value in values}
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


def _truth(scale: Boolean, label: Any) -> bool | None:
    try:
        return scale.read(label)
    except ReplyError:
        return None


def _all_read(labels: list[Any]) -> bool:
    """Whether a column of the type `bool` takes these labels."""
    return all(_truth(Boolean(), label) is not None for label in labels)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _operand(text: str) -> str:
    """The expression as one side of another."""
    return text if all(part.isidentifier() for part in text.split(".")) else f"({text})"


_SHOWN = 6


def check_label_values(tally: Tally, at: Problem, *, sampled: bool) -> tuple[list[Problem], list[Problem]]:
    """The errors (the run could only end in an error or in a wrong metric) and the warnings. ``at`` is the evaluation's
    place; ``sampled``: some of the rows may not be in the run."""
    errors: list[Problem] = []
    warnings: list[Problem] = []

    def problem(code: str, message: str, hint: str) -> Problem:
        return Problem(code, message, hint).at(at.file, at.line, at.column, at.path)

    if tally.bad is not None:
        certain = tally.whole and not sampled
        (errors if certain else warnings).append(problem("evaluate", *tally.bad))
    seen = tally.seen
    if not tally.labels or tally.lists or tally.evaluation.kind == "ranking":
        if tally.rows and tally.missing == tally.rows:
            hint = "see that `target` names the column of the human labels"
            warnings.append(problem("no-labels", f"`{tally.target.text}` is null in all {tally.rows:,} rows", hint))
        return errors, warnings
    errors += _without_positive(tally, seen, problem)
    if tally.evaluation.prediction is not None:
        never = _never_equal(tally, seen, problem)
        errors += never
        if not never and tally.whole:
            warnings += _off_scale(tally, seen, problem)
    if len(seen) == 1 and tally.labels > 1 and tally.whole and _is_nominal(tally):
        only, count = _spelled(next(iter(seen.values()))[1]), f"{tally.labels:,}"
        message = f"all {count} labels are {only}: kappa, AUROC and the like are undefined"
        warnings.append(problem("one-label", message, "take rows with other labels in"))
    return errors, warnings


def _without_positive(tally: Tally, seen: Mapping[Key, Any], problem: Any) -> list[Problem]:
    """A probability of which nothing says what it is of."""
    evaluation = tally.evaluation
    if evaluation.probability is None or evaluation.positive is not None or tally.truths == tally.labels:
        return []
    message = "`probability` needs `positive`, the target whose probability it is: only booleans need none"
    return [problem("positive", message, f"such as `positive: {_bare(next(iter(seen.values()))[1])}`")]


def _never_equal(tally: Tally, seen: Mapping[Key, Any], problem: Any) -> list[Problem]:
    """No label can equal a prediction: their types differ, or no label is among a scale's words."""
    possible = tally.possible
    texts = {is_text for is_text, _ in seen} | ({True, False} if tally.others and not tally.texts else set())
    mixed = len(texts) > 1
    differ = possible.numeric is not None and not mixed and texts == {possible.numeric}
    known = {label_value_key(value) for value in possible.values or ()}
    apart = bool(known) and not tally.others and not known & seen.keys()
    booleans = bool(possible.values) and all(isinstance(value, bool) for value in possible.values or ())
    if known & seen.keys() or not (differ or (apart and (True in texts or booleans))):
        return []
    if tally.evaluation.group is not None and not differ:
        return []
    labels = f"{'text' if texts == {True} else 'labels'} such as {_listed(seen.values())}"
    if differ and texts == {False}:
        labels = f"{'booleans' if tally.truths == tally.labels else 'numbers'} such as {_listed(seen.values())}"
    message = f"no prediction can ever equal a target: predictions are {_predictions(tally)}, targets are {labels}"
    return [problem("label-types" if differ else "label-off-scale", message, fix(tally))]


def _off_scale(tally: Tally, seen: Mapping[Key, Any], problem: Any) -> list[Problem]:
    """Some labels that no prediction can equal."""
    possible = tally.possible
    if possible.values is None or tally.evaluation.group is not None or not _is_nominal(tally):
        return []
    known = {label_value_key(value) for value in possible.values}
    off = {key: one for key, one in seen.items() if key not in known}
    count = tally.others + sum(count for count, _ in off.values())
    if not count:
        return []
    message = (
        f"{count:,} of {tally.labels:,} labels can equal no prediction and count as wrong: {_listed(off.values())}; "
        f"predictions are {_predictions(tally)}"
    )
    return [problem("label-off-scale", message, fix(tally))]


def _is_nominal(tally: Tally) -> bool:
    """Whether predictions are compared with labels for equality, not as numbers near one another."""
    if tally.evaluation.kind is not None:
        return tally.evaluation.kind != "numeric"
    numeric = tally.possible.numeric is True and not tally.texts
    return not (numeric and (tally.fractions or tally.possible.values is None)) or bool(tally.evaluation.positive)


def _predictions(tally: Tally) -> str:
    values = tally.possible.values
    if values is None:
        return "numbers" if tally.possible.numeric else "text"
    spelled = [_spelled(value) for value in values[:_SHOWN]]
    more = ", …" if len(values) > _SHOWN else ""
    return (" or " if len(values) == 2 else ", ").join(spelled) + more


def _listed(found: Iterable[tuple[int, Any]]) -> str:
    """`'yes' (20), 'no' (10)`."""
    every = [f"{_spelled(value)} ({count:,})" for count, value in found]
    return ", ".join(every[:_SHOWN]) + (", …" if len(every) > _SHOWN else "")


def _spelled(value: Any) -> str:
    return _bare(value) if isinstance(value, bool) else f"{value!r:.60}"


def _bare(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
