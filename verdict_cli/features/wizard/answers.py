"""What the answer of a judge may be, read from people's labels: a scale, or the letter of one of several texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from string import ascii_uppercase
from typing import Any, Literal

from msgspec import Struct

from verdict_cli.errors import UsageError
from verdict_cli.features.wizard.columns import (
    MAX_CATEGORIES,
    DatasetColumn,
    numeric,
    without_blanks,
)
from verdict_cli.language.scales.written_number import fold_case
from verdict_cli.messages import plain_text

_YES, _NO = frozenset(("yes", "y", "true", "t")), frozenset(("no", "n", "false", "f"))
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
"""Orders of English words from worst to best. Words in any other order are categories."""
_RANGES = ((1, 5), (0, 5), (1, 10), (0, 10), (0, 100))


class AnswerScale(Struct, frozen=True):
    """A scale. ``values``: of `boolean` none, of a `range` (whole numbers) or `continuous` the two ends as text, of
    `ordered` words the worst first, of `nominal` ones in no order."""

    kind: Literal["boolean", "range", "continuous", "ordered", "nominal"]
    values: tuple[str, ...] = ()

    def has(self, label: Any) -> bool:
        """Whether the label is on the scale."""
        if self.kind == "boolean":
            return truth(label) is not None or str(label) in ("0", "1", "0.0", "1.0")
        if self.kind in ("range", "continuous"):
            low, high = map(float, self.values)
            return numeric(label) and low <= float(label) <= high
        return plain_text(label) in self.values


BOOLEAN = AnswerScale("boolean")


def truth(value: Any) -> bool | None:
    """Whether the label says yes or no; None where it says neither."""
    word = fold_case(str(value))
    if word in _YES:
        return True
    return False if word in _NO else None


def label_words(values: Iterable[Any]) -> list[str]:
    """The distinct labels as texts, the most frequent first."""
    words = Counter(map(plain_text, without_blanks(values)))
    return [word for word, _ in words.most_common()]


def proposed_scale(values: Sequence[Any]) -> str:
    """The scale of these labels as `--scale` takes it: words without a known order are `categories`. Empty where no scale
    has them."""
    present_values = without_blanks(values)
    if all(truth(value) is not None for value in present_values):
        return "boolean" if present_values else ""
    if all(map(numeric, present_values)):
        return _number_scale([float(value) for value in present_values])
    words = label_words(present_values)
    plain = {_plain(word): word for word in words}
    for order in _ORDERS:
        steps = order.split(" < ")
        if len(plain) == len(words) > 1 and plain.keys() <= set(steps):
            return ",".join(plain[step] for step in steps if step in plain)
    return "categories" if 1 < len(words) <= MAX_CATEGORIES else ""


def _number_scale(numbers: Sequence[float]) -> str:
    low, high = min(numbers), max(numbers)
    if set(numbers) <= {0, 1}:
        return "boolean"
    if low >= -1 and high <= 1 and not all(number.is_integer() for number in numbers):
        return "0.0-1.0" if low >= 0 else "-1.0-1.0"
    # Ratings that nobody gave are on the scale too: labels from 2 to 4 are proposed as 1 to 5.
    for first, last in _RANGES:
        if first <= low and high <= last:
            return f"{first}-{last}"
    return ""


def parse_scale(text: str, values: Sequence[Any] = ()) -> AnswerScale:
    """The scale that `--scale` or an answer names. UsageError for none, and for one that does not have the labels."""
    labels = label_words(values)
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    ends = re.fullmatch(r"(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)", text.strip())
    if text.strip() == "boolean":
        scale = BOOLEAN
    elif ends and float(ends[1]) < float(ends[2]):
        scale = AnswerScale("continuous" if "." in text else "range", (ends[1], ends[2]))
    elif text.strip() == "categories" and 1 < len(labels) <= MAX_CATEGORIES:
        scale = AnswerScale("nominal", tuple(sorted(labels)))
    elif len(words) > 1:
        scale = AnswerScale("ordered", words)
    else:
        message = f"{text!r} is not a scale" if text else "no scale has all of the labels"
        raise UsageError(f"{message}{_some(labels)}", hint=_scale_hint(values, labels))
    outside = sorted(
        {plain_text(value) for value in without_blanks(values) if not scale.has(value)}
    )
    if outside:
        message = f"the scale {text} does not have these labels: {', '.join(outside[:5])}"
        raise UsageError(message, hint=_scale_hint(values, labels))
    return scale


def _some(labels: Sequence[str]) -> str:
    more = ", …" if len(labels) > 5 else ""
    return f"; the labels are {', '.join(labels[:5])}{more}" if labels else ""


def _scale_hint(values: Sequence[Any], labels: Sequence[str]) -> str:
    proposed = proposed_scale(values)
    if not proposed and len(labels) == 1:
        proposed = f"other,{labels[0]}"
    if proposed:
        return f"--scale '{proposed}' has them"
    return "give boolean, 1-5, or words from worst to best: --scale bad,fair,good"


def choice_labels(names: Sequence[str], label: DatasetColumn) -> dict[Any, str] | None:
    """Label -> the letter of the text that it names by its number, letter or column, or `tie`; None where one label names
    none.

    Numbers count only where the column is of no side: 1 in `winner_model_b` says that B won.
    """
    letters = ascii_uppercase[: len(names)]
    words: dict[str, str] = {}
    for letter, name in zip(letters, names, strict=True):
        words |= dict.fromkeys((letter.lower(), f"model {letter.lower()}", _plain(name)), letter)
    choices = list(letters)
    if len(names) == 2:
        words["tie"] = "tie"
        choices.append("tie")
    labels = dict.fromkeys(label.present)
    spelled = {each: _plain(str(each).removesuffix(".0")) for each in labels}
    if words.keys().isdisjoint(label.words):
        first = 0 if "0" in spelled.values() else 1
        numbers = {str(number): choice for number, choice in enumerate(choices, first)}
        if numbers.keys() >= set(spelled.values()):
            words = numbers
    is_truth = any(isinstance(each, bool) for each in labels)
    if is_truth or not labels or not words.keys() >= set(spelled.values()):
        return None
    return {each: words[word] for each, word in spelled.items()}


def _plain(text: str) -> str:
    """A name or a label in small letters, with a space between its words."""
    return " ".join(fold_case(text).replace("_", " ").split())
