"""The three questions of `verdict init`: what is judged, what is the right answer, and what may the answer be."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import typer

from verdict_cli.cli import console
from verdict_cli.cli.console import print_message
from verdict_cli.errors import UsageError, VerdictError
from verdict_cli.features.wizard.answers import (
    BOOLEAN,
    AnswerScale,
    label_words,
    parse_scale,
    proposed_scale,
)
from verdict_cli.features.wizard.columns import (
    MAX_CATEGORIES,
    DatasetColumns,
    judged_column,
    read_columns,
    words_of,
)

NONE = "none"
_GENERAL_LABELS = [
    "gold",
    "good",
    "grade",
    "human",
    "label",
    "pass",
    "rating",
    "score",
    "stars",
    "target",
    "verdict",
]
"""Names of labels that do not say what is labelled."""
_MOST_VALUE_CHARS = 60
T = TypeVar("T")


def ask(question: str, parse: Callable[[str], T], default: str | None = None) -> T:
    """Prompt until `parse` takes the answer; each VerdictError that it raises is shown in a line. Enter gives the default."""
    while True:
        answer = str(typer.prompt(question, default=default, err=True)).strip()
        try:
            return parse(answer)
        except VerdictError as error:
            lines = f"{error.message}\n{error.hint}".splitlines()
            print_message("  ! " + "; ".join(line.strip() for line in lines if line.strip()))


def ask_dataset() -> DatasetColumns:
    """Prompt for the dataset, and read its first rows. UsageError without a terminal."""
    if not console.is_interactive():
        raise UsageError(
            "DATA is missing: the dataset whose columns the judge reads",
            hint="verdict init answers.jsonl --yes\n    or copy a judge shipped with verdict: verdict init --from xstest",
        )
    return ask("Your dataset (JSONL, JSON, CSV, TSV, Excel or Parquet)", read_columns)


def ask_judged(columns: DatasetColumns) -> tuple[str, ...]:
    """Prompt for what is judged: the columns that the judge reads."""
    print_message("Columns:")
    for name, values in columns.values.items():
        example = next((value for value in values if value is not None), None)
        print_message(f"  {name:20} {_shorten(example)}")
    return ask(
        "What is judged? The columns that the judge reads, without the right answers",
        lambda answer: columns.check(split_words(answer), "columns"),
        ",".join(columns.judged()) or None,
    )


def ask_target(columns: DatasetColumns, read: tuple[str, ...]) -> str | None:
    """Prompt for the column with the right answers; None if there is none."""

    def parse(answer: str) -> str | None:
        if answer.lower() == NONE and NONE not in columns.values:
            return None
        others = [name for name in read if name != answer and not answer.startswith(f"{name}.")]
        return columns.check_label(answer, others)

    labels = columns.labels(read)
    return ask(
        "What is the right answer? The column with people's labels, or none",
        parse,
        (labels or [NONE])[0],
    )


def ask_scale(columns: DatasetColumns, target: str | None) -> AnswerScale:
    """Prompt for what the answer may be. The order of words is proposed only where it is known."""
    labels = columns.values[target] if target else ()
    proposed = proposed_scale(labels) if target else BOOLEAN
    if target is not None:
        words = label_words(labels)
        more = ", …" if len(words) > MAX_CATEGORIES else ""
        print_message(f"The labels are {', '.join(words[:MAX_CATEGORIES])}{more}.")
    return ask(
        "What may the answer be? boolean, 1-5, words from worst to best such as bad,fair,good, or categories",
        lambda answer: checked_scale(answer, labels),
        proposed.option() if proposed else None,
    )


def checked_scale(text: str, labels: Sequence[Any]) -> AnswerScale:
    """The scale that the user wrote. UsageError for none, and for one that does not have the labels."""
    parsed = parse_scale(text, labels)
    if isinstance(parsed, AnswerScale):
        return parsed
    hint = "give boolean, 1-5, or words from worst to best: bad,fair,good"
    words = label_words(labels)
    if len(words) == 1:
        hint = f"--scale 'other,{words[0]}' has them"
    elif words and len(words) <= MAX_CATEGORIES and not parsed.endswith("is not a scale"):
        proposed = proposed_scale(labels)
        hint = f"--scale '{proposed.option() if proposed else 'categories'}' has them"
    raise UsageError(parsed, hint=hint)


def scale_of_labels(
    columns: DatasetColumns, target: str | None, *, take_categories: bool
) -> AnswerScale:
    """The scale of the target's labels. UsageError where the user must say it: ``take_categories`` takes words of no known
    order as categories."""
    if target is None:
        return BOOLEAN
    labels = columns.values[target]
    words = label_words(labels)
    scale = proposed_scale(labels)
    if scale is not None and (scale.kind != "nominal" or take_categories):
        return scale
    if len(words) == 1:
        raise UsageError(
            f"all labels of {target!r} are {words[0]!r}, so the scale is not known",
            hint=f"give its words from worst to best: --scale 'other,{words[0]}'",
        )
    if scale is None:
        raise UsageError(
            f"{target!r} has {len(words)} different labels, more than a scale of words has ({MAX_CATEGORIES})",
            hint="name another column, give the range of numbers such as --scale 0-100, or leave --target out",
        )
    raise UsageError(
        f"the order of the labels of {target!r} is not known: {', '.join(words)}",
        hint=f"give them from worst to best: --scale '{','.join(words)}' if that is their order; "
        "or --scale categories if none is better than another",
    )


def default_question(columns: DatasetColumns, read: Sequence[str], target: str | None) -> str:
    """What a judge of these columns is asked, in a sentence: of the labels where there are some."""
    thing = _spoken(judged_column(read))
    if target is None:
        return f"Is the {thing} good?"
    labels = columns.values[target]
    scale = proposed_scale(labels)
    is_general = words_of(target)[-1] in _GENERAL_LABELS
    if scale == BOOLEAN:
        asked = f"Should the {thing} be labelled {_spoken(target)!r}?"
        return f"Is the {thing} good?" if is_general else asked
    has_order = scale is not None and scale.kind != "nominal"
    if is_general and has_order:
        return f"How good is the {thing}?"
    return f"What is the {_spoken(target)} of the {thing}?"


def missing_options(columns: DatasetColumns) -> UsageError:
    """The error without a terminal, with the columns to choose from and a whole command."""
    read = columns.judged()
    label = next(iter(columns.labels(read)), NONE)
    command = [
        "verdict",
        "init",
        columns.data,
        "--columns",
        ",".join(read) or "COLUMN",
        "--target",
        label,
    ]
    return UsageError(
        "--columns must be given, because there is no terminal to prompt on",
        hint=f"the columns are {', '.join(columns.names)}\n    for example: {shlex.join(command)}\n"
        "    or take every proposal: --yes",
    )


def ask_role(
    column: str, names: Mapping[str, Any], default: str | None, *, optional: bool
) -> str | None:
    """Prompt for the column that plays the role of a shipped judge's column; None if no column does."""

    def parse(answer: str) -> str | None:
        if optional and answer.lower() == NONE:
            return None
        if answer not in names:
            raise UsageError(
                f"there is no column {answer!r}", hint=f"the columns are: {', '.join(names)}"
            )
        return answer

    more = " (none: leave its metrics out)" if optional else ""
    return ask(f"The judge uses {column!r}. Which of your columns is it?{more}", parse, default)


def split_words(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of names."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _spoken(column: str) -> str:
    """The column's name in a sentence."""
    return column.rpartition(".")[2].replace("_", " ")


def _shorten(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _MOST_VALUE_CHARS else text[: _MOST_VALUE_CHARS - 1] + "…"
