"""How people write a number: signs, decimal marks, fractions, percentages, "out of", and mentions of the scale itself.

Every reader of a number in a text comes here, so that a score is read as it is meant or not at all. A value of a scale is
read ignoring case, surrounding spaces and quotes, and a final period.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from verdict_cli.language.scales import Scale


Ends = tuple[float, float] | None
"""The smallest and the largest number of a scale; None where there is no scale of numbers."""


class WrittenNumber(NamedTuple):
    """A number in a text, from ``start`` to ``end``. ``value``: None where what is meant is in doubt. ``whole``: it is
    written in digits alone, with zeros at most behind the point. ``mention``: it names an end of the scale."""

    start: int
    end: int
    value: Decimal | None
    whole: bool = False
    mention: bool = False


LONGEST_NUMBER = 400
"""The longest number that is read: no float is longer."""
_SPACES = " \u00a0\u2007\u2009\u202f"
_POINTS, _COMMAS = ".٫·．", ",，"
_DASHES = "-−–—－﹣‐‑‒―⁻"
_ATOM = re.compile(
    rf"(?<![\w.])(?:\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?![\d.,])|\d+(?:[{_POINTS}{_COMMAS}'’٬_。]\d+)*|[{_POINTS}]\d+)?"
    r"(?:(?<=\d)[eE][-+]?\d{1,3}|(?<=\d)?[¼-¾⅐-⅞])?"
)
_BEGINS = re.compile(rf"[\d{_POINTS}¼-¾⅐-⅞]")
_PLAIN = re.compile(r"\d*(?:\.\d+)?")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,}")
_DECIMAL_COMMA = re.compile(r"\d+,\d{1,2}")
_WHOLE = re.compile(r"\d+(?:,\d{3})*(?:\.0+)?")
_MIXED = re.compile(r"[ \t](\d)[/⁄](\d)(?!\d)")
_CONTINUED = re.compile(rf"[{_DASHES}/⁄∕.]")

_SIGN = re.compile(rf"(?P<sign>[{_DASHES}+＋﹢])(?P<gap>[ \t]*)\Z")
_NEGATIVE = re.compile(r"\b(?:minus|negative|neg\.?|moins|menos|meno)[ \t]+\Z", re.IGNORECASE)
_PERCENT = re.compile(r"[ \t]*(?:[%％﹪٪]|(?:percent|per[ \t]?cent|pct|prozent)\b)", re.IGNORECASE)
_MARKUP = r"(?:</?[a-z][^<>\n]{0,20}>)?"
_OUT_OF = (
    r"out[ \t]+of(?:[ \t]+(?:an?|the|possible|maximum|max\.?|total|of|full|perfect|score|top))*"
)
_OF = (
    rf"{_OUT_OF}"
    r"|of(?:[ \t]+(?:the|a[ \t]+possible))?|over|von|sur|su|de|di|av|af|van|из"
)
_DIVIDED = re.compile(
    rf"{_MARKUP}[ \t]*(?:(?:points?|pts?\.?|stars?|marks?)[ \t]*)?,?[ \t]*[(\[]?[ \t]*(?:[/⁄∕÷／][ \t]*|(?:{_OF})[ \t]+){_MARKUP}\Z",
    re.IGNORECASE,
)
_RANGE = re.compile(
    rf"(?:[ \t]*\([^()\d\n]{{0,30}}\))?(?:[ \t]*(?:[{_DASHES}~〜～]|\.\.\.?|…)[ \t]+|[{_DASHES}~〜～]|\.\.\.?|…"
    rf"|[ \t]+(?:(?:up[ \t]+)?to|through|thru|until|bis|à|or|and)[ \t]+)[{_DASHES}+]?\Z",
    re.IGNORECASE,
)
_LISTED_ENDS = re.compile(r"[ \t]*[,;][ \t]*\Z")
_NAMED_END = re.compile(
    r"[ \t]*(?:[=:]|is|being|means?|meaning)[ \t]*[^\d\n]{1,40}\Z", re.IGNORECASE
)
_IS_NAMED = re.compile(
    r"[ \t]*(?:[=:]|is\b|being\b|means?\b|meaning\b)[ \t]*[^\W\d]", re.IGNORECASE
)
_BEST = re.compile(
    r"[ \t]*(?:=|is|being|means?|meaning)[ \t]*(?:the[ \t]+)?(?:best|worst|highest|lowest|perfect|excellent|maximum|minimum|top)\b",
    re.IGNORECASE,
)
_WHERE = re.compile(r"\b(?:where|with)[ \t]+\Z", re.IGNORECASE)
_DENOMINATOR = re.compile(
    rf"(?:[/⁄∕÷／][ \t]*|\b{_OUT_OF}[ \t]+|\bscale[ \t]+of[ \t]+){_MARKUP}\Z", re.IGNORECASE
)
_LARGEST = re.compile(
    r"(?:\bmax(?:imum|\.)?|满分|滿分|满点)(?:[ \t]+\w+){0,2}[ \t]*[:=]?[ \t]*\Z", re.IGNORECASE
)
_POINT_SCALE = re.compile(r"[ \t]*[-‐‑][ \t]*(?:points?|pts?|stars?|levels?)\b", re.IGNORECASE)
_COMPOUND = re.compile(r"[-‐‑][^\W\d_]")

_EMPHASIS = re.compile(r"(?<![^\W_])[*_`~]+(?=\S)|(?<=\S)[*_`~]+(?![^\W_])|\$")
_FRACTION = re.compile(r"\\[dt]?frac[ \t]*\{([^{}]{1,20})\}[ \t]*\{([^{}]{1,20})\}")


def number_ends(scale: Scale) -> Ends:
    """The ends of a scale whose values are numbers; None for another one."""
    values = scale.values()
    if not values:
        return scale.bounds()
    numbers = [
        value for value in values if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return (min(numbers), max(numbers)) if len(numbers) == len(values) else None


def without_markup(text: str) -> str:
    """The text without Markdown's emphasis and TeX around numbers."""
    if not any(mark in text for mark in "*_`~$\\"):
        return text
    return _EMPHASIS.sub("", _FRACTION.sub(r"\1/\2", text).replace("\\%", "%"))


def read_number(text: str, ends: Ends = None) -> Decimal | None:
    """The number that the whole text is, None for any other text."""
    numbers = list(_numbers(text, ends))
    if (
        len(numbers) != 1
        or numbers[0].mention
        or (numbers[0].start, numbers[0].end) != (0, len(text))
    ):
        return None
    return numbers[0].value


def find_numbers(text: str, ends: Ends = None) -> list[WrittenNumber]:
    """The numbers in a text. Those that only name the ends of the scale are mentions, which are never an answer."""
    return list(_numbers(text, ends))


def _numbers(text: str, ends: Ends) -> Iterator[WrittenNumber]:
    atoms = [_signed(text, match, ends) for match in _digits(text)]
    index = 0
    while index < len(atoms):
        number = atoms[index]
        following = atoms[index + 1] if index + 1 < len(atoms) else None
        index += 1
        if following is not None:
            between = text[number.end : _unsigned(text, following)]
            joined = _joined(text, number, following, between, ends)
            if joined is not None:
                index += 1
                while index < len(atoms) and _CONTINUED.fullmatch(
                    text[joined.end : _unsigned(text, atoms[index])]
                ):
                    joined = joined._replace(
                        end=atoms[index].end, value=None, mention=False
                    )  # such as a date
                    index += 1
                yield joined
                continue
        yield _alone(text, number, ends)


def _digits(text: str) -> Iterator[re.Match[str]]:
    """The numbers without their signs. Most of a text has none, and a search for one character is fast."""
    end = 0
    while begins := _BEGINS.search(text, end):
        match = _ATOM.match(text, begins.start())
        end = max(begins.end(), match.end() if match else 0)
        if match and match[0]:
            yield match


def _signed(text: str, match: re.Match[str], ends: Ends) -> WrittenNumber:
    """A number with its sign."""
    start, end = match.span()
    written = _ascii(match[0])
    value = _parsed(written)
    before = text[max(0, start - 12) : start]
    sign = _SIGN.search(before)
    if sign is not None:
        begin = start - len(sign[0])
        previous = text[begin - 1 : begin]
        tight = not sign["gap"]
        negative = sign["sign"] not in "+＋﹢"
        if tight and not (previous.isalnum() or previous == "_"):
            start, value = begin, -value if value is not None and negative else value
        elif (
            negative
            and (sign["sign"] in "−－﹣⁻" or (ends is not None and ends[0] < 0))
            and not previous.isdigit()
        ):
            value = None  # a minus, or a dash between a label and its number
    elif _NEGATIVE.search(before) is not None:
        start, value = start - len(_NEGATIVE.search(before)[0]), None if value is None else -value  # type: ignore[index]
    return WrittenNumber(start, end, value, _WHOLE.fullmatch(written) is not None)


def _unsigned(text: str, number: WrittenNumber) -> int:
    """Where the digits of a number begin."""
    return number.start + (text[number.start] in _DASHES + "+＋﹢")


def _ascii(text: str) -> str:
    marks = text.translate(
        {**{ord(mark): "." for mark in _POINTS}, **{ord(mark): "," for mark in _COMMAS}}
    )
    return "".join(
        str(digit) if (digit := unicodedata.decimal(char, None)) is not None else char
        for char in marks
    )


def _parsed(written: str) -> Decimal | None:
    mantissa, *exponent = re.split("[eE]", written)
    if _DECIMAL_COMMA.fullmatch(mantissa):
        mantissa = mantissa.replace(",", ".")
    elif _THOUSANDS.fullmatch(mantissa):
        mantissa = mantissa.replace(",", "")
    elif not _PLAIN.fullmatch(mantissa) or len(mantissa) > LONGEST_NUMBER:
        return None
    return Decimal(f"{mantissa}e{exponent[0]}" if exponent else mantissa)


def _joined(  # noqa: PLR0911 - a case for each way to join numbers
    text: str, first: WrittenNumber, second: WrittenNumber, between: str, ends: Ends
) -> WrittenNumber | None:
    """Two numbers that are one expression: a fraction, a range, a mention of the scale's ends."""
    start, end = first.start, second.end
    if len(between) > 60 or "\n" in between:
        return None
    are_ends = ends is not None and _same(first.value, ends[0]) and _same(second.value, ends[1])
    if _DIVIDED.fullmatch(between):
        again = re.match(r"[ \t]*[/⁄∕][ \t]*\d", text[end:]) or _PERCENT.match(text, end)
        value = None if again else _quotient(first.value, second.value, ends)
        return WrittenNumber(
            start,
            end,
            value,
            first.whole and second.whole and (value is None or value == int(value)),
        )
    if _RANGE.fullmatch(between):
        if between.strip().lower() == "and" and not re.search(
            r"\bbetween[ \t]+\Z", text[:start], re.IGNORECASE
        ):
            return None
        reversed_ends = (
            ends is not None and _same(first.value, ends[1]) and _same(second.value, ends[0])
        )
        mention = (are_ends or reversed_ends) and between.strip().lower() != "or"
        return WrittenNumber(start, end, None, mention=mention)
    if not are_ends:
        return None
    bracketed = text[start - 1 : start] in ("[", "(", "{") and text[end : end + 1] in (
        "]",
        ")",
        "}",
    )
    if (_LISTED_ENDS.fullmatch(between) and bracketed) or (
        _NAMED_END.fullmatch(between) and _IS_NAMED.match(text, end)
    ):
        return WrittenNumber(start, end, None, mention=True)
    return None


def _alone(text: str, number: WrittenNumber, ends: Ends) -> WrittenNumber:  # noqa: PLR0911 - a case for each sign of doubt
    """A number that is not joined to another one: with its percent sign, as a mention of an end, or in doubt."""
    start, end, value = number.start, number.end, number.value
    before, after = text[max(0, start - 60) : start], text[end : end + 60]
    percent = _PERCENT.match(text, end)
    if percent is not None:
        hundred = (
            None
            if ends is None
            else Decimal(100)
            if ends == (0, 1)
            else Decimal(1)
            if ends == (0, 100)
            else None
        )
        value = value / hundred if value is not None and hundred is not None else None
        return WrittenNumber(
            start, percent.end(), value, whole=False if value is None else value == int(value)
        )
    is_end = ends is not None and (_same(value, ends[1]) or _same(value, ends[0]))
    is_last = ends is not None and _same(value, ends[1])
    if _DENOMINATOR.search(before) or _POINT_SCALE.match(after):
        return number._replace(value=None, mention=is_last)
    if _LARGEST.search(before):
        return number._replace(
            value=None, mention=is_last and after.lstrip()[:1] in (")", "]", "）")
        )
    if is_end and (_BEST.match(after) or (_WHERE.search(before) and _IS_NAMED.match(after))):
        return number._replace(value=None, mention=True)
    in_pair = ends is not None and re.fullmatch(r"(\d+)[,;](\d+)", text[start:end])
    if (
        in_pair
        and (float(in_pair[1]), float(in_pair[2])) == ends
        and before[-1:] in ("[", "(", "{")
    ):
        return number._replace(value=None, mention=True)
    mixed = _MIXED.match(text, end)
    if mixed and mixed[1] < mixed[2]:  # 4 1/2
        return number._replace(value=None)
    if (
        _COMPOUND.match(after)
        or re.match(r":\d|‰", after)
        or re.search(r"(?:\d:|[≤≥≈±][ \t]*)\Z", before)
    ):
        return number._replace(value=None)
    return number


def _same(value: Decimal | None, end: float) -> bool:
    return value is not None and abs(value) < 10**15 and float(value) == end


def _quotient(part: Decimal | None, total: Decimal | None, ends: Ends) -> Decimal | None:
    if part is None or total is None or total <= 0 or ends is None:
        return None
    if _same(total, ends[1]):
        return part
    return part / total if ends == (0, 1) else None


def written_decimal(number: Decimal) -> str:
    """The number in plain digits."""
    return str(int(number)) if number == int(number) else f"{number:f}"


_QUOTES = "\"'`“”‘’"


def bare(text: str) -> str:
    """The text without surrounding white space and quotes and without one final period; never empty for a text."""
    text = text.strip()
    inner = text.strip(_QUOTES).strip()
    if inner.endswith(".") and not inner.endswith(".."):
        inner = inner[:-1].strip().strip(_QUOTES).strip()
    return inner or text


def folded(text: str) -> str:
    """The bare text in one case."""
    return bare(text).casefold()


_NORMALIZATIONS: tuple[Callable[[str], str], ...] = (str, str.strip, bare, folded)


def match_value(text: str, tokens: Sequence[tuple[str, Any]]) -> tuple[Any] | None:
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
_COMPARISON = re.compile(r"\S+\s*(?:[<>=]=?)+\s*\S+")
_NEGATED = re.compile(r"(?:not|no|non|without)[\s_-]+")


def are_labels(words: Sequence[str]) -> bool:
    """Whether the words, worst first, look like labels of which none is better: `yes` or `no` at an end, a comparison such
    as `A>B`, or two words that are labels or a word and its negation."""
    plain = [folded(word) for word in words]
    if any(_COMPARISON.fullmatch(word) for word in plain) or _ANSWERS & {plain[0], plain[-1]}:
        return True
    if len(plain) != 2:
        return False
    shorter, other = sorted(plain, key=len)
    negated = other.endswith(shorter) and _NEGATED.fullmatch(other[: -len(shorter)]) is not None
    return negated or _LABELS.issuperset(plain)


def quoted(value: Any) -> str:
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
    return read_number(bare(text), ends)
