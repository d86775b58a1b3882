"""The three questions of `verdict init`: what is judged, what is the right answer, and what may the answer be."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TypeVar

import typer
from msgspec import Struct

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
    DatasetColumn,
    DatasetColumns,
    main_column,
    read_columns,
)
from verdict_cli.report.formatting import visible_text

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


class Answers(Struct, frozen=True):
    """What the options say of a first pipeline. What they do not say is asked on a terminal, or proposed."""

    data: DatasetColumns
    columns_option: str | None
    """The columns that the judge reads, separated by commas."""
    target_option: str | None
    """The column with the right answers; `none` for none."""
    scale_option: str | None
    yes: bool
    """Whether every proposal is taken."""

    @property
    def is_asking(self) -> bool:
        """Whether the user is asked."""
        return not self.yes and self.columns_option is None

    def judged(self) -> tuple[DatasetColumn, ...]:
        """The columns that the judge reads. UsageError where nobody can be asked."""
        proposed = self.data.judged()
        names = ",".join(column.name for column in proposed)
        if self.is_asking and not console.is_interactive():
            raise self._missing_columns(proposed)
        if self.is_asking:
            print_message("Columns:")
            for name, column in self.data.by_name.items():
                print_message(f"  {name:20} {_shorten(next(iter(column.present), None))}")

        def parse(answer: str) -> tuple[DatasetColumn, ...]:
            if proposed and answer == names:
                return proposed
            words = [word.strip() for word in answer.split(",") if word.strip()]
            return self.data.check(words, "--columns")

        question = "What is judged? The columns that the judge reads, without the right answers"
        return self._answer(self.columns_option, question, parse, names)

    def target(self, read: Sequence[DatasetColumn]) -> DatasetColumn | None:
        """The column with the right answers; None if there is none."""

        def parse(answer: str) -> DatasetColumn | None:
            if answer.lower() == NONE and answer not in self.data.by_name:
                return None
            return self.data.check_label(answer)

        labels = self.data.labels(read) if self.yes or self.is_asking else []
        proposed = labels[0].name if labels else NONE
        question = "What is the right answer? The column with people's labels, or none"
        return self._answer(self.target_option, question, parse, proposed)

    def scale(self, target: DatasetColumn | None) -> AnswerScale:
        """What the answer may be."""
        if target is None and self.scale_option is None and not self.is_asking:
            return BOOLEAN
        labels = target.values if target is not None else ()
        proposed = proposed_scale(labels) if target is not None else "boolean"
        if target is not None:
            words = label_words(labels)
            more = ", …" if len(words) > MAX_CATEGORIES else ""
            print_message(f"The labels are {', '.join(words[:MAX_CATEGORIES])}{more}.")
        if proposed == "categories" and not self.is_asking and self.scale_option is None:
            print_message(
                "They are read as categories, of which none is better. --scale gives their order, worst first."
            )
        question = "What may the answer be? boolean, 1-5, words from worst to best such as bad,fair,good, or categories"
        return self._answer(
            self.scale_option, question, lambda answer: parse_scale(answer, labels), proposed
        )

    def _answer(
        self, option: str | None, question: str, parse: Callable[[str], T], proposed: str
    ) -> T:
        if option is None and self.is_asking:
            return ask(question, parse, proposed or None)
        return parse(proposed if option is None else option)

    def _missing_columns(self, proposed: Sequence[DatasetColumn]) -> UsageError:
        names = ",".join(column.name for column in proposed) or "COLUMN"
        label = next((column.name for column in self.data.labels(proposed)), NONE)
        command = ["verdict", "init", self.data.data, "--columns", names, "--target", label]
        return UsageError(
            "--columns must be given, because there is no terminal to prompt on",
            hint=f"the columns are {', '.join(self.data.names)}\n    for example: {shlex.join(command)}\n"
            "    or take every proposal: --yes",
        )


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


def default_question(read: Sequence[DatasetColumn], target: DatasetColumn | None) -> str:
    """What a judge of these columns is asked, in a sentence: of the labels where there are some."""
    judged = main_column(read)
    thing = _spoken(judged)
    is_plural = judged.subject.endswith("s") and not judged.subject.endswith(("ss", "us", "is"))
    is_good = f"{'Are' if is_plural else 'Is'} the {thing} good?"
    if target is None:
        return is_good
    scale = proposed_scale(target.values)
    is_general = target.words[-1:] and target.words[-1] in _GENERAL_LABELS
    if scale == "boolean":
        question = f"Should the {thing} be labelled {_spoken(target)!r}?"
        return is_good if is_general else question
    if is_general and scale not in ("", "categories"):
        return f"How good {'are' if is_plural else 'is'} the {thing}?"
    return f"What is the {_spoken(target)} of the {thing}?"


def _spoken(column: DatasetColumn) -> str:
    """The column's name in a sentence."""
    return str(column.path[-1]).replace("_", " ")


def _shorten(value: object) -> str:
    return visible_text(" ".join(str(value).split()), _MOST_VALUE_CHARS)
