"""`structured`: the reply is a JSON object that satisfies the response schema."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal

import orjson

from verdict_cli.errors import ReplyError
from verdict_cli.extractors.keys import Extractor
from verdict_cli.extractors.reading import Reading, Trouble
from verdict_cli.fields import Record

if TYPE_CHECKING:
    from verdict_cli.values import Reply, Request

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_THINKING = re.compile(r"\A\s*<(think|thinking|reasoning)>(?:.*?</\1>)?", re.DOTALL)
_UNOPENED = re.compile(r"\A\s*(?![{<`]).*?</(?:think|thinking|reasoning)>", re.DOTALL)
"""The end of a reasoning block whose opening tag stands in the prompt's template, not in the reply."""
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_BEGUN = re.compile(r"\{\s*(?:[\"']|\w+\s*:)")
_BRACES = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)


class Structured(Extractor):
    """The reply is a JSON object that satisfies the response schema."""

    type: Literal["structured"] = "structured"
    """The kind of extractor."""

    def problem(self, response: Record) -> Trouble | None:
        """None: every response schema can be asked for."""
        return None

    def bind(self, response: Record) -> Reading:
        """Asks the provider for JSON by this schema and reads the object."""

        def read(reply: Reply, _: Request) -> dict[str, Any]:
            return response.read(json_object(reply.text, cut=reply.finish_reason == "length"))

        return Reading(response, read, json_schema=response.json_schema(), corrects=True, repaired=repaired)


def json_object(text: str, *, cut: bool = False) -> dict[str, Any]:
    """The JSON object in a reply: the whole text, else its last fenced block, else the last object in the prose.

    A reasoning block before it is passed over, and so are commas after the last item and line breaks within texts:
    what they mean is not in doubt. ReplyError when there is none, when the last one is broken, for
    NaN, for duplicate keys, and for prose that was `cut` off: the object in it may not be the last.
    """
    thinking = None if text.startswith("{") else _THINKING.match(text) or _UNOPENED.match(text)
    if thinking and thinking.re is _THINKING and not thinking[0].endswith(f"</{thinking[1]}>"):
        raise ReplyError("the reply ends within its reasoning")
    text = text[thinking.end() if thinking else 0 :].strip()
    try:
        return _object(_decoded(text))
    except RecursionError:
        raise ReplyError("the reply's JSON is nested too deeply") from None
    except ValueError:
        if cut:
            raise ReplyError("the reply's JSON has no end") from None
    blocks = [block for block in _FENCE.findall(text) if block.lstrip().startswith("{")]
    try:
        return _object(_decoded(blocks[-1].strip()))
    except (IndexError, ValueError, RecursionError):
        return _last_object(text)


def repaired(text: str) -> bool:
    """Whether `json_object` reads the text although it is no JSON object as it stands."""
    try:
        return not isinstance(orjson.loads(text), dict)
    except ValueError:
        return True


def _decoded(text: str) -> Any:
    """The text's value; ValueError where it is neither JSON nor JSON but for what is never in doubt."""
    try:
        value, end = _DECODER.raw_decode(text)
        if end == len(text):
            return value
    except ValueError:
        pass
    return _LENIENT.decode(_TRAILING.sub(lambda found: found[1] or "", text))


def _last_object(text: str) -> dict[str, Any]:
    """The last object in the prose. A broken one counts, with all that stands in it, so that no draft is read."""
    found: dict[str, Any] | None = None
    place = text.find("{")
    while place != -1:
        try:
            value, end = _DECODER.raw_decode(text, place)
            found = _object(value)
        except (ValueError, RecursionError):
            end = place + 1
            if _BEGUN.match(text, place):
                end = _closing(text, place)
                found = _mended(text[place:end])
        place = text.find("{", end)
    if found is None:
        raise ReplyError(f"the reply holds no readable JSON object: {text[:200]!r}")
    return found


def _mended(text: str) -> dict[str, Any] | None:
    try:
        return _object(_decoded(text))
    except (ValueError, RecursionError):
        return None


def _closing(text: str, place: int) -> int:
    """The place behind the brace that closes the one at `place`; the text's end where none does."""
    depth = 0
    for mark in _BRACES.finditer(text, place):
        depth += {"{": 1, "}": -1}.get(mark[0], 0)
        if not depth:
            return mark.end()
    return len(text)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ReplyError(f"the reply is no JSON object: {value!r:.200}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ReplyError("the reply's JSON gives one key twice")
    return made


def _refuse(constant: str) -> None:
    raise ReplyError(f"the reply's JSON holds {constant}, which is no number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)
_LENIENT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, strict=False)
