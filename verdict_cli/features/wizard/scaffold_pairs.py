"""What `verdict init` recognises in two columns that are compared with each other: which they are, and which labels say that one
of them is better."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from verdict_cli.features.wizard.column_words import LABEL_NOUNS, META, PREFERENCES
from verdict_cli.features.wizard.scaffold_columns import column_type, head_noun, label_likeness, name_words
from verdict_cli.features.wizard.scaffold_labels import given_labels, numeric, truth

Pair = tuple[str, str]

_SIDES = {"a": "b", "0": "1", "1": "2", "first": "second", "left": "right", "x": "y", "chosen": "rejected"}
_TIES = frozenset({
    "tie", "ties", "tied", "draw", "equal", "same", "both", "neither", "none", "c", "a=b", "tie (bothbad)", "both good", "both bad",
    "equally good", "equally bad", "about the same", "no preference", "bothbad", "unentschieden", "gleich", "gleichstand", "empate",
    "pareggio", "égalité", "ничья", "平局", "引き分け", "무승부",
})  # fmt: skip
_SAYING_BETTER = frozenset({
    "answer", "assistant", "best", "better", "candidate", "clearly", "completion", "is", "lot", "model", "much", "option", "output",
    "prefer", "preferred", "prefers", "response", "reply", "significantly", "slightly", "somewhat", "summary", "system", "text",
    "the", "translation", "was", "win", "winner", "wins", "won", "far",
})  # fmt: skip
"""Words beside the name of a side in a label such as `response A is slightly better`."""
_ALIKE = frozenset({
    "claim", "code", "doc", "document", "paragraph", "passage", "phrase", "premise", "query", "question", "sentence", "snippet",
    "statement", "term", "text", "title", "tweet", "word",
})  # fmt: skip
"""Of two of these, a number rather says whether they mean the same than which is better."""
_SIDE_SCORES = LABEL_NOUNS | PREFERENCES | {"likes", "upvotes", "win"}
_COMPARED = (*PREFERENCES, "win", "beats")
_MOST_WORDS = 4


def _words(name: str) -> tuple[str, ...]:
    return tuple(name_words(re.sub(r"[.\[\]]", " ", name)))


def _siblings(names: Iterable[str]) -> list[Pair]:
    """The pairs of names that differ in nothing but A and B, 1 and 2, first and second."""
    keys = {_words(name): name for name in names}
    return [
        (name, keys[other])
        for words, name in keys.items()
        for index, word in enumerate(words)
        if (other := (*words[:index], _SIDES.get(word, ""), *words[index + 1 :])) in keys
    ]


def _are_texts(values: Sequence[Any]) -> bool:
    seen = given_labels(values)
    return bool(seen) and (all(isinstance(value, str) for value in seen) or column_type(values) == "conversation")


def compared_pair(samples: Mapping[str, Sequence[Any]]) -> Pair | None:
    """The two columns of texts that differ in nothing but A and B, 1 and 2, first and second: the longest such texts."""
    texts = [name for name, values in samples.items() if _are_texts(values) and not label_likeness(name, values)]
    pairs = [pair for pair in _siblings(texts) if head_noun(pair[0]) not in META]
    return max(pairs, key=lambda pair: sum(len(str(value)) for name in pair for value in samples[name]), default=None)


def named_pair(samples: Mapping[str, Sequence[Any]], labels: Sequence[Any]) -> Pair | None:
    """The two columns of texts whose names differ in one word, where these words are the labels: `base_output` and `new_output`
    with the labels `base` and `new`."""
    labels_given = {_plain(str(label)) for label in given_labels(labels) if str(label).strip().lower() not in _TIES}
    texts = [name for name, values in samples.items() if _are_texts(values)]
    for first in texts if 0 < len(labels_given) <= 2 else ():
        for second in texts:
            own = _own_words((first, second))
            if first != second and own is not None and labels_given <= {*own, _plain(first), _plain(second)}:
                return first, second
    return None


def _plain(text: str) -> str:
    """The text without what separates its words."""
    return re.sub(r"[\W_]+", "", text.lower())


def _own_words(pair: Pair) -> Pair | None:
    """What the names of a pair do not share at their ends: `gpt4` and `llama` of `gpt4_answer` and `llama_answer`. None where
    they share nothing, or where one has nothing of its own."""
    first, second = map(list, map(_words, pair))
    shared = len(first) + len(second)
    for at in (0, -1):
        while len(first) > 1 and len(second) > 1 and first[at] == second[at]:
            first.pop(at)
            second.pop(at)
    is_one = first != second and len(first) + len(second) < shared
    return ("".join(first), "".join(second)) if is_one or shared == 2 else None


def compares_answers(pair: Pair) -> bool:
    """Whether the texts of a pair are answers of which one is better, rather than two texts that may mean the same."""
    return head_noun(pair[0]) not in _ALIKE


def side_labels(samples: Mapping[str, Sequence[Any]], pair: Pair) -> Pair | None:
    """The columns with a number of each text of a pair, of which the higher is that of the better text: `winner_a` and `winner_b`
    with 0 and 1, `score_1` and `score_2`."""
    if {"chosen", "rejected"} <= {word for name in pair for word in _words(name)}:
        return None  # it is known which is better
    for first, second in _siblings(samples):
        names = {*_words(first), *_words(second)}
        first_values, second_values = (_amounts(samples[name]) for name in (first, second))
        if not names & _SIDE_SCORES or first_values is None or second_values is None:
            continue
        rows = [row for row in zip(first_values, second_values, strict=True) if None not in row]
        truths = {value for row in rows for value in row} <= {0.0, 1.0}
        if any(a != b for a, b in rows) and (not truths or names & {*_COMPARED}):
            return first, second
    return None


def _amounts(values: Sequence[Any]) -> list[float | None] | None:
    """The numbers, with yes as 1; None for values of another kind."""
    amounts: list[float | None] = []
    for value in values:
        truth_value = truth(value)
        if value is None or value == "":
            amounts.append(None)
        elif truth_value is not None or numeric(value):
            amounts.append(float(truth_value if truth_value is not None else value))
        else:
            return None
    return amounts


def has_ties(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether both texts of a row have the same number."""
    return any(a is not None and a == b for a, b in zip(_amounts(first) or (), _amounts(second) or (), strict=True))


def is_of_one_side(name: str, names: Iterable[str]) -> bool:
    """Whether the column says something of one text of a pair, as another column says of the other."""
    return any(name in pair for pair in _siblings(names))


def pair_labels(pair: Pair, values: Sequence[Any], name: str = "") -> dict[Any, str] | None:
    """Label -> `A`, `B` or `tie`, for labels in a column of this name that say which text of a pair is better; None where one
    does not say it."""
    of_side = _labels_of_side(pair, values, name)
    if of_side is not None:
        return of_side
    prefers = bool(PREFERENCES & {*_words(name)})
    slides = "preference" in _words(name)
    numbered = _numbered_choices(values, slides=slides) if prefers or compares_answers(pair) else None
    if numbered is not None:
        return numbered
    sides = _side_words(pair)
    meant = {}
    for label in dict.fromkeys(given_labels(values)):
        choice = None if isinstance(label, bool) else _choice(str(label).strip().lower(), pair, sides)
        if choice is None:
            return None
        meant[label] = choice
    return meant or None


def _side_words(pair: Pair) -> dict[str, str]:
    own = _own_words(pair) or ("", "")
    digits = own[0].isdigit()
    letters = {first: "A" for first in _SIDES if not (digits and first.isdigit()) and first != "0"}
    letters |= {second: "B" for first, second in _SIDES.items() if not (digits and first.isdigit()) and first != "0"}
    return letters | {word: letter for word, letter in zip(own, "AB", strict=True) if word}


def _choice(text: str, pair: Pair, sides: Mapping[str, str]) -> str | None:
    if text in _TIES:
        return "tie"
    for column, letter in zip(pair, "AB", strict=True):
        if _plain(text) == _plain(column):
            return letter
    if _plain(text) in sides:
        return sides[_plain(text)]
    first, more, second = re.sub(r"[>\s]+", ">", text).partition(">")
    if more and {sides.get(first), sides.get(second)} == {"A", "B"}:
        return sides[first]
    words = re.findall(r"[^\W\d_]+|\d+", text)
    named_sides = [word for word in words if word in sides]
    if len(named_sides) == 1 and all(word in sides or word in _SAYING_BETTER for word in words):
        return sides[named_sides[0]]
    is_name = words and words[-1] in sides and len(text.split()) <= _MOST_WORDS
    return sides[words[-1]] if is_name else None


def _labels_of_side(pair: Pair, values: Sequence[Any], name: str) -> dict[Any, str] | None:
    """The choices of yes and no in a column such as `a_is_better`."""
    words = _words(name)
    sides = _side_words(pair)
    named_sides = [sides[word] for word in words if word in sides and word not in PREFERENCES]
    labels = list(dict.fromkeys(given_labels(values)))
    if len(named_sides) != 1 or not {*_COMPARED} & {*words} or not labels:
        return None
    yes = {
        label: truth(label) if truth(label) is not None else {"0": False, "1": True}.get(str(label)) for label in labels
    }
    if None in yes.values():
        return None
    other = "B" if named_sides[0] == "A" else "A"
    return {label: named_sides[0] if is_yes else other for label, is_yes in yes.items()}


_NUMBERED = (
    ({"0", "1"}, "AB"),
    ({"1", "2"}, "AB"),
    ({"0", "1", "2"}, "AB"),
    ({"1", "2", "3"}, "AB"),
    ({"1", "1.5", "2"}, "AB"),
    ({"-1", "0", "1"}, "BA"),
)
"""Numbers that say which text of a pair is better: with the two lowest, the third is a tie; so is zero between -1 and 1, and 1.5 between 1 and 2."""
_SLIDERS = ((-3, 3), (-2, 2), (-4, 4), (-5, 5), (1, 5), (1, 6), (1, 7), (1, 8))
"""The ends of scales from one text, on the left, to the other."""


def _numbered_choices(values: Sequence[Any], *, slides: bool) -> dict[Any, str] | None:
    """The choice of each number, where 0 and 1, 0 to 2, 1 to 3 or -1 to 1 are the labels of a pair; with `slides` also those of a scale from one to the other."""
    labels = [label for label in dict.fromkeys(given_labels(values)) if not isinstance(label, bool)]
    texts = {str(label).removesuffix(".0").strip(): label for label in labels}
    for numbers, letters in _NUMBERED:
        if len(texts) > 1 and texts.keys() <= numbers:
            ends = [
                number
                for number in sorted(numbers, key=float)
                if number != "1.5" and (number != "0" or "-1" not in numbers)
            ]
            meaning = dict(zip(ends, letters, strict=False))
            return {label: meaning.get(text, "tie") for text, label in texts.items()}
    if not slides or len(texts) < 2 or not all(re.fullmatch(r"-?\d+", text) for text in texts):
        return None
    low, high = min(map(int, texts)), max(map(int, texts))
    slider = next((ends for ends in _SLIDERS if ends[0] <= low and high <= ends[1]), None)
    if slider is None:
        return None
    middle = sum(slider) / 2
    return {label: "A" if int(text) < middle else "B" if int(text) > middle else "tie" for text, label in texts.items()}
