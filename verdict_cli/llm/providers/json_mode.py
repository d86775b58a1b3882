"""What an endpoint accepts, found out by asking: how JSON by a schema is requested, and how many log-probabilities."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import Rejected
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Model
from verdict_cli.regex import regex

JsonMode = Literal["schema", "tool", "json", "prompt"]
"""The provider's JSON-schema output, a forced call of one tool, its JSON output without a schema together with an instruction
after the last message, or that instruction alone."""

_OF_KEY: dict[str, JsonMode] = {
    "schema": "schema",
    "tool": "tool",
    "json": "json",
    "words": "prompt",
}


def chosen_mode(model: Model) -> JsonMode | None:
    """The mode that the model's `structured` key sets; None for `auto`."""
    return _OF_KEY.get(model.structured)


_NEXT: dict[JsonMode, JsonMode] = {"schema": "tool", "tool": "prompt"}
_PREVIOUS = {after: before for before, after in _NEXT.items()}
_NAMES_THE_MODE = regex(
    r"response_format|json_schema|structured|schema|grammar|tool|function", re.IGNORECASE
)
_REJECTING_STATUSES = (400, 415, 422, 500, 501)


_RETRY_AFTER = 100
"""Replies in a lesser mode before the next better one is tried again; ten times as many after each rejection."""


class JsonModeFallback:
    """Falls back to the next mode when one is rejected, remembers it for the endpoint and model, and tries the better one
    again later: a server may have been updated, or have rejected the mode for another reason."""

    def __init__(self) -> None:
        self._first: dict[Hashable, JsonMode] = {}
        self._proven: set[Hashable] = set()
        self._upward: dict[Hashable, _UpwardTrial] = {}

    def ask(
        self,
        request: Request,
        best: JsonMode,
        send: Callable[[JsonMode], Coroutine[Any, Any, Reply]],
    ) -> Coroutine[Any, Any, Reply]:
        """The reply, requested in the model's own mode, or as `_ask` finds one; a request without a schema has none."""
        if request.json_schema is None:
            return send("schema")
        mode = chosen_mode(request.model)
        if mode is not None:
            return send(mode)
        return self._ask(request.model.endpoint_key, best, send)

    async def _ask(
        self, target: Hashable, best: JsonMode, send: Callable[[JsonMode], Awaitable[Reply]]
    ) -> Reply:
        """The reply, requested in the first mode that is not rejected; no mode above ``best`` is tried.

        Once a mode has brought a reply, a rejection must name the mode to count against it. When every mode is rejected,
        the request itself is at fault: the first rejection is raised, and nothing is remembered.
        """
        mode = first = self._first.get(target, best)
        if mode != best and self._upward[target].is_due():
            better = _PREVIOUS[mode]
            try:
                reply = await send(better)
            except Rejected as error:
                if error.failure != "rejected":
                    raise
                self._upward[target].postpone()
            else:
                self._first[target], self._upward[target] = better, _UpwardTrial()
                return reply
        rejection: Rejected | None = None
        while True:
            try:
                reply = await send(mode)
            except Rejected as error:
                rejection = rejection or error
                if mode not in _NEXT or not self._is_about_the_mode(target, error):
                    raise rejection from None
                mode = _NEXT[mode]
                continue
            if mode != first:
                self._first[target] = mode
                self._upward.setdefault(target, _UpwardTrial())
            self._proven.add(target)
            return reply

    def _is_about_the_mode(self, target: Hashable, error: Rejected) -> bool:
        is_named = _NAMES_THE_MODE.search(error.message) is not None
        return _is_rejection(error) and (target not in self._proven or is_named)


def _is_rejection(error: Rejected) -> bool:
    """Whether an argument may have been rejected, not the content."""
    return error.failure == "rejected" and error.status in _REJECTING_STATUSES


def lesser_mode(mode: JsonMode, error: Rejected) -> JsonMode | None:
    """The mode to use after a rejection; None where the rejection does not name the mode, or there is no lesser one."""
    return (
        _NEXT.get(mode) if _is_rejection(error) and _NAMES_THE_MODE.search(error.message) else None
    )


class TopLogprobsLimit:
    """Lowers the number of alternatives that are requested at each position to what an endpoint takes, and remembers it."""

    def __init__(self) -> None:
        self._most: dict[Hashable, int] = {}

    async def ask(
        self, target: Hashable, request: Request, ask: Callable[[Request], Awaitable[Reply]]
    ) -> Reply:
        """The reply to a request for log-probabilities. A rejection that names the most alternatives is followed by a
        request for so many; one that only names the parameter, by a request for fewer."""
        wanted = request.model.top_logprobs or request.top_logprobs
        count = min(wanted, self._most.get(target, wanted))
        while True:
            lowered = (
                request if count == request.top_logprobs else replace(request, top_logprobs=count)
            )
            try:
                return await ask(lowered)
            except Rejected as error:
                fewer = _fewer(count, error)
                if fewer is None:
                    raise
                self._most[target] = count = min(fewer, self._most.get(target, fewer))


def _fewer(count: int, error: Rejected) -> int | None:
    """How many alternatives to request after a rejection; None where it is about something else."""
    match = _TOP_LOGPROBS.search(error.message)
    if match is None or not _is_rejection(error):
        return None
    numbers = [int(number) for number in _NUMBER.findall(error.message[match.start() :])]
    most = max((number for number in numbers if 0 < number < count), default=0)
    return most or next((number for number in _USUAL_MOST if number < count), None)


_TOP_LOGPROBS = regex(
    r"top[_ ]?logprobs|\blogprobs\b[^.]{0,40}(less|most|max|between|<|range|exceed)", re.IGNORECASE
)
_NUMBER = regex(r"(?<![\w.])\d{1,2}(?![\w]|\.\d)")
_USUAL_MOST = (5, 1)


class _UpwardTrial(Struct):
    """When a better mode is tried again."""

    interval: int = _RETRY_AFTER
    left: int = _RETRY_AFTER

    def is_due(self) -> bool:
        """Count a request; whether it is the one that tries the better mode."""
        self.left -= 1
        if self.left > 0:
            return False
        self.left = self.interval
        return True

    def postpone(self) -> None:
        """Wait ten times as long, because the server has rejected it again."""
        self.interval *= 10
        self.left = self.interval
