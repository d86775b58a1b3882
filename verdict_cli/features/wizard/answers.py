"""What the answer of a judge may be, read from people's labels: a scale, A or B of a pair, or the option of a question."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_uppercase
from typing import Any, Literal

from msgspec import Struct

from verdict_cli.features.wizard.columns import (
    MAX_CATEGORIES,
    Pair,
    numeric,
    without_blanks,
    words_of,
)
from verdict_cli.language.scales.written_number import folded

_TRUTHS = {
    "yes": True,
    "y": True,
    "true": True,
    "t": True,
    "no": False,
    "n": False,
    "false": False,
    "f": False,
}
_ORDERS = (
    "terrible < very bad < bad < poor < fair < ok < average < good < very good < great < excellent < perfect",
    "none < very low < low < medium < high < very high",
    "strongly disagree < disagree < neutral < agree < strongly agree",
    "very negative < negative < neutral < positive < very positive",
    "wrong < partially correct < correct",
    "incorrect < partially correct < correct",
    "fail < needs work < pass",
    "unsafe < safe",
    "irrelevant < partially relevant < relevant",
    "reject < accept",
)
"""Orders of English words from worst to best. Any other order is asked for."""
_RANGES = ((1, 5), (0, 5), (1, 10), (0, 10), (0, 100))


class AnswerScale(Struct, frozen=True):
    """A scale. ``values``: of `boolean` none, of a `range` (whole numbers) or `continuous` the two ends as text, of
    `ordered` words the worst first, of `nominal` ones in no order."""

    kind: Literal["boolean", "range", "continuous", "ordered", "nominal"]
    values: tuple[str, ...] = ()

    def option(self) -> str:
        """The scale as `--scale` takes it."""
        if self.kind in ("range", "continuous"):
            return "-".join(self.values)
        if self.kind == "ordered":
            return ",".join(self.values)
        return "boolean" if self.kind == "boolean" else "categories"


BOOLEAN = AnswerScale("boolean")


def truth(value: Any) -> bool | None:
    """Whether the label says yes or no; None where it says neither."""
    if isinstance(value, bool):
        return value
    return _TRUTHS.get(folded(value)) if isinstance(value, str) else None


def label_words(values: Iterable[Any]) -> list[str]:
    """The distinct labels as texts, the most frequent first."""
    return [
        word for word, _ in Counter(str(value) for value in without_blanks(values)).most_common()
    ]


def proposed_scale(values: Sequence[Any]) -> AnswerScale | None:
    """The scale of these labels: words without a known order are categories. None where no scale has them."""
    seen = without_blanks(values)
    if not seen:
        return None
    if all(truth(value) is not None for value in seen):
        return BOOLEAN
    if all(map(numeric, seen)):
        return _number_scale([float(value) for value in seen])
    words = label_words(seen)
    if not 1 < len(words) <= MAX_CATEGORIES:
        return None
    order = word_order(words)
    return AnswerScale("ordered", order) if order else AnswerScale("nominal", tuple(sorted(words)))


def _number_scale(numbers: Sequence[float]) -> AnswerScale | None:
    low, high = min(numbers), max(numbers)
    if set(numbers) <= {0, 1}:
        return BOOLEAN
    whole = all(number.is_integer() for number in numbers)
    if not whole and low >= -1 and high <= 1:
        return AnswerScale("continuous", ("0.0" if low >= 0 else "-1.0", "1.0"))
    # Ratings that nobody gave are on the scale too: labels from 2 to 4 are proposed as 1 to 5.
    for first, last in _RANGES:
        if first <= low and high <= last:
            return AnswerScale("range", (str(first), str(last)))
    return None


def word_order(words: Sequence[str]) -> tuple[str, ...] | None:
    """The words from worst to best; None where that is not known."""
    plain = {_plain(word): word for word in words}
    for order in _ORDERS:
        steps = order.split(" < ")
        if len(plain) == len(words) and plain.keys() <= set(steps):
            return tuple(plain[step] for step in steps if step in plain)
    return None


def parse_scale(text: str, values: Sequence[Any] = ()) -> AnswerScale | str:
    """The scale that the user wrote, checked against the labels; a text says what is wrong with it."""
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    ends = re.fullmatch(r"(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)", text.strip())
    if text.strip() == "boolean":
        scale = BOOLEAN
    elif ends and float(ends[1]) < float(ends[2]):
        scale = AnswerScale("continuous" if "." in text else "range", (ends[1], ends[2]))
    elif text.strip() == "categories":
        scale = AnswerScale("nominal", tuple(sorted(label_words(values))))
        if not 1 < len(scale.values) <= MAX_CATEGORIES:
            return f"categories are taken from 2 to {MAX_CATEGORIES} different labels, here are {len(scale.values)}"
    elif len(words) > 1:
        scale = AnswerScale("ordered", words)
    else:
        return f"{text!r} is not a scale"
    outside = labels_outside(scale, values)
    if outside:
        return f"the scale {text} does not have these labels: {', '.join(outside[:5])}"
    return scale


def labels_outside(scale: AnswerScale, values: Sequence[Any]) -> list[str]:
    """The labels that are not on the scale."""

    def is_on(value: Any) -> bool:
        if scale.kind == "boolean":
            return truth(value) is not None or str(value) in ("0", "1", "0.0", "1.0")
        if scale.kind in ("range", "continuous"):
            low, high = map(float, scale.values)
            return numeric(value) and low <= float(value) <= high
        return str(value) in scale.values

    return sorted({str(value) for value in without_blanks(values) if not is_on(value)})


def pair_labels(pair: Pair, name: str, values: Sequence[Any]) -> dict[Any, str] | None:
    """Label -> `A`, `B` or `tie`; None where one label does not say which text is better.

    Numbers count only where the column is of no side: 1 in `winner_model_b` says that B won.
    """
    sides = {_plain(name): side for name, side in zip(pair, "AB", strict=True)}
    words = {"a": "A", "b": "B", "model a": "A", "model b": "B", "tie": "tie", **sides}
    codes = dict(zip(_numbers(3, values), ("A", "B", "tie"), strict=True))
    of_one_side = not words.keys().isdisjoint(words_of(name))
    return _choices(values, [words] if of_one_side else [words, codes])


def option_labels(count: int, names: Sequence[str], values: Sequence[Any]) -> dict[Any, str] | None:
    """Label -> the letter of the option that it names by its number, letter or column; None for other labels."""
    letters = ascii_uppercase[:count]
    texts = [_plain(name) for name in names]
    spellings = (_numbers(count, values), letters.lower(), texts)
    return _choices(values, [dict(zip(words, letters, strict=False)) for words in spellings])


def _numbers(count: int, values: Sequence[Any]) -> list[str]:
    """The numbers of so many choices: from 0 where a label is 0, else from 1."""
    first = 0 if any(str(value).strip() in ("0", "0.0") for value in values) else 1
    return [str(number) for number in range(first, first + count)]


def _choices(
    values: Sequence[Any], spellings: Sequence[Mapping[str, str]]
) -> dict[Any, str] | None:
    """Label -> choice by the first spelling that has all labels."""
    labels = list(dict.fromkeys(without_blanks(values)))
    words = [_plain(str(label).removesuffix(".0")) for label in labels]
    if any(isinstance(label, bool) for label in labels):
        return None
    for spelling in spellings:
        if labels and spelling.keys() >= set(words):
            return {label: spelling[word] for label, word in zip(labels, words, strict=True)}
    return None


def _plain(text: str) -> str:
    """A name or a label in small letters, with a space between its words."""
    return " ".join(folded(text).replace("_", " ").split())
