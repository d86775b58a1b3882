"""`structured`: the reply is a JSON object that satisfies the response schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import orjson

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.answer_text import (
    replace_surrogates,
    split_thoughts,
    strip_marks,
)
from verdict_cli.language.extractors.bound_extractor import BoundExtractor, Extractor
from verdict_cli.language.fields.types import RecordType, Values
from verdict_cli.language.scales.written_number import quote_value
from verdict_cli.messages import Reply, Request
from verdict_cli.regex import closing_brace, regex

_LONGEST_OPENING = 60
_OPENING = regex(r"```[\w-]*\s*")
_END = regex(r"\s*```")
_TRAILING = regex(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_LABELS = r"(?:score|rating|grade|verdict|choice|decision)"
_VALUE = (
    r"(?P<value>\d+(?:[.,/]\d+)*|(?:pass|fail)(?:ed)?\b|yes\b|no\b|true\b|false\b|(?-i:[A-Z])\b)"
)
_STATED = regex(
    r"(?:\b(?:i|we)\b(?:['’]d)?(?:[ \t]+\w+){0,3}?[ \t]+(?:rate|score|grade|give|assign|choose|pick|judge)\b"
    r"(?:[ \t]+(?:it|this|that|the[ \t]+\w+|as|at|an?|with))*"
    rf"|\b(?:my|our|the|actual|correct(?:ed)?|revised|updated|final|overall)[ \t]+(?:\w+[ \t]+)?(?:{_LABELS}|answer)[ \t]*"
    r"(?:is|:|=|-|–|should[ \t]+be)"
    rf"|^\W*{_LABELS}[ \t]*(?:=|-|–|is))[^\w\n]*{_VALUE}"
    rf"|^\W*(?:(?:my|final|overall|actual)[ \t]+)?{_LABELS}\W*:[^\w\n]*(?P<word>\w[\w.,/]*)",
    re.IGNORECASE | re.MULTILINE,
)
"""A value that prose states beside the object."""
_ESCAPE = regex(r"\\(?:([\"\\/bfnrt]|u[0-9a-fA-F]{4})|(.))", re.DOTALL)
_UNKNOWN_ESCAPES = {"'": "'"}
_BEGUN = regex(r"\{\s*(?:[\"']|\w+\s*:)")
_BRACES = regex(r'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)


class StructuredOutputExtractor(Extractor):
    """The reply is a JSON object that satisfies the response schema."""

    type: Literal["structured"] = "structured"
    """The type of extractor."""

    def bind(self, response: RecordType) -> BoundExtractor:
        def read(reply: Reply, _: Request) -> Values:
            return response.read(json_object(reply.text, cut=reply.finish_reason == "length"))

        return BoundExtractor(
            response,
            read,
            json_schema=response.json_schema(),
            corrects=True,
            deviates=repaired,
            thoughts="keep",
        )


def json_object(text: str, *, cut: bool = False) -> Values:
    """The one JSON object in a reply: the whole text, or in a code fence at the start or the end of the text, or on lines
    of its own at the text's end. Equal copies count once.

    A judge that notices an injected object may quote it, so an object anywhere else, or two objects that differ, are not
    read. A reasoning block before the answer is skipped; commas after the last item and line breaks within strings are
    accepted, because they are not ambiguous. ReplyError when no object can be read, when one is broken, for NaN, for
    duplicate keys, and for prose that was `cut` off.
    """
    text = strip_marks(text).strip()
    if not text.startswith("{"):
        text = split_thoughts(text, inline=False).answer.strip()
    try:
        return _object(_decoded(text))
    except RecursionError:
        raise ReplyError("the reply's JSON is nested too deeply") from None
    except ValueError:
        if cut:
            raise ReplyError("the reply's JSON has no end") from None
    return _only_object(text)


def repaired(text: str) -> bool:
    """Whether `json_object` reads the text although it is not exactly a JSON object."""
    try:
        return not isinstance(orjson.loads(text), dict)
    except ValueError:
        return True


def _decoded(text: str) -> Any:
    """The text's value; ValueError where it is not JSON even with the accepted deviations."""
    try:
        value, end = _DECODER.raw_decode(text)
        if end == len(text):
            return _scalars(value)
    except ValueError:
        pass
    return _scalars(_LENIENT.decode(_TRAILING.sub(_valid_escapes, text)))


def _valid_escapes(match: re.Match[str]) -> str:
    """A JSON string in which a backslash that JSON does not know, as in TeX's `\\(`, stands for itself; "" for a last comma."""
    return _ESCAPE.sub(
        lambda escape: (
            escape[0] if escape[1] else _UNKNOWN_ESCAPES.get(escape[2], rf"\\{escape[2]}")
        ),
        match[1] or "",
    )


def _scalars(value: Any) -> Any:
    """The value with U+FFFD for escapes of half a surrogate pair."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list):
        return [_scalars(item) for item in value]
    if isinstance(value, dict):
        return {replace_surrogates(key): _scalars(item) for key, item in value.items()}
    return value


def _only_object(text: str) -> Values:
    """The one object of a text, if it is where an answer is."""
    only: Values | None = None
    canonical = ""
    is_answer, last = False, 0
    for start, end, value in _objects(text):
        if value is None:
            raise ReplyError(f"the reply holds a broken JSON object: {text[start : start + 200]!r}")
        text_of_value = json.dumps(value, sort_keys=True)
        if only is not None and text_of_value != canonical:
            raise ReplyError(
                "the reply holds several JSON objects that differ; reply with one, and nothing else"
            )
        only, canonical = value, text_of_value
        is_answer = is_answer or _is_answer(text, start, end)
        last = end
    if only is None:
        raise ReplyError(f"the reply holds no readable JSON object: {text[:200]!r}")
    if not is_answer:
        raise ReplyError(
            "the reply's JSON object is within other text, where it may be a quotation; "
            "reply with the object, and nothing else"
        )
    values = set(map(_folded_value, _scalars_in(only)))
    for stated in _STATED.finditer(text, last):
        if _folded_value(stated["value"] or stated["word"]) not in values:
            raise ReplyError(
                f"the text behind the reply's JSON object states another value: {stated[0].strip()!r:.100}"
            )
    return only


def _scalars_in(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _scalars_in(item)
    else:
        yield value


def _folded_value(value: Any) -> str:
    """A value in one spelling: 4 and 4.0, true and yes and pass."""
    text = str(value).casefold().partition("/")[0].strip(".,")
    word = {
        "yes": "true",
        "pass": "true",
        "passed": "true",
        "no": "false",
        "fail": "false",
        "failed": "false",
    }.get(text, text)
    return word.removesuffix(".0")


def _objects(text: str) -> Iterator[tuple[int, int, Values | None]]:
    """Start, end and value of each object; None for one that is broken, which ends at its closing brace.

    Braces that do not begin an object (sets, formulas, `{}`) are skipped.
    """
    attempts = 0
    mark = _MAY_BEGIN.search(text)
    while mark is not None:
        start = mark.start()
        attempts += 1
        if attempts > _MOST_OBJECTS:
            raise ReplyError(
                f"the reply holds more than {_MOST_OBJECTS:,} JSON objects or beginnings of one"
            )
        try:
            value, end = _DECODER.raw_decode(text, start)
            if value:
                yield start, end, _scalars(value)
        except (ValueError, RecursionError):
            end = start + 1
            if _BEGUN.match(text, start):
                end = closing_brace(_BRACES, text, start)
                yield start, end, _parse_leniently(text[start:end])
        mark = _MAY_BEGIN.search(text, end)


def _is_answer(text: str, start: int, end: int) -> bool:
    """Whether the object is an answer, not a quotation: on lines of its own at the text's end, or in a code fence at the
    start or the end of the text."""
    opening = text.rfind("```", max(0, start - _LONGEST_OPENING), start)
    if (
        opening != -1
        and _OPENING.fullmatch(text, opening, start)
        and (mark := _END.match(text, end))
    ):
        start, end = opening, mark.end()
        if not text[:start].strip():
            return not text[end:].partition("\n")[0].strip()
    before = text[text.rfind("\n", 0, start) + 1 : start]
    return not before.strip() and not text[end:].strip()


def _parse_leniently(text: str) -> Values | None:
    try:
        return _object(_decoded(text))
    except (ValueError, RecursionError):
        return None


def _object(value: Any) -> Values:
    if not isinstance(value, dict):
        raise ReplyError(f"the reply is not a JSON object: {quote_value(value)}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> Values:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ReplyError("the reply's JSON has a duplicate key")
    return unique


def _refuse(constant: str) -> None:
    raise ReplyError(f"the reply's JSON holds {constant}, which is not a number")


_MAY_BEGIN = regex(r"\{(?=\s*[\"'}\w])")
_MOST_OBJECTS = 500
"""Each is read to where it breaks, so that their number bounds the time."""
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)
_LENIENT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, strict=False)
