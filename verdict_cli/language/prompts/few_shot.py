"""Examples for a prompt: which ones a row gets, and how they are written."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any

from msgspec import Struct

from verdict_cli.errors import RowError
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.expressions.paths import RowValues
from verdict_cli.language.expressions.value_text import insert
from verdict_cli.language.prompts.sections import Delimited, boundary, data_notice, wrap_in_tags
from verdict_cli.language.units.base import ExampleChoice
from verdict_cli.messages import Marks, Message
from verdict_cli.regex import regex

_WORDS = regex(r"\w+")
HEADING = "Examples, with the right answers:"


class LabelledExample(Struct, frozen=True):
    """A labelled row: the values of its shown columns, the right answer as it is written, its cluster, and whether a judge got it
    wrong."""

    values: tuple[str, ...]
    answer: str
    explanation: str = ""
    cluster: Any = None
    wrong: bool = False


class ExamplePool(Struct, frozen=True, dict=True):
    """The examples of a unit. ``columns`` are the shown ones, ``field`` names the answer, ``cluster`` gives that of a row."""

    examples: tuple[LabelledExample, ...]
    columns: tuple[str, ...]
    field: str
    k: int
    choose: ExampleChoice
    seed: int = 0
    cluster: Expression | None = None
    delimited: bool = False

    def chosen(self, source: RowValues) -> tuple[LabelledExample, ...]:
        """The examples of a row, at most ``k``, in the order in which they are shown. RowError where its cluster cannot be computed."""
        row_values = self._values(source)
        cluster = self.cluster({"source": source}) if self.cluster is not None else None
        chosen: list[LabelledExample] = []
        for index in self._nearest(row_values) if self.choose == "nearest" else self._fixed_order:
            example = self.examples[index]
            if example.values == row_values or (cluster is not None and example.cluster == cluster):
                continue
            chosen.append(example)
            if len(chosen) == self.k:
                break
        if self.choose == "nearest":
            chosen.reverse()  # the nearest one last, by the row
        return tuple(chosen)

    def text(self, source: RowValues) -> str:
        """The examples of a row as a text for its prompt, empty where there are none."""
        examples = self.chosen(source)
        if not examples:
            return ""
        data = [
            Delimited(value) if self.delimited else value
            for example in examples
            for value in example.values
        ]
        mark = boundary(data)
        texts = iter(wrap_in_tags(value, mark) for value in data)
        parts = [HEADING, *([data_notice(mark)] if mark else [])]
        for number, example in enumerate(examples, 1):
            lines = [f"Example {number}", *(f"{name}: {next(texts)}" for name in self.columns)]
            if example.explanation:
                lines.append(f"explanation: {example.explanation}")
            parts.append("\n".join([*lines, f"{self.field}: {example.answer}"]))
        return "\n\n".join([*parts, "End of the examples."])

    def content(self) -> list[Any]:
        """All that decides what prompts show, for a fingerprint."""
        rows = [
            [
                example.values,
                example.answer,
                example.explanation,
                repr(example.cluster),
                example.wrong,
            ]
            for example in self.examples
        ]
        cluster = "" if self.cluster is None else self.cluster.text
        return [rows, self.columns, self.field, self.k, self.choose, self.seed, cluster]

    def _values(self, source: RowValues) -> tuple[str, ...]:
        return tuple(shown_value(source.get(name)) for name in self.columns)

    @cached_property
    def _shuffled(self) -> list[int]:
        order = list(range(len(self.examples)))
        random.Random(self.seed).shuffle(order)
        return order

    @cached_property
    def _fixed_order(self) -> list[int]:
        """All examples, those to take first in front: label by label in turn, of `errors` the wrong ones before the others."""
        if self.choose != "errors":
            return self._in_turn(self._shuffled)
        wrong = [index for index in self._shuffled if self.examples[index].wrong]
        right = [index for index in self._shuffled if not self.examples[index].wrong]
        return self._in_turn(wrong) + self._in_turn(right)

    def _in_turn(self, indices: Sequence[int]) -> list[int]:
        by_label: dict[str, list[int]] = defaultdict(list)
        for index in indices:
            by_label[self.examples[index].answer].append(index)
        turns = zip_longest(*(by_label[label] for label in sorted(by_label)))
        return [index for turn in turns for index in turn if index is not None]

    @cached_property
    def _index(self) -> dict[str, list[tuple[int, float]]]:
        """Word -> the examples that contain it, with its share of their length and its inverse frequency."""
        counts = [Counter(words(example.values)) for example in self.examples]
        frequency = Counter(word for counted in counts for word in counted)
        weight = {word: math.log(1 + len(counts) / number) for word, number in frequency.items()}
        examples: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for index, counted in enumerate(counts):
            length = math.sqrt(
                sum((number * weight[word]) ** 2 for word, number in counted.items())
            )
            for word, number in counted.items():
                examples[word].append((index, number * weight[word] ** 2 / length))
        return dict(examples)

    def _nearest(self, values: tuple[str, ...]) -> list[int]:
        """All examples by the cosine of their words' weights and the row's (tf-idf), the nearest first; ties in the seeded order."""
        scores: dict[int, float] = defaultdict(float)
        for word, number in Counter(words(values)).items():
            for index, share in self._index.get(word, ()):
                scores[index] += number * share
        return sorted(self._shuffled, key=lambda index: -scores.get(index, 0.0))


def words(values: Sequence[str]) -> Iterator[str]:
    """The words of texts, in lower case."""
    for value in values:
        yield from _WORDS.findall(value.lower())


def shown_value(value: Any) -> str:
    """A value of an example as a prompt writes it; empty for null."""
    if value is None:
        return ""
    try:
        return str(insert(value))
    except RowError:
        return str(value)


def add_prefix(
    messages: Sequence[Message], marks: Sequence[tuple[int, int]], prefix: str
) -> tuple[tuple[Message, ...], Marks]:
    """The messages with the prefix at the start of the first user message, and the marks moved with its text."""
    if not prefix:
        return tuple(messages), tuple(marks)
    first = next((index for index, message in enumerate(messages) if message.role == "user"), None)
    if first is None:
        return (*messages, Message("user", prefix)), tuple(marks)
    shift = len(prefix) + 2
    old = messages[first]
    new = Message(
        old.role,
        f"{prefix}\n\n{old.content}",
        tuple((position + shift, url) for position, url in old.images),
    )
    moved = tuple(
        (index, position + shift) if index == first else (index, position)
        for index, position in marks
    )
    return (*messages[:first], new, *messages[first + 1 :]), moved
