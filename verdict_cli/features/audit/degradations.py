"""Planted errors that must lower a score: seeded rules for each kind. A text that a rule cannot change stays as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random

_AUXILIARY = re.compile(
    r"\b(is|are|was|were|can|could|will|would|should|may|must|does|do|did|has|have|had)(n't| not)?\b(?!['’]t)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|(?<![\w.,])\d+(?:\.\d+)?(?!\w)")
_NAME = re.compile(r"(?<![.!?:\n\"'“] )(?<!^)(?<=\s)[A-Z][a-zà-ÿ]{2,}(?: [A-Z][a-zà-ÿ]{2,})*\b")
_NAMES = ("Marta Kowalczyk", "Lake Corvena", "Ostrava", "Henrik Dahlqvist", "Bellmoor", "Ines Quarteira", "Tarnwick")
"""What an entity is replaced by; the first one drawn that is not in the text."""
_UNITS: Sequence[tuple[str, ...]] = (
    ("mm", "cm", "km", "miles", "inches", "feet", "metres", "meters", "kilometres", "kilometers", "centimetres"),
    ("mg", "g", "kg", "tonnes", "tons", "pounds", "ounces", "grams", "kilograms", "milligrams"),
    ("ml", "litres", "liters", "gallons"),
    ("seconds", "minutes", "hours", "days", "weeks", "months", "years", "decades", "centuries"),
    ("°C", "°F", "kelvin"),
    ("dollars", "euros", "yen", "cents"),
    ("thousand", "million", "billion", "trillion"),
    ("%", "‰"),
    ("percent", "per mille"),
    ("watts", "kilowatts", "megawatts"),
)
_FAMILY = {unit: family for family in _UNITS for unit in family}
_UNIT = re.compile(r"(?<=\d)(\s?)(" + "|".join(sorted(map(re.escape, _FAMILY), key=len, reverse=True)) + r")(?!\w)")
_SENTENCE = re.compile(r"\S.*?(?:[.!?][\"'”)]?(?=\s|$)|$)", re.DOTALL)
_QUOTES = (
    'As Professor Elmar Voss put it in 1987, "there is nothing in the record that supports any other reading."',
    'In the words of the committee\'s final report, "the opposite has never been shown in a single case."',
    'A spokesperson later confirmed: "We had known about it since the spring, and nobody was to be told."',
)
FEWEST_WORDS = 12
"""Shorter texts are not cut: the rest may still be all that was asked for."""

Rule = Callable[[str, Random], str]


def degradations(seed: int) -> Mapping[str, Callable[[str], str]]:
    """A function of the judged text for each kind of error; what it draws depends on the seed and the text."""
    return {kind: partial(_planted, kind, rule, seed) for kind, rule in _RULES.items()}


def _planted(kind: str, rule: Rule, seed: int, text: str) -> str:
    return rule(text, Random(f"{seed}\0{kind}\0{text}"))


def _negate(text: str, rng: Random) -> str:
    """One statement negated, or its negation removed."""
    found = [*_AUXILIARY.finditer(text)]
    if not found:
        return text
    match = rng.choice(found)
    return f"{text[: match.end(1)]}{'' if match[2] else ' not'}{text[match.end() :]}"


def _other_number(text: str, rng: Random) -> str:
    found = [*_NUMBER.finditer(text)]
    if not found:
        return text
    match = rng.choice(found)
    written = match[0].replace(",", "")
    decimals = len(written.partition(".")[2])
    value = float(written)
    if not decimals and 1000 <= value < 2100 and "," not in match[0]:
        value += rng.choice((-1, 1)) * rng.randint(11, 90)  # a year stays one
    else:
        value = value * rng.choice((3, 5, 7)) + rng.choice((1, 2))
    other = f"{value:,.{decimals}f}" if "," in match[0] else f"{value:.{decimals}f}"
    return f"{text[: match.start()]}{other}{text[match.end() :]}"


def _other_entity(text: str, rng: Random) -> str:
    """One name within a sentence, wherever it occurs, replaced by another."""
    names = list(dict.fromkeys(match[0] for match in _NAME.finditer(text)))
    others = [name for name in _NAMES if name not in text]
    if not names or not others:
        return text
    return re.sub(rf"\b{re.escape(rng.choice(names))}\b", rng.choice(others), text)


def _other_unit(text: str, rng: Random) -> str:
    found = [*_UNIT.finditer(text)]
    if not found:
        return text
    match = rng.choice(found)
    other = rng.choice([unit for unit in _FAMILY[match[2]] if unit != match[2]])
    return f"{text[: match.start(2)]}{other}{text[match.end(2) :]}"


def _cut_end(text: str, rng: Random) -> str:
    words = [*re.finditer(r"\S+", text)]
    if len(words) < FEWEST_WORDS:
        return text
    return text[: words[rng.randint(len(words) // 2, 2 * len(words) // 3) - 1].end()]


def _shuffle_sentences(text: str, rng: Random) -> str:
    sentences = [match[0] for match in _SENTENCE.finditer(text)]
    if len(set(sentences)) < 3:
        return text
    shuffled = list(sentences)
    while shuffled == sentences:
        rng.shuffle(shuffled)
    return " ".join(shuffled)


def _invented_quote(text: str, rng: Random) -> str:
    """A quotation that nobody said, after one of the sentences."""
    ends = [match.end() for match in _SENTENCE.finditer(text)]
    if not ends:
        return text
    at = rng.choice(ends)
    return f"{text[:at]} {rng.choice(_QUOTES)}{text[at:]}"


_RULES: Mapping[str, Rule] = {
    "negation": _negate,
    "number": _other_number,
    "entity": _other_entity,
    "unit": _other_unit,
    "cut end": _cut_end,
    "shuffled sentences": _shuffle_sentences,
    "invented quote": _invented_quote,
}
