"""The columns of a dataset as `verdict init` sees them: their values, their kinds, and what is proposed by names and types.

The names are some forty of English. Where they say nothing, the user is asked; nothing is guessed from other languages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

from msgspec import Struct

from verdict_cli.cli.open_dataset import dataset_files
from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.language.conversation import looks_like_conversation
from verdict_cli.storage.datasets.dataset import Dataset, missing_column
from verdict_cli.storage.datasets.read import stream_rows


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONTEXT_NAMES = _names(
    "context contexts document documents evidence input instruction message passage prompt question source"
)
_REFERENCE_NAMES = _names("expected gold ref reference references test tests")
_ANSWER_NAMES = _names("answer completion output reply response solution story summary")
JUDGED_NAMES = (
    _CONTEXT_NAMES
    | _ANSWER_NAMES
    | _names("chosen claim conversation messages reference rejected text")
)
COMPARISONS = _names("best better choice chosen preference preferred winner")
"""Words of a label that says which of several texts is better: of one text they say nothing."""
LABEL_NAMES = COMPARISONS | _names(
    "correct gold grade harmful hallucination helpful human label overall pass quality rating "
    "relevance reward score stars success target toxic truth verdict"
)
_KEY_NAMES = _names("answer best choice correct gold idx index key label target")
"""Words of a column that names the right option."""
_REMARK_NAMES = _names("comment comments explanation feedback notes rationale reason title")
"""Names of texts about the row or its label: a reason that an annotator gave reveals the label."""
RUBRIC_NAMES = _names("checklist criteria criterion requirements rubric rubrics")
_OPTION_NAMES = _names("candidates choices completions endings options responses")
_CRITERION_KEYS = ("criterion", "criteria", "text", "description", "question", "requirement")
_SIDES = {"a": "b", "0": "1", "1": "2", "first": "second", "left": "right", "chosen": "rejected"}
"""What the names of two compared columns differ in."""
SCORES = "scores"
"""The column of imported logs with the other tool's scores by name."""
_CLOSED = (SCORES, "metadata", "meta", "explanations", "extra")
"""Columns within which nothing is proposed."""
MAX_CATEGORIES = 12
"""More distinct texts than this are no categories."""
_READ = 1_000
_DEPTH = 3
_FEW_WORDS = 4
"""Words of the longest text that may be a label."""
_RUNNING_MARKS = ("0123456789", "123456789", "abcdefgh")
_TEXT_KINDS = ("conversation", "criteria", "texts", "text")

Kind = Literal["conversation", "texts", "criteria", "text", "label", "other", "empty"]
Path = tuple[str | int, ...]
"""A column's name, and the keys within it."""


class Pair(Struct, frozen=True):
    """Two columns of texts that are compared with each other."""

    first: str
    second: str

    def __iter__(self) -> Any:
        return iter((self.first, self.second))


class DatasetColumns(Struct, frozen=True):
    """The first rows of a dataset by column, columns within columns too, such as `conv.id`."""

    data: str
    values: Mapping[str, Sequence[Any]]
    paths: Mapping[str, Path]
    absent: frozenset[str] = frozenset()
    """The columns of the file that some of its rows do not have."""

    @property
    def names(self) -> list[str]:
        """The columns of the file itself."""
        return [name for name, path in self.paths.items() if len(path) == 1]

    def kind(self, name: str) -> Kind:
        """What the column's values are."""
        return kind_of_values(self.values[name])

    def declared_type(self, name: str) -> str | None:
        """The type that a pipeline must declare for the column; None for a text or a number."""
        declared = {"conversation": "conversation", "texts": "list[str]"}.get(self.kind(name))
        has_nulls = any(value is None for value in self.values[name])
        return f"{declared}?" if declared and has_nulls else declared

    def judged(self) -> list[str]:
        """The columns that a judge is proposed to read."""
        readable = [name for name in self.values if self._is_readable(name)]
        proposed = [name for name in readable if self._is_named_or_prose(name)] or readable
        read = [name for name in proposed if not any(_is_inside(name, other) for other in proposed)]
        if not read:
            others = [name for name in self.names if name != self.identifier()]
            read = [name for name in others if nameable(name)][:1]
        # A prompt needs every column that it names in every row.
        return [name for name in read if name not in self.absent or name == judged_column(read)]

    def _is_readable(self, name: str) -> bool:
        if self.paths[name][0] in _CLOSED or not nameable(name) or looks_like_label(name):
            return False
        kind = self.kind(name)
        if kind == "label":
            return judged_name(name)
        return kind in _TEXT_KINDS and not _are_links(self.values[name])

    def _is_named_or_prose(self, name: str) -> bool:
        kind = self.kind(name)
        if kind == "conversation" or judged_name(name) or _last_word(name) in RUBRIC_NAMES:
            return True
        is_remark = _last_word(name) in _REMARK_NAMES
        return kind == "text" and not is_remark and _is_prose(self.values[name])

    def labels(self, read: Sequence[str]) -> list[str]:
        """The columns that are proposed as the right answer of a judge that reads these, the best first."""
        options = self.options()
        is_compared = bool(options) or self.pair(read) is not None
        # The key of a multiple choice may be called `answer`, as a text that is judged is.
        texts = [name for name in read if not (options and self.kind(name) == "label")]
        taken = {path[0] for path in options} | {self.paths[name][0] for name in texts}
        candidates = []
        for name in self.values:
            if self.kind(name) != "label" or self.paths[name][0] in (*_CLOSED, *taken):
                continue
            words = set(words_of(name.rpartition(".")[2]))
            is_named = bool(words & _KEY_NAMES) if options else looks_like_label(name)
            if is_named and self._varies(name) and (is_compared or not words & COMPARISONS):
                candidates.append(name)
        first = {"label", "gold", "human", "winner"}
        return sorted(candidates, key=lambda name: first.isdisjoint(words_of(name)))

    def _varies(self, name: str) -> bool:
        seen = without_blanks(self.values[name])
        return len(seen) <= 3 or len(set(map(str, seen))) > 1

    def identifier(self) -> str | None:
        """The column that names each row: `id` or the like, another text or number in each."""
        for name in sorted(self.values, key=lambda name: len(self.paths[name])):
            values = self.values[name]
            keyed = _last_word(name) in ("id", "key", "uid", "uuid") and nameable(name)
            is_unique = len({str(value) for value in values}) == len(values)
            if keyed and is_unique and all(type(value) in (str, int) for value in values):
                return name
        return None

    def pair(self, read: Sequence[str]) -> Pair | None:
        """Of these columns the two texts whose names differ in nothing but A and B, 1 and 2, chosen and rejected."""
        texts = [name for name in read if self.kind(name) in ("text", "conversation", "label")]
        apart = _CONTEXT_NAMES | _REFERENCE_NAMES | (LABEL_NAMES - COMPARISONS)
        pairs = [pair for pair in siblings(texts) if apart.isdisjoint(words_of(pair.first))]
        return next(iter(pairs), None)

    def options(self) -> tuple[Path, ...]:
        """The options of a multiple choice: three or more columns that differ in a running number or letter, or the
        entries of a list with the same length in each row."""
        return self._numbered_columns() or self._listed_options()

    def _numbered_columns(self) -> tuple[Path, ...]:
        groups: dict[str, dict[str, str]] = {}
        for name in self.names:
            match = re.fullmatch(r"(.*?)[ _.-]?(\d|[A-Ha-h])", name)
            is_text = all(isinstance(value, str) for value in without_blanks(self.values[name]))
            if match and is_text and nameable(name):
                groups.setdefault(match[1], {})[match[2].lower()] = name
        for columns in groups.values():
            marks = "".join(sorted(columns))
            if len(marks) > 2 and any(run.startswith(marks) for run in _RUNNING_MARKS):
                return tuple((columns[mark],) for mark in marks)
        return ()

    def _listed_options(self) -> tuple[Path, ...]:
        for name, lists in self.values.items():
            is_named = not _OPTION_NAMES.isdisjoint(words_of(name))
            if is_named and self.kind(name) == "texts" and None not in lists:
                lengths = set(map(len, lists))
                count = lengths.pop()
                if not lengths and count > 2:
                    return tuple((*self.paths[name], index) for index in range(count))
        return ()

    def rubric(self, read: Sequence[str]) -> str | None:
        """Of these columns the one with a list of criteria for each row."""
        for name in read:
            has_criteria = self.kind(name) in ("criteria", "texts") and all(self.values[name])
            if has_criteria and _last_word(name) in RUBRIC_NAMES:
                return name
        return None

    def check(self, names: Sequence[str], flag: str) -> tuple[str, ...]:
        """The columns. UsageError for none, for one that is missing, and for one that no placeholder can name."""
        if not names:
            raise UsageError(
                f"{flag}: name at least one column",
                hint=f"the columns are: {', '.join(self.values)}",
            )
        for name in names:
            if name not in self.values:
                problem = missing_column(name, self.values)
                raise UsageError(f"{flag}: {self.data}: {problem.message}", hint=problem.hint)
            if not nameable(name):
                hint = "rename the column: letters, digits and _"
                raise UsageError(f"a placeholder cannot refer to the column {name!r}", hint=hint)
        return tuple(dict.fromkeys(names))

    def check_label(self, name: str, read: Sequence[str]) -> str:
        """The column with the right answers. UsageError for one that cannot have them, or that the judge reads."""
        self.check([name], "--target")
        seen = without_blanks(self.values[name])
        if not seen:
            raise UsageError(
                f"the column {name!r} is empty", hint="name the column with the right answers"
            )
        if not are_simple(seen):
            fields = [
                inner
                for inner in self.values
                if inner.startswith(f"{name}.") and self.kind(inner) == "label"
            ]
            hint = (
                f"name one of its fields: {', '.join(fields[:6])}"
                if fields
                else "name a column of labels"
            )
            what = "fields" if fields else "lists or mappings"
            raise UsageError(f"{name!r} has {what}, a label is one word or number", hint=hint)
        if any(
            _is_inside(name, column) or _is_inside(column, name) or name == column
            for column in read
        ):
            raise UsageError(
                f"{name!r} is both the label and a column that the judge reads",
                hint="a judge that sees the label repeats it: remove it from --columns",
            )
        return name


def read_columns(data: str) -> DatasetColumns:
    """The columns of the first rows. DataError if there are none, or if they cannot be read."""
    rows = [row.source for row in islice(stream_rows(Dataset(dataset_files(data))), _READ)]
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:
        raise DataError(Problem("empty-dataset", "the dataset holds no rows", "", data))
    top = {name: _parsed_lists([row.get(name) for row in rows]) for name in names}
    inner = dict(_inner_columns(top))
    paths: dict[str, Path] = {name: (name,) for name in top}
    paths |= {name: path for name, (path, _) in inner.items() if name not in top}
    values = {name: top[name] if name in top else inner[name][1] for name in paths}
    absent = frozenset(name for name in names if not all(name in row for row in rows))
    return DatasetColumns(data, values, paths, absent)


def _parsed_lists(values: Sequence[Any]) -> Sequence[Any]:
    """The values; the lists where each cell of CSV or Excel has one in JSON."""
    if not all(
        value is None or (isinstance(value, str) and value[:1] in ("[", "")) for value in values
    ):
        return values
    try:
        lists = [json.loads(value) if value else None for value in values]
    except ValueError:
        return values
    return lists if any(isinstance(value, list) for value in lists) else values


def _inner_columns(
    top: Mapping[str, Sequence[Any]],
) -> Iterable[tuple[str, tuple[Path, Sequence[Any]]]]:
    """The columns within mappings, by names such as `conv.id`, with their paths and values."""
    todo: list[tuple[Path, Sequence[Any]]] = [((name,), values) for name, values in top.items()]
    while todo:
        path, values = todo.pop(0)
        if len(path) > 1:
            yield ".".join(map(str, path)), (path, values)
        seen = [value for value in values if value is not None]
        if len(path) <= _DEPTH and seen and all(isinstance(value, Mapping) for value in seen):
            keys = dict.fromkeys(key for value in seen for key in value if isinstance(key, str))
            todo = [
                ((*path, key), [(value or {}).get(key) for value in values]) for key in keys
            ] + todo


def kind_of_values(values: Sequence[Any]) -> Kind:
    """What the values are; ``label`` for numbers, truths and a few short texts that repeat."""
    seen = without_blanks(values)
    if not seen:
        return "empty"
    if all(map(looks_like_conversation, seen)):
        return "conversation"
    if all(isinstance(value, list) for value in seen):
        entries = [entry for value in seen for entry in value]
        if all(isinstance(entry, str) for entry in entries):
            return "texts"
        return "criteria" if criterion_key(values) else "other"
    if not are_simple(seen):
        return "other"
    distinct = {str(value) for value in seen}
    is_short = all(_count_words(text) <= _FEW_WORDS for text in distinct)
    is_repeated = len(distinct) <= MAX_CATEGORIES and (
        2 * len(distinct) <= len(seen) or len(seen) <= MAX_CATEGORIES
    )
    numbers = not any(isinstance(value, str) for value in seen) or all(map(numeric, seen))
    return "label" if numbers or (is_short and is_repeated) else "text"


def _is_prose(values: Sequence[Any]) -> bool:
    seen = without_blanks(values)
    return sum(map(_count_words, seen)) > _FEW_WORDS * len(seen)


def _count_words(text: Any) -> int:
    """About how many words a text has, in scripts without spaces too."""
    dense = sum(letter > "\u2e80" for letter in str(text))
    return len(str(text).split()) + dense // 3


def criterion_key(values: Sequence[Any]) -> str | None:
    """The key with the text of each criterion, where every row has a list of mappings with one; else None."""
    entries = [entry for value in values if isinstance(value, list) for entry in value]
    if not entries or not all(
        isinstance(entry, Mapping) and "role" not in entry for entry in entries
    ):
        return None
    keys = (
        key for key in _CRITERION_KEYS if all(isinstance(entry.get(key), str) for entry in entries)
    )
    return next(keys, None)


def points_key(values: Sequence[Any]) -> str | None:
    """The key with the points of each criterion, where every row has some to earn; else None."""
    entries = [entry for value in values for entry in value if isinstance(entry, Mapping)]
    for key in ("points", "weight"):
        if entries and all(
            numeric(entry.get(key)) and not isinstance(entry[key], str) for entry in entries
        ):
            can_earn = all(any(entry[key] > 0 for entry in value) for value in values if value)
            return key if can_earn else None
    return None


def are_simple(values: Iterable[Any]) -> bool:
    """Whether all values are words, numbers or truths."""
    return all(isinstance(value, str | int | float) for value in values)


def without_blanks(values: Iterable[Any]) -> list[Any]:
    """The values without nulls and blank texts."""
    return [
        value
        for value in values
        if value is not None and not (isinstance(value, str) and not value.strip())
    ]


def numeric(value: Any) -> bool:
    """Whether a value is a number, or a text that is one."""
    if isinstance(value, bool):
        return False
    return (
        isinstance(value, int | float)
        or re.fullmatch(r"\s*-?\d+(\.\d+)?\s*", str(value)) is not None
    )


def words_of(name: str) -> list[str]:
    """The words and numbers of a column's name in small letters: `model`, `response`, `2` of `modelResponse_2`."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word.lower() for word in re.findall(r"[^\W\d_]+|\d+", spaced)]


def _last_word(name: str) -> str:
    """The last word of a name that is no side and no number: `response` of `response_a`."""
    words = [
        word for word in words_of(name.rpartition(".")[2]) if len(word) > 1 and not word.isdigit()
    ]
    return words[-1] if words else ""


def judged_name(name: str) -> bool:
    """Whether the name is one of what a judge reads."""
    return _last_word(name) in JUDGED_NAMES


def looks_like_label(name: str) -> bool:
    """Whether the name is one of people's labels: `human_label`, `is_correct`, `rating`."""
    words = words_of(name.rpartition(".")[2])
    last = _last_word(name)
    if last in JUDGED_NAMES or not words:
        return False
    has_verb = words[0] in ("is", "was", "has") and len(words) > 1
    return has_verb or last in LABEL_NAMES or "human" in words


def judged_column(read: Sequence[str]) -> str:
    """Of the columns that a judge reads the one that is judged, rather than what it answers or follows from."""
    texts = [name for name in read if _REFERENCE_NAMES.isdisjoint(words_of(name))]
    answers = [name for name in texts if _last_word(name) in _ANSWER_NAMES]
    others = [name for name in texts if _CONTEXT_NAMES.isdisjoint(words_of(name))]
    return (answers or others or list(read))[-1]


def siblings(names: Sequence[str]) -> list[Pair]:
    """The pairs of names that differ in nothing but A and B, 1 and 2, first and second."""
    by_words = {tuple(words_of(name)): name for name in names}
    pairs = []
    for words, name in by_words.items():
        for index, word in enumerate(words):
            other = (*words[:index], _SIDES.get(word, ""), *words[index + 1 :])
            if other in by_words:
                pairs.append(Pair(name, by_words[other]))
    return pairs


def nameable(column: str) -> bool:
    """Whether a placeholder can name the column."""
    return (
        column.isprintable() and not re.search(r"[{}\n]", column) and not {"'", '"'} <= set(column)
    )


def _is_inside(name: str, column: str) -> bool:
    return name.startswith(f"{column}.")


def _are_links(values: Sequence[Any]) -> bool:
    return all(
        isinstance(value, str) and re.match(r"(https?|file|s3|data):", value)
        for value in without_blanks(values)
    )
