"""The columns of a dataset as `verdict init` sees them, and the checks of what the user says about them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct

from verdict_cli.cli.open_dataset import dataset_files
from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.features.wizard.column_words import CONTENT, JUDGED_BY, OPTION_NOUNS, RUBRICS
from verdict_cli.features.wizard.scaffold import Rubric, nameable
from verdict_cli.features.wizard.scaffold_columns import (
    ColumnPath,
    any_text,
    choice_columns,
    column_type,
    entry_key,
    head_noun,
    identifier,
    is_answer,
    judged_column,
    label_likeness,
    list_entries,
    name_words,
    nested_columns,
    option_key,
    option_labels,
    rubric_column,
    suggested_columns,
)
from verdict_cli.features.wizard.scaffold_labels import (
    MAX_CATEGORIES,
    LabelScale,
    given_labels,
    label_words,
    parse_scale,
    proposed_scale,
)
from verdict_cli.features.wizard.scaffold_pairs import (
    Pair,
    compared_pair,
    is_of_one_side,
    named_pair,
    pair_labels,
    side_labels,
)
from verdict_cli.storage.datasets.dataset import Dataset, missing_column
from verdict_cli.storage.datasets.read import stream_rows

_READ = 1_000
_NOT_READ = ("metadata", "meta", "scores", "explanations", "extra")
"""Columns of imported logs, and the like, within which no column is proposed."""
_MOST_FIELDS = 6


class SampledColumns(Struct, frozen=True):
    """The first rows of a dataset by column. ``own`` has the columns of the file, ``all`` also those within them, whose
    ``paths`` are known."""

    data: str
    own: Mapping[str, Sequence[Any]]
    all: Mapping[str, Sequence[Any]]
    paths: Mapping[str, ColumnPath]
    absent: frozenset[str] = frozenset()
    """The columns of the file that some of its rows do not have."""

    def types(self, columns: Sequence[str]) -> dict[str, str]:
        """The types of these columns that are more than a text or a number."""
        return {name: kind for name in columns if (kind := column_type(self.all[name]))}

    def options(self) -> tuple[str, ...]:
        """The options of a multiple choice: columns, or else entries of a list."""
        read = {
            name: values for name, values in self.all.items() if name.split(".")[0] not in _NOT_READ and nameable(name)
        }
        return choice_columns(read) or (*self.entries,)

    def incomplete(self, columns: Sequence[str]) -> list[str]:
        """Those of these columns of the file that are empty in some rows, but not in all."""
        return [
            name for name in columns if name in self.own and 0 < list(self.own[name]).count(None) < len(self.own[name])
        ]

    @property
    def entries(self) -> dict[str, tuple[str, int]]:
        """The options that are entries of a list, with its column and their places."""
        return list_entries({name: values for name, values in self.all.items() if name.split(".")[0] not in _NOT_READ})

    @property
    def entry_paths(self) -> dict[str, ColumnPath]:
        """The paths of the options that are entries of a list."""
        return {option: (*self.paths.get(name, (name,)), index) for option, (name, index) in self.entries.items()}

    def suggested(self) -> list[str]:
        """The columns that a judge probably reads; within columns those that are named like it, and others only where there are
        none."""
        inside = {name: values for name, values in self.all.items() if name.split(".")[0] not in _NOT_READ}
        named = {
            name: values for name, values in inside.items() if name in self.own or head_noun(name) in CONTENT - RUBRICS
        }
        options = self.options()
        key = option_key(self.own, options)
        if key is not None:  # beside it, an answer would say which option is right
            beside = {
                name: values
                for name, values in named.items()
                if name != key and (not is_answer(name) or name in options)
            }
            return suggested_columns(beside)
        return suggested_columns(named) or suggested_columns(inside)

    def default_columns(self) -> list[str]:
        """The suggested columns; where none is, whatever may be judged, so that there is always a default."""
        codes = identifier(self.all)
        others = {name: values for name, values in self.all.items() if name != codes}
        often = [name for name in self.suggested() if 2 * list(self.all[name]).count(None) <= len(self.all[name])]
        read = often or self.suggested()
        judged = judged_column(read) if read else ""  # a prompt needs every column that it names in every row
        everywhere = [name for name in read if name not in self.absent or name == judged]
        return [name for name in everywhere or any_text(others or self.all) if nameable(name)]

    def labels(self, columns: Sequence[str]) -> list[str]:
        """The columns that may have the human labels, the most probable first."""
        likely = {
            name: label_likeness(name, values)
            for name, values in self.all.items()
            if name.split(".")[0] not in _NOT_READ and not any(is_within(name, column) for column in columns)
        }

        def rank(name: str) -> tuple[int, bool]:
            return -likely[name], not JUDGED_BY.isdisjoint(name_words(name))

        return sorted((name for name in likely if likely[name]), key=rank)

    def label(self, columns: Sequence[str]) -> str | None:
        """The most probable column of human labels that a judge of these columns can be compared with."""
        key = option_key(self.own, self.options())
        pair = compared_pair({name: self.all[name] for name in columns})
        labels = [key] if key is not None else self.labels(columns)
        if pair is not None and key is None:
            labels = self._labels_of_pair(pair, labels)
        for name in labels:
            try:
                self.check_target(name, columns)
                pair = self.pair(columns, name)
            except UsageError:
                continue
            if pair or self.choices(name) or self.default_scale(name) is not None:
                return name
        return None

    def _labels_of_pair(self, pair: Pair, labels: Sequence[str]) -> list[str]:
        """The labels, those first that say which text of the pair is better, and without those of one text alone."""
        labels = [name for name in labels if not is_of_one_side(name, self.all)]
        better = [name for name in labels if pair_labels(pair, self.all[name], name) is not None]
        sides = side_labels({**self.own, **self._inside()}, pair)
        others = [name for name in labels if name not in better]
        return [*better, *([sides[0]] if sides else []), *others]

    def _inside(self) -> dict[str, Sequence[Any]]:
        return {name: self.all[name] for name in self.paths if name.split(".")[0] not in _NOT_READ}

    def sides(self, columns: Sequence[str], target: str | None) -> Pair | None:
        """The columns with a number of each text of a pair, if the labels are one of them."""
        pair = compared_pair({name: self.all[name] for name in columns})
        sides = side_labels({**self.own, **self._inside()}, pair) if pair is not None and target is not None else None
        return sides if sides is not None and target in sides else None

    def choices(self, target: str | None) -> tuple[str, ...]:
        """The options of a multiple choice, if the labels name one of them, or if without labels they are answers; else none."""
        options = self.options()
        if target is None:
            return options if options and self.are_answers(options) else ()
        return options if option_labels(options, self.all[target]) is not None else ()

    def are_answers(self, options: Sequence[str]) -> bool:
        """Whether the options are answers to one request, of which one is best, rather than those of a question."""
        name = self.entries[options[0]][0] if options[0] in self.entries else options[0]
        head = head_noun(name)
        return (is_answer(name) or head in OPTION_NOUNS) and head not in (
            "alternatives",
            "answers",
            "choices",
            "endings",
            "option",
            "options",
        )

    def default_scale(self, target: str | None) -> LabelScale | None:
        """The proposed scale, else the labels as categories; None where the labels have no scale at all."""
        proposed = self.proposed_scale(target)
        if proposed is not None or target is None:
            return proposed
        categories = parse_scale("categories", self.all[target])
        return categories if isinstance(categories, LabelScale) else None

    def pair(self, columns: Sequence[str], target: str | None) -> tuple[str, str] | None:
        """The two columns that are compared with each other, if these columns and labels are those of pairs."""
        if self.choices(target):
            return None
        texts = {name: self.all[name] for name in columns}
        pair = compared_pair(texts) or (named_pair(texts, self.all[target]) if target is not None else None)
        if pair is None or target is None or pair_labels(pair, self.all[target], target) or self.sides(columns, target):
            return pair
        if re.search("win|prefer|better|best|choice|chosen", target, re.IGNORECASE):
            words = label_words(self.all[target])
            raise UsageError(
                f"the labels of {target!r} ({', '.join(words[:5])}) do not say which text of {pair[0]} and {pair[1]} is better",
                hint=f"write A, B and tie, or the columns' names {pair[0]} and {pair[1]}",
            )
        return None

    def rubric(self, columns: Sequence[str]) -> Rubric | None:
        """The criteria of each row, if one of these columns has them."""
        column = rubric_column({name: self.all[name] for name in columns})
        if column is None:
            return None
        entries = [entry for value in self.all[column] for entry in value if isinstance(entry, Mapping)]

        def key(names: Sequence[str], kinds: type | tuple[type, ...], *, is_bool: bool) -> str | None:
            return next(
                (
                    name
                    for name in names
                    if entries
                    and all(
                        isinstance(entry.get(name), kinds) and isinstance(entry[name], bool) == is_bool
                        for entry in entries
                    )
                ),
                None,
            )

        points = key(("points", "weight", "score"), (int, float), is_bool=False)
        positive = all(
            any(entry[points] > 0 for entry in value) for value in self.all[column] if points and value
        )  # without positive points a row has no score
        return Rubric(
            column,
            entry_key(self.all[column]),
            points if positive else None,
            key(("met", "label", "fulfilled", "satisfied"), bool, is_bool=True),
        )

    def check_columns(self, names: Sequence[str], flag: str) -> tuple[str, ...]:
        """The columns. UsageError for none, for a name that no column has, and for one that no placeholder can name."""
        if not names:
            raise UsageError(f"{flag}: name at least one column", hint=f"the columns are: {', '.join(self.all)}")
        for name in names:
            if name not in self.all:
                problem = missing_column(name, self.all)
                raise UsageError(f"{flag}: {self.data}: {problem.message}", hint=problem.hint)
            if not nameable(name):
                raise UsageError(
                    f"a placeholder cannot refer to the column {name!r}",
                    hint="rename the column: letters, digits and _",
                )
        return tuple(dict.fromkeys(names))

    def check_target(self, name: str, columns: Sequence[str]) -> str:
        """The column with labels. UsageError for a column that cannot be one, or that the judge reads."""
        self.check_columns([name], "--target")
        seen = given_labels(self.all[name])
        if not seen:
            raise UsageError(f"the column {name!r} is empty", hint="name the column with the human labels")
        if not all(isinstance(value, str | int | float) for value in seen):
            fields = [
                inner
                for inner in self.all
                if inner.startswith(f"{name}.")
                and (values := given_labels(self.all[inner]))
                and all(isinstance(value, str | int | float) for value in values)
            ]
            raise UsageError(
                f"{name!r} has {'fields' if fields else 'lists or mappings'}, a label is one word or number",
                hint=f"name one of its fields: {', '.join(fields[:_MOST_FIELDS])}"
                if fields
                else "name a column of labels",
            )
        if any(is_within(name, column) for column in columns):
            raise UsageError(
                f"{name!r} is both the label and a column that the judge reads",
                hint="a judge that sees the label repeats it: remove it from --columns",
            )
        return name

    def check_scale(self, text: str, target: str | None) -> LabelScale:
        """The scale that the user wrote. UsageError for none, and for one that does not have the labels."""
        labels = self.all[target] if target else []
        parsed = parse_scale(text, labels)
        if isinstance(parsed, LabelScale):
            return parsed
        words = label_words(labels)
        if not words or len(words) > MAX_CATEGORIES or parsed.endswith("is not a scale"):
            hint = "give boolean, 1-5, or words from worst to best: bad,fair,good"
        else:
            proposed = proposed_scale(labels)
            known = proposed.option() if proposed and proposed.kind != "nominal" else "categories"
            known = f"other,{words[0]}" if len(words) == 1 else known
            hint = f"--scale '{known}' has them"
        raise UsageError(parsed, hint=hint)

    def proposed_scale(self, target: str | None) -> LabelScale | None:
        """The scale of the target's labels; None where the user must say what it is."""
        return LabelScale("boolean") if target is None else proposed_scale(self.all[target])

    def unknown_scale(self, target: str) -> UsageError:
        """The error for labels whose scale must be given."""
        words = label_words(self.all[target])
        if len(words) > MAX_CATEGORIES:
            return UsageError(
                f"{target!r} has {len(words)} different labels, more than a scale of words has ({MAX_CATEGORIES})",
                hint="name another column, give the range of numbers such as --scale 0-100, or leave --target out",
            )
        if len(words) == 1:
            return UsageError(
                f"all labels of {target!r} are {words[0]!r}, so the scale is not known",
                hint=f"give its words from worst to best: --scale 'other,{words[0]}'",
            )
        return UsageError(
            f"the order of the labels of {target!r} is not known: {', '.join(words)}",
            hint=f"give them from worst to best: --scale '{','.join(words)}' if that is their order; "
            "or --scale categories if none is better than another",
        )


def is_within(name: str, column: str) -> bool:
    """Whether one of the two columns is the other or a part of it."""
    return f"{name}.".startswith(f"{column}.") or f"{column}.".startswith(f"{name}.")


def sampled_columns(data: str) -> SampledColumns:
    """Read the first rows. DataError if there are none, or if they cannot be read."""
    rows = [row.source for row in islice(stream_rows(Dataset(dataset_files(data))), _READ)]
    names = dict.fromkeys(name for row in rows for name in row)
    samples = {name: [row.get(name) for row in rows] for name in names}
    if not samples:
        raise DataError(Problem("empty-dataset", "the dataset holds no rows", "", data))
    own = {name: _lists_in_cells(values) for name, values in samples.items()}
    inside = nested_columns(own)
    every = {**own, **{name: values for name, (_, values) in inside.items()}}
    absent = frozenset(name for name in names if not all(name in row for row in rows))
    return SampledColumns(data, own, every, {name: path for name, (path, _) in inside.items()}, absent)


def _lists_in_cells(values: Sequence[Any]) -> Sequence[Any]:
    """The values; the lists where each cell of CSV or Excel has one in JSON."""
    if not all(value is None or (isinstance(value, str) and value[:1] in ("[", "")) for value in values):
        return values
    try:
        lists = [json.loads(value) if value else None for value in values]
    except ValueError:
        return values
    return lists if any(isinstance(value, list) for value in lists) else values
