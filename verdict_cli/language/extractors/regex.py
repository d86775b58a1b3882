"""`regex`: one pattern a field, read from free text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.bound_extractor import EXPLANATION, BaseExtractor, BoundExtractor, ExtractorIssue
from verdict_cli.language.fields.types import TEXT, TRUTH, FieldType, PlainType, RecordType, ScaleType
from verdict_cli.language.scales.boolean import Boolean

if TYPE_CHECKING:
    from verdict_cli.messages import Reply, Request

_NUMBER = r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?"
CONSTANTS = {"FIRST_INT": "first", "LAST_INT": "last", "FIRST_FLOAT": "first", "LAST_FLOAT": "last"}
"""Each names a number of the text, the first or the last one; `…_INT` then refuses a number that is not whole."""

TIMEOUT_S = 1.0
"""The longest that one pattern may search one reply."""

MAX_EXPANDED_SIZE = 100_000
"""The largest pattern after its repetitions are written out, which is how `regex` compiles them: `a{100000}` takes 30 MB
and 30 ms, `a{1000000000}` all memory there is."""


class Regex(BaseExtractor):
    """One pattern a field; a capture group wins over the whole match."""

    type: Literal["regex"] = "regex"
    """The kind of extractor."""
    fields: dict[str, str]
    """A pattern for each field of the response, or `FIRST_INT`, `LAST_INT`, `FIRST_FLOAT`, `LAST_FLOAT`."""
    match: Literal["first", "last", "unique"] = "first"
    """Which match counts; `unique`: all matches must agree."""

    def problem(self, response: RecordType) -> ExtractorIssue | None:
        """A pattern that is none, a field without a pattern, a pattern without a field, a type that text has not."""
        for name, pattern in self.fields.items():
            if name not in response.fields:
                return (
                    f"fields.{name}",
                    f"the response has no field {name!r}",
                    f"its fields are {', '.join(response.fields)}",
                )
            if pattern not in CONSTANTS:
                if _expanded_size(pattern) > MAX_EXPANDED_SIZE:
                    return (
                        f"fields.{name}",
                        f"the repetition counts of {pattern[:80]!r} are too large",
                        f"they may expand the pattern to {MAX_EXPANDED_SIZE:,} characters; use smaller counts, or + or *",
                    )
                import regex

                try:
                    regex.compile(pattern)
                except RecursionError:
                    return (
                        f"fields.{name}",
                        f"{pattern[:40]!r}… is nested too deeply",
                        "use fewer parentheses within each other",
                    )
                except regex.error as error:
                    return (f"fields.{name}", f"{pattern!r} is no pattern: {error}", "patterns are regular expressions")
        for name, kind in response.fields.items():
            if name not in self.fields and not (name == EXPLANATION and kind == TEXT):
                return ("fields", f"the field {name!r} has no pattern", f"add `{name}: …` to `fields`")
            if not isinstance(kind, PlainType | ScaleType):
                return (
                    "fields",
                    f"the field {name!r} of type {kind.spell()} cannot be read from text",
                    "use `structured`",
                )
        return None

    def bind(self, response: RecordType) -> BoundExtractor:
        """Searches the text once for each field."""
        searches = {name: _search(self.fields.get(name), kind, self.match) for name, kind in response.fields.items()}

        def read(reply: Reply, _: Request) -> dict[str, Any]:
            found = {}
            for name, search in searches.items():
                try:
                    found[name] = search(reply.text, reply.finish_reason == "length")
                except ReplyError as error:
                    raise ReplyError(f"{name}: {error.message}", kind=error.failure) from None
            return found

        late = self.match != "first" or any(CONSTANTS.get(pattern) == "last" for pattern in self.fields.values())
        return BoundExtractor(response, read, whole=late)


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


@dataclass(frozen=True, slots=True)
class _Found:
    text: str
    end: int
    whole: bool


def _search(pattern: str | None, kind: FieldType, match: str) -> Callable[[str, bool], Any]:
    if pattern is None:
        return lambda text, cut: text
    named = CONSTANTS.get(pattern)
    import regex  # here, because most pipelines have no pattern; unlike `re` it can be stopped

    compiled = regex.compile(_NUMBER if named else pattern)
    value = _value(kind, whole_number=bool(named) and pattern.endswith("INT"))
    which = "unique" if match == "unique" else (named or match)

    def search(text: str, cut: bool) -> Any:
        try:
            found = [_found(hit, text) for hit in compiled.finditer(text, timeout=TIMEOUT_S)]
        except TimeoutError:
            raise ReplyError(f"the pattern {pattern!r} took longer than {TIMEOUT_S:g} s") from None
        if not found:
            raise ReplyError(f"{pattern!r} is not found in {text[:200]!r}")
        if which == "unique":
            values = [value(one) for one in found]
            if any(other != values[0] for other in values):
                raise ReplyError(f"{pattern!r} is found with different values: {values!r:.200}")
            return values[0]
        one = found[0] if which == "first" else found[-1]
        if cut and kind != TEXT and one.end == len(text):
            raise ReplyError(f"{one.text!r} stands where the reply was cut off")
        return value(one)

    return search


def _found(hit: Any, text: str) -> _Found:
    """The captured text, and whether it is a whole word of the reply rather than a part of one."""
    group = next((place for place in range(1, len(hit.groups()) + 1) if hit.group(place) is not None), 0)
    start, end = hit.span(group)
    captured = text[start:end]
    inside = bool(captured) and (
        (start > 0 and _joined(text[start - 1 : start + 1]))
        or (end < len(text) and _joined(text[end - 1 : end + 1]))
        or (captured[-1].isdigit() and re.match(r"[.,]\d", text[end : end + 2]) is not None)
        or (captured[0].isdigit() and re.match(r"\d[.,]", text[max(start - 2, 0) : start]) is not None)
    )
    return _Found(captured, end, not inside)


def _joined(pair: str) -> bool:
    return all(letter.isalnum() or letter == "_" for letter in pair)


def _value(kind: FieldType, *, whole_number: bool) -> Callable[[_Found], Any]:
    def value(found: _Found) -> Any:
        if kind == TEXT:
            return found.text
        if not found.whole:
            raise ReplyError(f"{found.text!r} is only a part of a longer word or number", kind="off-scale")
        text = found.text.replace(",", "") if re.fullmatch(_NUMBER, found.text) else found.text
        if whole_number and not re.fullmatch(r"[-+]?\d+(?:\.0+)?", text):
            raise ReplyError(f"{found.text!r} is not a whole number", kind="off-scale")
        if isinstance(kind, ScaleType):
            return kind.scale.read(text)
        if kind == TRUTH:
            return Boolean().read(text)
        try:
            return kind.read(int(text) if text.lstrip("+-").isdecimal() else float(text))
        except ValueError:
            raise ReplyError(f"{found.text!r} is not of type {kind.spell()}") from None

    return value
