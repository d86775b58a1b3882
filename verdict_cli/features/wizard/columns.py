"""The columns of a dataset as `verdict init` sees them, and what is proposed by their types and some forty English names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, takewhile
from typing import Any, Literal

from msgspec import Struct

from verdict_cli.cli.open_dataset import dataset_files
from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.language.conversation import looks_like_conversation
from verdict_cli.storage.datasets.dataset import Dataset, missing_column
from verdict_cli.storage.datasets.read import stream_rows


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONTEXTS = _names(
    "context contexts document documents evidence input instruction message passage prompt question source"
)
_REFERENCES = _names("expected gold ref reference references test tests")
_ANSWERS = _names("answer completion output reply response solution story summary")
_JUDGED = (
    _CONTEXTS
    | _ANSWERS
    | _names("checklist chosen claim conversation messages reference rejected rubric text turns")
)
_COMPARISONS = _names("best better choice chosen preference preferred winner")
"""Words of a label that says which of several texts is better: of one text they say nothing."""
_LABELS = _COMPARISONS | _names(
    "correct gold grade harmful hallucination helpful human label overall pass quality rating "
    "relevance reward score stars success target toxic truth verdict"
)
_KEYS = _names("answer best choice correct gold idx index key label target")
"""Words of a column that names the right one of several texts."""
_REMARKS = _names("comment comments explanation feedback notes rationale reason title")
"""Names of texts about the row or its label: a reason that an annotator gave reveals the label."""
_OPTIONS = _names("candidates choices completions endings options responses")
_MARKS = ("0 1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8 9", "a b c d e f g h", "first second", "left right", "chosen rejected")  # fmt: skip
"""What the names of columns that are compared with each other differ in."""
_CLOSED = ("scores", "metadata", "meta", "explanations", "extra")
"""Columns within which nothing is proposed."""
MAX_CATEGORIES = 12
"""More distinct texts than this are no categories."""
_READ = 1_000
_DEPTH = 3
_FEW_WORDS = 4
"""Words of the longest text that may be a label."""

Kind = Literal["conversation", "texts", "text", "label", "other", "empty"]
Path = tuple[str | int, ...]
"""A column's name, and the keys and places within it."""


class DatasetColumn(Struct, frozen=True, dict=True):
    """A column of the first rows, or a field within one, such as `conv.id`."""

    path: Path
    values: Sequence[Any]
    is_optional: bool = False
    """Whether some rows of the file do not have it."""

    @cached_property
    def name(self) -> str:
        """The column's name, with those of the fields that lead to it."""
        return ".".join(map(str, self.path))

    @cached_property
    def present(self) -> list[Any]:
        """The values without nulls and blank texts."""
        return without_blanks(self.values)

    @cached_property
    def words(self) -> list[str]:
        """The words of its own name, without those of the fields that lead to it."""
        return words_of(str(self.path[-1]))

    @cached_property
    def subject(self) -> str:
        """The last word of its name that is no side and no number: `response` of `response_a`."""
        words = [word for word in self.words if len(word) > 1 and not word.isdigit()]
        return words[-1] if words else ""

    @cached_property
    def kind(self) -> Kind:
        """What the values are; ``label`` for numbers, truths and a few short texts that repeat."""
        present_values = self.present
        if not present_values:
            return "empty"
        if all(map(looks_like_conversation, present_values)):
            return "conversation"
        if all(isinstance(value, list) for value in present_values):
            entries = [entry for value in present_values for entry in value]
            return "texts" if all(isinstance(entry, str) for entry in entries) else "other"
        if not self.is_simple:
            return "other"
        if all(numeric(value) or not isinstance(value, str) for value in present_values):
            return "label"
        distinct = {str(value) for value in present_values}
        is_short = all(_count_words(text) <= _FEW_WORDS for text in distinct)
        is_repeated = (
            2 * len(distinct) <= len(present_values) or len(present_values) <= MAX_CATEGORIES
        )
        is_label = is_short and is_repeated and len(distinct) <= MAX_CATEGORIES
        return "label" if is_label else "text"

    @property
    def is_simple(self) -> bool:
        """Whether all values are words, numbers or truths."""
        return all(isinstance(value, str | int | float) for value in self.present)

    @property
    def is_text(self) -> bool:
        """Whether it is a column of texts of the file itself."""
        return len(self.path) == 1 and all(isinstance(value, str) for value in self.present)

    @property
    def is_label_name(self) -> bool:
        """Whether the name is one of people's labels: `human_label`, `is_correct`, `rating`."""
        if self.subject in _JUDGED or not self.words:
            return False
        has_verb = self.words[0] in ("is", "was", "has") and len(self.words) > 1
        return has_verb or self.subject in _LABELS or "human" in self.words

    @property
    def is_readable(self) -> bool:
        """Whether a judge is proposed to read it: a conversation, texts, or what its name says is judged."""
        if self.is_label_name:
            return False
        if self.kind in ("label", "texts"):
            return self.subject in _JUDGED
        is_prose = self.kind == "text" and self.subject not in _REMARKS and not self._has_links
        return is_prose or self.kind == "conversation"

    @property
    def _has_links(self) -> bool:
        links = re.compile(r"(https?|file|s3|data):")
        return all(isinstance(value, str) and links.match(value) for value in self.present)

    @property
    def varies(self) -> bool:
        """Whether its labels differ, as far as a few of them can say."""
        return len(self.present) <= 3 or len(set(map(str, self.present))) > 1

    @property
    def declared_type(self) -> str | None:
        """The type that a pipeline must declare for the column; None for a text or a number."""
        declared = {"conversation": "conversation", "texts": "list[str]"}.get(self.kind)
        if declared is None or len(self.path) > 1:
            return None
        return f"{declared}?" if None in self.values else declared

    def holds(self, other: DatasetColumn) -> bool:
        """Whether the other column is this one, or a field within it."""
        return other.path[: len(self.path)] == self.path


class DatasetColumns(Struct, frozen=True):
    """The columns of a dataset, and the fields within them, by name."""

    data: str
    by_name: Mapping[str, DatasetColumn]

    @property
    def names(self) -> list[str]:
        """The columns of the file itself."""
        return [name for name, column in self.by_name.items() if len(column.path) == 1]

    @property
    def proposable(self) -> list[DatasetColumn]:
        """The columns that may be proposed for anything."""
        columns = self.by_name.values()
        return [each for each in columns if each.path[0] not in _CLOSED and nameable(each.name)]

    def judged(self) -> tuple[DatasetColumn, ...]:
        """The columns that a judge is proposed to read."""
        read = [column for column in self.proposable if column.is_readable]
        if not read:
            columns = [column for column in self.by_name.values() if nameable(column.name)]
            identifier = self.identifier()
            read = sorted(columns, key=lambda column: column.name == identifier)[:1]
        # A prompt needs every column that it names in every row.
        return tuple(
            column for column in read if not column.is_optional or column is main_column(read)
        )

    def labels(self, read: Sequence[DatasetColumn]) -> list[DatasetColumn]:
        """The columns that are proposed as the right answer of a judge that reads these, the best first."""
        is_compared = bool(self.compared(read))
        candidates = []
        for column in self.proposable:
            words = set(column.words)
            # The key of a multiple choice may be called `answer`, as a text that is judged is.
            is_key = is_compared and bool(words & _KEYS)
            is_label = column.is_label_name and (is_compared or not words & _COMPARISONS)
            if (
                column.kind == "label"
                and column.varies
                and (is_key or (is_label and column not in read))
            ):
                candidates.append(column)
        first = {"label", "gold", "human", "winner"}
        return sorted(candidates, key=lambda column: first.isdisjoint(column.words))

    def identifier(self) -> str | None:
        """The column that names each row: `id` or the like, another text or number in each."""
        for column in sorted(self.proposable, key=lambda column: len(column.path)):
            is_named = column.subject in ("id", "key", "uid", "uuid")
            is_simple = all(type(value) in (str, int) for value in column.values)
            if is_named and is_simple and len(set(map(str, column.values))) == len(column.values):
                return column.name
        return None

    def compared(self, read: Sequence[DatasetColumn]) -> tuple[Path, ...]:
        """The texts of which one is the best: columns whose names differ in nothing but A and B, 1 and 2, chosen and
        rejected, or the entries of a list with the same length in each row. Two columns count only where the judge reads
        them."""
        groups: dict[tuple[Any, ...], dict[str, DatasetColumn]] = {}
        apart = _CONTEXTS | _REFERENCES | (_LABELS - _COMPARISONS)
        for column in self.proposable:
            if not apart.isdisjoint(column.words):
                continue
            for place, word in enumerate(column.words):
                gapped_words = (*column.words[:place], None, *column.words[place + 1 :])
                groups.setdefault((column.path[:-1], gapped_words), {})[word] = column
        for group in groups.values():
            columns = _in_a_row(group)
            is_read = len(columns) == 2 and all(column in read for column in columns)
            are_options = len(columns) > 2 and all(column.is_text for column in columns)
            if is_read or are_options:
                return tuple(column.path for column in columns)
        return self._listed_options()

    def _listed_options(self) -> tuple[Path, ...]:
        for column in self.by_name.values():
            is_named = not _OPTIONS.isdisjoint(column.name.split("."))
            if is_named and column.kind == "texts" and None not in column.values:
                lengths = {len(value) for value in column.values}
                if len(lengths) == 1 and max(lengths) > 2:
                    return tuple((*column.path, place) for place in range(max(lengths)))
        return ()

    def check(self, names: Sequence[str], flag: str) -> tuple[DatasetColumn, ...]:
        """The columns. UsageError for none, for one that is missing, and for one that no placeholder can name."""
        if not names:
            hint = f"the columns are: {', '.join(self.by_name)}"
            raise UsageError(f"{flag}: name at least one column", hint=hint)
        for name in names:
            if name not in self.by_name:
                problem = missing_column(name, self.by_name)
                raise UsageError(f"{flag}: {self.data}: {problem.message}", hint=problem.hint)
            if not nameable(name):
                hint = "rename the column: letters, digits and _"
                raise UsageError(f"a placeholder cannot refer to the column {name!r}", hint=hint)
        return tuple(self.by_name[name] for name in dict.fromkeys(names))

    def check_label(self, name: str) -> DatasetColumn:
        """The column with the right answers. UsageError for one that cannot have them."""
        (column,) = self.check([name], "--target")
        if not column.present:
            hint = "name the column with the right answers"
            raise UsageError(f"the column {name!r} is empty", hint=hint)
        if not column.is_simple:
            inner = [other for other in self.by_name.values() if column.holds(other)]
            fields = [other.name for other in inner if other.kind == "label"]
            hint = f"name one of its fields: {', '.join(fields[:6])}" if fields else ""
            message = f"{name!r} has lists or mappings, a label is one word or number"
            raise UsageError(message, hint=hint or "name a column of labels")
        return column


def read_columns(data: str) -> DatasetColumns:
    """The columns of the first rows. DataError if there are none, or if they cannot be read."""
    rows = [row.source for row in islice(stream_rows(Dataset(dataset_files(data))), _READ)]
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:
        raise DataError(Problem("empty-dataset", "the dataset holds no rows", "", data))
    columns: dict[str, DatasetColumn] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        is_optional = not all(name in row for row in rows)
        for column in _with_fields(DatasetColumn((name,), values, is_optional)):
            columns.setdefault(column.name, column)
    return DatasetColumns(data, columns)


def _with_fields(column: DatasetColumn) -> Iterator[DatasetColumn]:
    """The column, and the fields of its mappings down to three levels, such as `conv.id`."""
    yield column
    present_values = [value for value in column.values if value is not None]
    if len(column.path) > _DEPTH or not all(isinstance(value, Mapping) for value in present_values):
        return
    for key in dict.fromkeys(
        key for value in present_values for key in value if isinstance(key, str)
    ):
        values = [(value or {}).get(key) for value in column.values]
        yield from _with_fields(DatasetColumn((*column.path, key), values))


def _in_a_row(columns: Mapping[str, DatasetColumn]) -> list[DatasetColumn]:
    """The columns in the order of their marks, such as 1, 2, 3; none where a mark is missing."""
    for text in _MARKS:
        marks = text.split()
        row = list(takewhile(columns.__contains__, marks))
        if len(row) > 1 and len(row) == len(columns.keys() & set(marks)):
            return [columns[mark] for mark in row]
    return []


def main_column(read: Sequence[DatasetColumn]) -> DatasetColumn:
    """Of the columns that a judge reads the one that is judged, rather than what it answers or follows from."""
    texts = [column for column in read if _REFERENCES.isdisjoint(words_of(column.name))]
    answers = [column for column in texts if column.subject in _ANSWERS]
    main_texts = [column for column in texts if _CONTEXTS.isdisjoint(column.words)]
    return (answers or main_texts or list(read))[-1]


def words_of(name: str) -> list[str]:
    """The words and numbers of a name in small letters: `model`, `response`, `2` of `modelResponse_2`."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word.lower() for word in re.findall(r"[^\W\d_]+|\d+", spaced)]


def without_blanks(values: Iterable[Any]) -> list[Any]:
    """The values without nulls and blank texts."""
    return [value for value in values if value is not None and str(value).strip()]


def numeric(value: Any) -> bool:
    """Whether a value is a number, or a text that is one."""
    if isinstance(value, bool):
        return False
    is_written = re.fullmatch(r"\s*-?\d+(\.\d+)?\s*", str(value)) is not None
    return isinstance(value, int | float) or is_written


def nameable(name: str) -> bool:
    """Whether a placeholder can name the column."""
    has_marks = re.search(r"[{}\n]", name) or {"'", '"'} <= set(name)
    return name.isprintable() and not has_marks


def _count_words(text: Any) -> int:
    """About how many words a text has, in scripts without spaces too."""
    dense = sum(letter > "\u2e80" for letter in str(text))
    return len(str(text).split()) + dense // 3
