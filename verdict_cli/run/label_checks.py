"""Labels of an evaluation before a run: whether a prediction can equal them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from verdict_cli.errors import Problem
from verdict_cli.messages import plain_text
from verdict_cli.run.label_counts import Key, LabelCounts, label_value_key


def _hint(counts: LabelCounts) -> str:
    """How labels and predictions become comparable."""
    values = counts.possible.values
    if values and all(isinstance(value, bool) for value in values):
        prediction = _operand(counts.evaluation.prediction or "")
        return f"with your own two labels: `prediction: \"'yes' if {prediction} else 'no'\"`"
    if counts.predicted:
        return _conversion_of_text(counts)
    if (column := _column_with_blanks(counts)) is not None:
        return f'read the column as numbers: `dataset: {{schema: {{{column}: "float?"}}}}`, in which blanks are missing'
    target = _operand(counts.target.text)
    labels = [label for _, label in counts.seen.values()]
    texts = [label for label in labels if isinstance(label, str)]
    numbers = [text for text in texts if _is_number(text)]
    if counts.numeric and numbers:
        is_all = len(numbers) == len(texts) and not counts.others
        read = "float`" if is_all else "float(none)`, which makes other text null"
        return f"read the labels as numbers: `target: {target} | {read}"
    if counts.numeric is False and not texts:
        return f"read the labels as text: `target: {target} | string`"
    convert = f", or convert the labels: `target: {target} | lower` (or `upper`, `trim`)"
    return f"correct the labels or the scale{'' if counts.numeric else convert}"


def _conversion_of_text(counts: LabelCounts) -> str:
    """How the text in one of two columns is compared with the booleans or numbers in the other."""
    label = next(iter(counts.seen.values()))[1]
    predicted = next(iter(counts.predicted.values()))
    prediction = counts.evaluation.prediction or ""
    key, expression, text, other = "prediction", prediction, predicted, label
    if counts.numeric:
        key, expression, text, other = "target", counts.target.text, label, predicted
    operand = _operand(expression)
    if isinstance(other, bool):
        return f"compare the text with the value that means true: `{key}: {operand} == {text!r}`"
    return f"read the text as numbers: `{key}: {operand} | float`"


def _column_with_blanks(counts: LabelCounts) -> str | None:
    """The column of the labels where some are blank, and the others numbers written as text."""
    path = counts.target.path
    label_values = [value for _, value in counts.seen.values()]
    labels = [value for value in label_values if value != ""]
    if path is None or len(path) != 2 or path[0] != "source" or counts.others:
        return None
    if not labels or len(labels) == len(label_values):
        return None
    return str(path[1]) if all(_is_number(value) for value in labels) else None


def _is_number(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _operand(text: str) -> str:
    """The expression as an operand, in parentheses where it needs them."""
    return text if all(part.isidentifier() for part in text.split(".")) else f"({text})"


_SHOWN = 6


def check_label_values(
    counts: LabelCounts, at: Problem, *, sampled: bool
) -> tuple[list[Problem], list[Problem]]:
    """The errors, with which the run could only end in an error or a wrong metric, and the warnings.

    ``at`` has the position of the evaluation; ``sampled``: some of the rows may not be in the run.
    """
    errors: list[Problem] = []
    warnings: list[Problem] = []

    def problem(code: str, message: str, hint: str) -> Problem:
        return Problem(code, message, hint).at(at.file, at.line, at.column, at.path)

    if counts.bad is not None:
        certain = counts.whole and not sampled
        (errors if certain else warnings).append(problem("evaluate", *counts.bad))
    seen = counts.seen
    if counts.where is not None and not counts.rows:
        message = f"`where: {counts.where.text}` is true in no row: nothing is measured"
        warnings.append(problem("evaluate", message, "correct it, or leave it out"))
    if not counts.labels or counts.lists or counts.evaluation.kind == "ranking":
        if counts.rows and counts.missing == counts.rows:
            hint = "check that `target` names the column of the human labels"
            warnings.append(
                problem(
                    "no-labels", f"`{counts.target.text}` is null in all {counts.rows:,} rows", hint
                )
            )
        return errors, warnings
    errors += _without_positive(counts, seen, problem)
    (errors if _alike(counts) is not None else warnings).extend(_absent_positive(counts, problem))
    if counts.evaluation.prediction is not None:
        never = _never_equal(counts, seen, problem)
        errors += never
        if not never and counts.whole:
            warnings += _off_scale(counts, seen, problem)
    if len(seen) == 1 and counts.labels > 1 and counts.whole and _is_nominal(counts):
        only, count = _quoted(next(iter(seen.values()))[1]), f"{counts.labels:,}"
        message = f"all {count} labels are {only}: kappa, AUROC and the like are 0 or undefined, and say nothing of the judge"
        warnings.append(problem("one-label", message, "take rows with other labels in"))
    return errors, warnings


def _without_positive(counts: LabelCounts, seen: Mapping[Key, Any], problem: Any) -> list[Problem]:
    """An error for a probability without the label whose probability it is."""
    evaluation = counts.evaluation
    if (
        evaluation.probability is None
        or evaluation.positive is not None
        or counts.truths == counts.labels
    ):
        return []
    message = "`probability` needs `positive`, the target whose probability it is: only booleans need none"
    return [
        problem(
            "positive", message, f"such as `positive: {plain_text(next(iter(seen.values()))[1])}`"
        )
    ]


def _absent_positive(counts: LabelCounts, problem: Any) -> list[Problem]:
    """A problem where no target and no prediction is the positive label: each row would count as a negative one."""
    positive = counts.evaluation.positive
    if positive is None or counts.others or label_value_key(positive) in counts.counts:
        return []
    alike = _alike(counts)
    labels = _listed(counts.seen.values())
    message = f"no label is {_quoted(positive)}, the `positive` one: targets are {labels}"
    hint = "name one of the labels" if alike is None else f"write `positive: {_quoted(alike)}`"
    return [problem("positive", message, hint)]


def _alike(counts: LabelCounts) -> Any:
    """The label that is written like the positive one, but is another: `yes` for `Yes`, 1 for `'1'`."""
    spelled = plain_text(counts.evaluation.positive).strip().casefold()
    labels = (label for _, label in counts.counts.values())
    return next(
        (label for label in labels if plain_text(label).strip().casefold() == spelled), None
    )


def _never_equal(counts: LabelCounts, seen: Mapping[Key, Any], problem: Any) -> list[Problem]:
    """An error where no label can equal a prediction: their types differ, or none is a value of the scale."""
    possible = counts.possible
    texts = {is_text for is_text, _ in seen} | (
        {True, False} if counts.others and not counts.texts else set()
    )
    mixed = len(texts) > 1
    differ = counts.numeric is not None and not mixed and texts == {counts.numeric}
    keys = {label_value_key(value) for value in possible.values or ()}
    apart = bool(keys) and not counts.others and not keys & seen.keys()
    booleans = bool(possible.values) and all(
        isinstance(value, bool) for value in possible.values or ()
    )
    if keys & seen.keys() or not (differ or (apart and (True in texts or booleans))):
        return []
    if counts.evaluation.group is not None and not differ:
        return []
    labels = f"{'text' if texts == {True} else 'labels'} such as {_listed(seen.values())}"
    if differ and texts == {False}:
        labels = f"{'booleans' if counts.truths == counts.labels else 'numbers'} such as {_listed(seen.values())}"
    message = f"no prediction can ever equal a target: predictions are {_predictions(counts)}, targets are {labels}"
    return [problem("label-types" if differ else "label-off-scale", message, _hint(counts))]


def _off_scale(counts: LabelCounts, seen: Mapping[Key, Any], problem: Any) -> list[Problem]:
    """A warning for some labels that no prediction can equal."""
    possible = counts.possible
    if possible.values is None or counts.evaluation.group is not None or not _is_nominal(counts):
        return []
    keys = {label_value_key(value) for value in possible.values}
    off = {key: value for key, value in seen.items() if key not in keys}
    count = counts.others + sum(count for count, _ in off.values())
    if not count:
        return []
    message = (
        f"{count:,} of {counts.labels:,} labels can equal no prediction and count as wrong: {_listed(off.values())}; "
        f"predictions are {_predictions(counts)}"
    )
    return [problem("label-off-scale", message, _hint(counts))]


def _is_nominal(counts: LabelCounts) -> bool:
    """Whether predictions and labels are compared for equality, not by their distance."""
    if counts.evaluation.kind is not None:
        return counts.evaluation.kind != "numeric"
    numeric = counts.possible.numeric is True and not counts.texts
    return not (numeric and (counts.fractions or counts.possible.values is None)) or bool(
        counts.evaluation.positive
    )


def _predictions(counts: LabelCounts) -> str:
    values = counts.possible.values
    if values is None:
        kind = "numbers" if counts.numeric else "text"
        examples = [f"{_quoted(value)}" for value in counts.predicted.values()]
        return " such as ".join([kind, *examples])
    spelled = [_quoted(value) for value in values[:_SHOWN]]
    more = ", …" if len(values) > _SHOWN else ""
    return (" or " if len(values) == 2 else ", ").join(spelled) + more


def _listed(labels: Iterable[tuple[int, Any]]) -> str:
    """`'yes' (20), 'no' (10)`."""
    listed = [f"{_quoted(value)} ({count:,})" for count, value in labels]
    return ", ".join(listed[:_SHOWN]) + (", …" if len(listed) > _SHOWN else "")


def _quoted(value: Any) -> str:
    return plain_text(value) if isinstance(value, bool) else f"{value!r:.60}"
