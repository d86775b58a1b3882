"""How people write a number: a sign, decimals, a fraction or "out of" the scale's largest number, a percentage.

Every reader of a number in a text comes here, so that a score is read as it is meant or not at all: a number in any other
form, such as a range or a date, has no value. A value of a scale is read ignoring case, surrounding spaces and quotes, and
a final period.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from verdict_cli.messages import is_number
from verdict_cli.regex import regex

if TYPE_CHECKING:
    from verdict_cli.language.scales import Scale


Ends = tuple[float, float] | None
"""The smallest and the largest number of a scale; None where there is no scale of numbers."""


Tokens = tuple[tuple[str, Any], ...]
"""Each token of a scale with the value that it means."""


class WrittenNumber(NamedTuple):
    """A number in a text, from ``start`` to ``end``. ``value``: None where what is meant is in doubt."""

    start: int
    end: int
    value: Decimal | None


LONGEST_NUMBER = 400
"""The longest number that is read: no float is longer."""

_ASCII = str.maketrans(
    ".٫·．,，-–—－﹣‐‑‒―⁻−+＋﹢％﹪٪⁄∕÷／\u00a0\u2007\u2009\u202f’٬。～〜…",
    "....,,----−---−−−+++%%%////    '',~~~",
)
"""Signs, marks and spaces of other scripts and keyboards. A minus sign stays one: unlike a hyphen it joins no words."""
_OTHER_SCRIPT = regex(r"[^\x00-\x7f]+")

_DIGITS = r"(?:(?:\d{1,3}(?: \d{3})+(?![\d.,])|\d+(?:[.,'_]\d+)*|\.\d+)(?:e[-+]?\d{1,3}|[¼-¾⅐-⅞])?|[¼-¾⅐-⅞])"
_MARKUP = r"(?:</?[a-z][^<>\n]{0,20}>)?"
_TOTAL = r"(?:[ \t]+(?:an?|the|possible|maximum|max\.?|total|of|full|perfect|score|top))*"
_OF = (
    rf"out[ \t]+of{_TOTAL}|of(?:[ \t]+(?:the|a[ \t]+possible))?|over|von|sur|su|de|di|av|af|van|из"
)
_DIVIDED = (
    rf"{_MARKUP}[ \t]*(?:(?:points?|pts?\.?|stars?|marks?)[ \t]*)?,?[ \t]*[(\[]?[ \t]*"
    rf"(?:/[ \t]*|(?:{_OF})[ \t]+){_MARKUP}"
)
_TO = (
    r"(?:[ \t]*\([^()\d\n]{0,30}\))?(?:[ \t]*(?:[-−~]|\.\.\.?)[ \t]+|[-−~]|\.\.\.?"
    r"|[ \t]+(?:(?:up[ \t]+)?to|through|thru|until|bis|à|or)[ \t]+)"
)
_PERCENT = r"[ \t]*(?:%|(?:percent|per[ \t]?cent|pct|prozent)\b)"
_BEGINS = regex(r"[\d.¼-¾⅐-⅞]")
_EXPRESSION = regex(
    rf"(?<![\w.])(?P<number>{_DIGITS})"
    rf"(?:(?P<percent>{_PERCENT})|{_DIVIDED}(?P<total>{_DIGITS})(?![ \t]*(?:%|percent\b))"
    rf"|(?P<doubt>{_DIVIDED}{_DIGITS}|{_TO}[-−+]?{_DIGITS}|(?<=between .)[ ]and[ ]{_DIGITS}"
    r"|(?=[ \t](?P<part>\d)/(?!(?P=part))\d(?!\d))|-(?=[^\W\d_])|[-−/][ \t]*(?=\0)|‰))?"
    rf"(?P<further>(?:[ \t]*/[ \t]*[-−+]?{_DIGITS}|[-−.:]{_DIGITS})*)",
    re.IGNORECASE,
)
"""A number without its sign, and what follows and belongs to it. Whatever is not a number, a fraction or a percentage is in
doubt."""
_SIGN = regex(
    r"(?P<sign>(?<![\w\0])[-−+]|\b(?:minus|negative|neg\.?|moins|menos|meno)[ \t]+)\Z",
    re.IGNORECASE,
)
_DASH = regex(r"(?<!\d)(?P<dash>[-−])[ \t]*\Z")
_DOUBTFUL = regex(
    rf"(?:[≤≥≈±][ \t]*|[\d\0][:/-]|/[ \t]*|\bout[ \t]+of{_TOTAL}[ \t]+|\bscale[ \t]+of[ \t]+"
    r"|(?:\bmax(?:imum|\.)?|满分|滿分|满点)(?:[ \t]+\w+){0,2}[ \t]*[:=]?[ \t]*)\Z",
    re.IGNORECASE,
)
"""What makes of the number behind it another one than a score: a comparison, a time, the largest number of some scale."""
_PLAIN = regex(r"\d*(?:\.\d+)?")
_THOUSANDS = regex(r"\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,}")
_DECIMAL_COMMA = regex(r"\d+,\d{1,2}")

_EMPHASIS = regex(r"(?<![^\W_])[*_`~]+(?=\S)|(?<=\S)[*_`~]+(?![^\W_])|\$")
_FRACTION = regex(r"\\[dt]?frac[ \t]*\{([^{}]{1,20})\}[ \t]*\{([^{}]{1,20})\}")


def number_ends(scale: Scale) -> Ends:
    """The ends of a scale whose values are numbers; None for another one."""
    values = scale.values()
    if not values:
        return scale.bounds()
    numbers = [value for value in values if is_number(value)]
    return (min(numbers), max(numbers)) if len(numbers) == len(values) else None


def strip_markup(text: str) -> str:
    """The text without Markdown's emphasis and TeX around numbers."""
    if not any(mark in text for mark in "*_`~$\\"):
        return text
    return _EMPHASIS.sub("", _FRACTION.sub(r"\1/\2", text).replace("\\%", "%"))


MENTION = "\0"
"""What a text has for each character of a mention of the scale, such as "from 1 to 10"."""


def mask_mentions(text: str, ends: Ends) -> str:
    """The text as long as it was, in ASCII's digits and marks, without what only names the ends of the scale."""
    plain = _OTHER_SCRIPT.sub(_in_ascii, text)
    if ends is None:
        return plain
    return _mentions(ends).sub(lambda match: match[1] or MENTION * len(match[0]), plain)


def _in_ascii(match: re.Match[str]) -> str:
    marks = match[0].translate(_ASCII)
    return "".join(str(unicodedata.decimal(char, char)) for char in marks)


@lru_cache(maxsize=64)
def _mentions(ends: tuple[float, float]) -> re.Pattern[str]:
    """Finds fractions, which are no mentions, as group 1, and mentions of the scale's ends."""
    number_patterns = [(r"[-−]" if end < 0 else "") + f"{abs(end):.15g}" for end in ends]
    low, high = (rf"(?<![\w.])(?<!\d[,:]){end}(?:[.,]0+)?(?!\w|[.,]\d)" for end in number_patterns)
    meaning = r"[ \t]*(?:[=:]|is|being|means?|meaning)[ \t]*[^\d\n]{1,40}"
    best = r"[ \t]*(?:=|is|being|means?|meaning)[ \t]*(?:the[ \t]+)?(?:best|worst|highest|lowest|perfect|excellent|maximum|minimum|top)\b"
    return re.compile(
        rf"((?<![\w.]){_DIGITS}{_DIVIDED}{_DIGITS})"
        rf"|{low}{_TO}{high}|{high}{_TO}{low}|(?<=[\[({{]){number_patterns[0]}[ \t]*[,;][ \t]*{number_patterns[1]}(?=[\])}}])"
        rf"|{low}{meaning}{high}(?=[ \t]*(?:[=:]|is\b|being\b|means?\b|meaning\b)[ \t]*[^\W\d])"
        rf"|(?:{low}|{high}){best}|\b(?:where|with)[ \t]+(?:{low}|{high})(?=[ \t]*(?:=|is\b))"
        rf"|(?:\bout[ \t]+of{_TOTAL}|\bscale[ \t]+of|/)[ \t]*{_MARKUP}{high}"
        rf"|{high}[ \t]*-[ \t]*(?:points?|pts?|stars?|levels?)\b"
        rf"|(?:\bmax(?:imum|\.)?|满分|滿分|满点)[ \t]*[:=]?[ \t]*{high}(?=[ \t]*[)\]）])",
        re.IGNORECASE,
    )


def read_number(text: str, ends: Ends = None) -> Decimal | None:
    """The number that the whole text is, None for any other text."""
    numbers = find_numbers(mask_mentions(text, ends), ends)
    if len(numbers) != 1 or (numbers[0].start, numbers[0].end) != (0, len(text)):
        return None
    return numbers[0].value


def find_numbers(text: str, ends: Ends = None) -> list[WrittenNumber]:
    """The numbers in a text with masked mentions of the scale."""
    return list(_numbers(text, ends))


def _numbers(text: str, ends: Ends) -> Iterator[WrittenNumber]:
    end = 0
    while begins := _BEGINS.search(text, end):
        match = _EXPRESSION.match(text, begins.start())
        end = begins.end() if match is None else match.end()
        if match is not None:
            yield _written_number(match, text[max(0, begins.start() - 60) : begins.start()], ends)


def _written_number(match: re.Match[str], before: str, ends: Ends) -> WrittenNumber:
    value = _parsed(match["number"].lower())
    start = match.start()
    if sign := _SIGN.search(before):
        start -= len(sign[0])
        before = before[: sign.start()]
        value = -value if value is not None and sign[0] != "+" else value
    elif (dash := _DASH.search(before)) and (dash["dash"] == "−" or (ends and ends[0] < 0)):
        value = None  # a minus, or a dash between a label and its number
    if match["doubt"] is not None or match["further"]:
        value = None
    elif match["total"]:
        value = _quotient(value, _parsed(match["total"].lower()), ends)
    elif _DOUBTFUL.search(before):
        value = None
    elif match["percent"]:
        value = _share(value, ends)
    return WrittenNumber(start, match.end(), value)


def _parsed(text: str) -> Decimal | None:
    mantissa, *exponent = text.split("e")
    if _DECIMAL_COMMA.fullmatch(mantissa):
        mantissa = mantissa.replace(",", ".")
    elif _THOUSANDS.fullmatch(mantissa):
        mantissa = mantissa.replace(",", "")
    elif not _PLAIN.fullmatch(mantissa) or len(mantissa) > LONGEST_NUMBER:
        return None
    return Decimal(f"{mantissa}e{exponent[0]}" if exponent else mantissa)


_HUNDRED_PERCENT: dict[Ends, int] = {(0, 1): 1, (0, 100): 100}


def _share(percent: Decimal | None, ends: Ends) -> Decimal | None:
    whole = _HUNDRED_PERCENT.get(ends)
    return None if percent is None or whole is None else percent * whole / 100


def _quotient(part: Decimal | None, total: Decimal | None, ends: Ends) -> Decimal | None:
    if part is None or total is None or not 0 < total < 10**15 or ends is None:
        return None
    if float(total) == ends[1]:
        return part
    return part / total if ends == (0, 1) else None


def format_decimal(number: Decimal) -> str:
    """The number in plain digits."""
    return str(int(number)) if number == int(number) else f"{number:f}"


_QUOTES = "\"'`“”‘’"


def strip_quotes(text: str) -> str:
    """The text without surrounding white space and quotes and without one final period; never empty for a text."""
    text = text.strip()
    inner = text.strip(_QUOTES).strip()
    if inner.endswith(".") and not inner.endswith(".."):
        inner = inner[:-1].strip().strip(_QUOTES).strip()
    return inner or text


def fold_case(text: str) -> str:
    """The bare text in one case."""
    return strip_quotes(text).casefold()


_NORMALIZATIONS: tuple[Callable[[str], str], ...] = (str, str.strip, strip_quotes, fold_case)


def match_value(text: str, tokens: Tokens) -> tuple[Any] | None:
    """(value,) of the (token, value) pair that the text names, ignoring as little as possible.

    None when it names none, or several with what had to be ignored.
    """
    for normalize in _NORMALIZATIONS:
        word = normalize(text)
        values = [value for token, value in tokens if normalize(token) == word]
        if values:
            return (values[0],) if all(value == values[0] for value in values) else None
    return None


_ANSWERS = frozenset(("yes", "no", "true", "false"))
_LABELS = _ANSWERS | {
    "correct", "incorrect", "right", "wrong", "safe", "unsafe", "harmful", "harmless", "toxic", "pass", "fail",
    "passed", "failed", "valid", "invalid", "positive", "negative", "neutral", "spam", "ham", "error",
    "hallucination", "hallucinated", "faithful", "factual", "supported", "unsupported", "refuted", "entailment",
    "contradiction", "refusal", "compliance", "relevant", "irrelevant", "attributable", "consistent", "inconsistent",
    "accept", "reject", "accepted", "rejected", "tie", "win", "loss",
}  # fmt: skip
_COMPARISON = regex(r"\S+\s*(?:[<>=]=?)+\s*\S+")
_NEGATED = regex(r"(?:not|no|non|without)[\s_-]+")


def are_labels(words: Sequence[str]) -> bool:
    """Whether the words, worst first, look like labels of which none is better: `yes` or `no` at an end, a comparison such
    as `A>B`, or two words that are labels or a word and its negation."""
    plain = [fold_case(word) for word in words]
    if any(_COMPARISON.fullmatch(word) for word in plain) or _ANSWERS & {plain[0], plain[-1]}:
        return True
    if len(plain) != 2:
        return False
    shorter, longer = sorted(plain, key=len)
    negated = longer.endswith(shorter) and _NEGATED.fullmatch(longer[: -len(shorter)]) is not None
    return negated or _LABELS.issuperset(plain)


def quote_value(value: Any) -> str:
    """A value of a reply in a message, cut to 200 characters. The message may be shown to the model, so nothing but a text
    is spelled as in Python."""
    if isinstance(value, str):
        return f"{value!r:.200}"
    try:
        return f"{json.dumps(value, ensure_ascii=False, default=str):.200}"
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"  # nested too deeply


def parse_number(text: str, ends: Ends = None) -> Decimal | None:
    """The number that the bare text writes, None when it is not one number, or when it is not clear which."""
    return read_number(strip_quotes(text), ends)
