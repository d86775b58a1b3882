"""`regex`: one pattern a field, read from free text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from verdict_cli.config_model import Issue, KeyRule, MessageAndHint, python_constructor
from verdict_cli.errors import ReplyError, UsageError
from verdict_cli.language.extractors.answer_text import drop_invisible, requested_tags
from verdict_cli.language.extractors.bound_extractor import BoundExtractor, Extractor, judged_fields
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    FieldType,
    PlainType,
    RecordType,
    ScaleType,
    Values,
)
from verdict_cli.language.scales import named_scales
from verdict_cli.language.scales.written_number import (
    MENTION,
    Ends,
    WrittenNumber,
    find_numbers,
    format_decimal,
    mask_mentions,
    number_ends,
    read_number,
    strip_markup,
)
from verdict_cli.messages import Reply, Request
from verdict_cli.regex import regex

_PLAIN = regex(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WHOLE = regex(r"[-+]?\d+(?:\.0+)?")
CONSTANTS = {"FIRST_INT": "first", "LAST_INT": "last", "FIRST_FLOAT": "first", "LAST_FLOAT": "last"}
"""Names of patterns for the first or the last number of a text; `…_INT` rejects a number that is not whole."""

TIMEOUT_S = 1.0
"""The longest that one pattern may search one reply. A pattern can backtrack for hours."""

MAX_EXPANDED_SIZE = 100_000
"""The largest pattern after its repetitions are written out, which is how `regex` compiles them: `a{100000}` takes 30 MB
and 30 ms, `a{1000000000}` all memory there is."""


_ONE = (
    "`regex` needs either `fields` or `pattern`",
    "such as `{type: regex, fields: {score: FIRST_INT}}`",
)


class RegexExtractor(Extractor):
    """One pattern a field; a capture group wins over the whole match."""

    key_rules = (
        KeyRule("", "", ("fields", "pattern"), *_ONE),
        KeyRule("pattern", "fields", (), *_ONE, at=""),
    )

    FIRST_INT: ClassVar[str] = "FIRST_INT"
    LAST_INT: ClassVar[str] = "LAST_INT"
    FIRST_FLOAT: ClassVar[str] = "FIRST_FLOAT"
    LAST_FLOAT: ClassVar[str] = "LAST_FLOAT"

    type: Literal["regex"] = "regex"
    """The type of extractor."""
    fields: dict[str, str] | None = None
    """A pattern for each field of the response, or `FIRST_INT`, `LAST_INT`, `FIRST_FLOAT`, `LAST_FLOAT`."""
    pattern: str | None = None
    """The pattern of a response of one field, instead of `fields`."""
    match: Literal["first", "last", "unique"] = "first"
    """Which match counts; `unique`: all matches must agree."""

    @python_constructor
    def __init__(
        self,
        pattern: str | None = None,
        *,
        fields: Mapping[str, str] | None = None,
        match: Literal["first", "last", "unique"] = "first",
        **keys: Any,
    ) -> None:
        if (pattern is None) == (fields is None):
            hint = "`RegexExtractor(pattern=RegexExtractor.FIRST_INT)`, or `fields={'score': …}` for several"
            raise UsageError("RegexExtractor takes either `pattern` or `fields`", hint=hint)
        if not isinstance(fields, Mapping | None):
            raise UsageError(
                f"RegexExtractor: `fields` is a mapping, not {fields!r:.80}",
                hint="`fields={'score': …}`",
            )
        keys |= {
            "pattern": pattern,
            "fields": None if fields is None else dict(fields),
            "match": match,
        }
        super().__init__(**keys)

    def validation_error(self, response: RecordType) -> Issue | None:
        """Every field needs a valid pattern and a type that text can have; every pattern needs a field."""
        if broken := self.broken_rule():
            return broken
        patterns = self._patterns(response)
        if self.pattern is not None and len(patterns) != 1:
            names = ", ".join(patterns) or "none"
            hint = "give a pattern for each, such as `fields: {score: FIRST_INT}`"
            return Issue(
                "pattern", f"`pattern` is for a response of one field, here are {names}", hint
            )
        for name, pattern in patterns.items():
            key = f"fields.{name}" if self.pattern is None else "pattern"
            if name not in response.fields:
                fields = ", ".join(response.fields)
                return Issue(key, f"the response has no field {name!r}", f"its fields are {fields}")
            error = _pattern_error(pattern)
            if error is not None:
                return Issue(key, *error)
        return _field_error(response, patterns)

    def _patterns(self, response: RecordType) -> dict[str, str]:
        if self.pattern is None:
            return self.fields or {}
        return dict.fromkeys(judged_fields(response), self.pattern)

    def bind(self, response: RecordType) -> BoundExtractor:
        patterns = self._patterns(response)
        needs_end = self.match != "first" or any(
            CONSTANTS.get(pattern) == "last" for pattern in patterns.values()
        )
        searches = {
            name: _search(patterns.get(name), kind, self.match)
            for name, kind in response.fields.items()
        }

        def read(reply: Reply, _: Request) -> Values:
            values, text = {}, drop_invisible(reply.text)
            for name, search in searches.items():
                try:
                    values[name] = search(text, reply.finish_reason == "length")
                except ReplyError as error:
                    raise ReplyError(f"{name}: {error.message}", kind=error.failure) from None
            return values

        tags = frozenset[str]().union(*map(requested_tags, patterns.values()))
        return BoundExtractor(response, read, whole=needs_end, kept_tags=tags)


def _field_error(response: RecordType, patterns: Mapping[str, str]) -> Issue | None:
    """A field that no pattern reads, or that text cannot have."""
    for name, kind in judged_fields(response).items():
        if name not in patterns:
            message = f"the field {name!r} has no pattern"
            return Issue("fields", message, f"add `{name}: …` to `fields`")
        if not isinstance(kind, PlainType | ScaleType):
            message = f"the field {name!r} of type {kind.type_name()} cannot be read from text"
            return Issue("fields", message, "use `structured`")
    return None


def _pattern_error(pattern: str) -> MessageAndHint | None:
    """(what is wrong, hint) of a pattern that cannot be compiled."""
    if pattern in CONSTANTS:
        return None
    if _expanded_size(pattern) > MAX_EXPANDED_SIZE:
        return (
            f"the repetition counts of {pattern[:80]!r} are too large",
            f"they may expand the pattern to {MAX_EXPANDED_SIZE:,} characters; use smaller counts, or + or *",
        )
    import regex

    try:
        regex.compile(pattern)
    except RecursionError:
        return f"{pattern[:40]!r}… is nested too deeply", "use fewer nested parentheses"
    except regex.error as error:
        return f"{pattern!r} is not a valid pattern: {error}", "patterns are regular expressions"
    return None


class _Match(NamedTuple):
    """What a pattern captured, and where. ``doubt``: the text around it where it is not a value of its own, else ""."""

    text: str
    end: int
    doubt: str = ""


def _search(pattern: str | None, kind: FieldType, match: str) -> Callable[[str, bool], Any]:
    if pattern is None:
        return lambda text, cut: text
    constant = CONSTANTS.get(pattern)
    ends = number_ends(kind.scale) if isinstance(kind, ScaleType) else None
    matches = _number_matches(ends) if constant else _pattern_matches(pattern, kind, ends)
    value = _value(kind, whole_number=bool(constant) and pattern.endswith("INT"))
    which = "unique" if match == "unique" else (constant or match)

    def search(text: str, cut: bool) -> Any:
        captures = matches(text)
        if not captures:
            raise ReplyError(f"{pattern!r} is not found in {text[:200]!r}")
        if which == "unique":
            values = [value(match) for match in captures]
            if any(other != values[0] for other in values):
                raise ReplyError(f"{pattern!r} is found with different values: {values!r:.200}")
            return values[0]
        chosen = captures[0] if which == "first" else captures[-1]
        if cut and kind != TEXT and chosen.end == len(text):
            raise ReplyError(f"{chosen.text!r} is where the reply was cut off")
        return value(chosen)

    return search


def _number_matches(ends: Ends) -> Callable[[str], list[_Match]]:
    """The numbers of a text that are not mentions of the scale."""

    def matches(text: str) -> list[_Match]:
        plain = strip_markup(text)
        captures = []
        for start, end, value in find_numbers(mask_mentions(plain, ends), ends):
            digits = plain[start:end]
            doubt = _within_word(plain, start, end)
            if value is None:
                doubt = doubt or _around(plain, start, end)
            elif not _PLAIN.fullmatch(digits):
                digits = format_decimal(value)
            captures.append(_Match(digits, len(text) if end == len(plain) else end, doubt))
        return captures

    return matches


def _pattern_matches(pattern: str, kind: FieldType, ends: Ends) -> Callable[[str], list[_Match]]:
    """What an author's own pattern captures in a text."""
    import regex  # here, because most pipelines have no pattern; unlike `re` it has a timeout

    compiled = regex.compile(pattern)
    numeric = kind in (INTEGER, NUMBER) or ends is not None

    def matches(text: str) -> list[_Match]:
        try:
            raw = list(compiled.finditer(text, timeout=TIMEOUT_S))
        except TimeoutError:
            raise ReplyError(f"the pattern {pattern!r} took longer than {TIMEOUT_S:g} s") from None
        plain = mask_mentions(text, ends) if numeric else text
        numbers = find_numbers(plain, ends) if numeric else []
        captures = []
        for match in raw:
            groups = range(1, len(match.groups()) + 1)
            group = next((number for number in groups if match.group(number) is not None), 0)
            start, end = match.span(group)
            if MENTION in plain[start:end]:
                continue
            doubt = _within_word(text, start, end) if start < end else ""
            if not doubt:
                doubt = _within_number(text, match.span(), (start, end), numbers, ends)
            captures.append(_Match(text[start:end], end, doubt))
        return captures

    return matches


def _within_number(
    text: str,
    match: tuple[int, int],
    capture: tuple[int, int],
    numbers: Sequence[WrittenNumber],
    ends: Ends,
) -> str:
    """The number around a capture that says less than all of it, such as `8/10` around 8; "" for another one."""
    captured = text[slice(*capture)]
    if not any(map(str.isdigit, captured)):
        return ""
    for number in numbers:
        is_inside = number.start <= capture[0] and capture[1] <= number.end
        is_longer = number.start < match[0] or number.end > match[1]
        if is_inside and is_longer:
            is_equal = number.value is not None and number.value == read_number(captured, ends)
            return "" if is_equal else _around(text, number.start, number.end)
    return ""


_HYPHENS = "-‐‑"
_GOES_ON = regex(rf"(?=(\w\w|\d[.,]\d|[^\W\d_][{_HYPHENS}][^\W\d_]))")
"""A word continues across a hyphen, a number across its mark, both across nothing."""


def _within_word(text: str, start: int, end: int) -> str:
    """The text around a captured text that is only a part of a longer word or number, "" for another one."""
    before = _goes_on(text[max(start - 2, 0) : start + 1], min(start, 2))
    after = _goes_on(text[end - 1 : end + 2], 1)
    return _around(text, start, end) if before or after else ""


def _goes_on(piece: str, cut: int) -> bool:
    return any(match.start() < cut < match.end(1) for match in _GOES_ON.finditer(piece))


def _around(text: str, start: int, end: int) -> str:
    return f"{text[max(0, start - 20) : end + 20]!r:.120}"


def _value(kind: FieldType, *, whole_number: bool) -> Callable[[_Match], Any]:
    def value(match: _Match) -> Any:
        if kind == TEXT:
            return match.text
        if match.doubt:
            raise ReplyError(
                f"{match.text!r:.80} is a part of a longer word, or not clearly one number: {match.doubt}",
                kind="off-scale",
            )
        if whole_number and not _WHOLE.fullmatch(match.text):
            raise ReplyError(f"{match.text!r} is not a whole number", kind="off-scale")
        if isinstance(kind, ScaleType):
            return kind.scale.read(match.text)
        if kind == TRUTH:
            return named_scales()["boolean"].read(match.text)
        number = read_number(match.text)
        try:
            if number is None:
                raise ValueError
            return kind.read(
                int(number)
                if number == int(number) and "e" not in match.text.lower()
                else float(number)
            )
        except (ValueError, OverflowError):
            raise ReplyError(f"{match.text!r:.80} is not of type {kind.type_name()}") from None

    return value


def _expanded_size(pattern: str) -> int:
    """An upper bound of the pattern's size with its repetitions written out, found without parsing it.

    Only the least count of a repetition is written out. One after a character or a set repeats that alone; any other one
    may repeat everything.
    """
    factor, size = 1, len(pattern)
    for repeated, digits in re.findall(r"(^|.)\{\s*(\d+)", pattern, re.DOTALL):
        count = max(1, int(digits[:12]))  # so many digits are too large by themselves
        if repeated.isalnum() or repeated in ("]", "."):
            size += count
        else:
            factor *= count
    return factor * size
