"""`structured`: the reply is a JSON object that satisfies the response schema."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from verdict_cli.errors import ReplyError
from verdict_cli.extractors.reading import Reading, Trouble
from verdict_cli.fields import Record
from verdict_cli.keys import Keys
from verdict_cli.values import Reply, Request

_FENCE = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_THINKING = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)


class Structured(Keys):
    """The reply is a JSON object that satisfies the response schema."""

    type: Literal["structured"] = "structured"
    """The kind of extractor."""

    def problem(self, response: Record) -> Trouble | None:
        """None: every response schema can be asked for."""
        return None

    def bind(self, response: Record) -> Reading:
        """Asks the provider for JSON by this schema and reads the object."""

        def read(reply: Reply, _: Request) -> dict[str, Any]:
            return response.read(json_object(reply.text))

        return Reading(response, read, json_schema=response.json_schema(), corrects=True)


def json_object(text: str) -> dict[str, Any]:
    """The JSON object in a reply: the whole text, else its fenced block, else the last object in the prose.

    A reasoning block before it is passed over. ReplyError when there is none, for NaN and for duplicate keys.
    """
    text = _THINKING.sub("", text).strip()
    try:
        return _object(_DECODER.decode(text))
    except json.JSONDecodeError:
        pass
    except RecursionError:
        raise ReplyError("the reply's JSON is nested too deeply") from None
    for block in reversed(_FENCE.findall(text)):
        try:
            return _object(_DECODER.decode(block))
        except (json.JSONDecodeError, RecursionError):
            continue
    found = _last_object(text)
    if found is None:
        raise ReplyError(f"the reply holds no JSON object: {text[:200]!r}")
    return found


def _last_object(text: str) -> dict[str, Any] | None:
    found, place = None, text.find("{")
    while place != -1:
        try:
            value, end = _DECODER.raw_decode(text, place)
        except (json.JSONDecodeError, RecursionError):
            end = place + 1
        else:
            found = _object(value)
        place = text.find("{", end)
    return found


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
