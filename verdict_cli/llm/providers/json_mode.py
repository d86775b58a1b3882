"""What an endpoint accepts, found out by asking: how JSON by a schema is requested, and how many log-probabilities."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Hashable
from typing import Literal

from msgspec.structs import replace

from verdict_cli.errors import Rejected
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Model

JsonMode = Literal["schema", "tool", "json", "prompt"]
"""The provider's JSON-schema output, a forced call of one tool, its JSON output without a schema together with an instruction
after the last message, or that instruction alone."""

_OF_KEY: dict[str, JsonMode] = {"schema": "schema", "tool": "tool", "json": "json", "words": "prompt"}


def chosen_mode(model: Model) -> JsonMode | None:
    """The mode that the model's `structured` key sets; None for `auto`."""
    return _OF_KEY.get(model.structured)


_NEXT: dict[JsonMode, JsonMode] = {"schema": "tool", "tool": "prompt"}
_NAMES_THE_MODE = re.compile(r"response_format|json_schema|structured|schema|grammar|tool|function", re.IGNORECASE)
_REJECTING_STATUSES = (400, 415, 422, 500, 501)


class JsonModeFallback:
    """Falls back to the next mode when one is rejected, and remembers it for the endpoint and model."""

    def __init__(self) -> None:
        self._first: dict[Hashable, JsonMode] = {}
        self._proven: set[Hashable] = set()

    async def ask(self, target: Hashable, best: JsonMode, send: Callable[[JsonMode], Awaitable[Reply]]) -> Reply:
        """The reply, requested in the first mode that is not rejected.

        Once a mode has brought a reply, a rejection must name the mode to count against it. When every mode is rejected,
        the request itself is at fault: the first rejection is raised, and nothing is remembered.
        """
        mode = first = self._first.get(target, best)
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
            self._proven.add(target)
            return reply

    def _is_about_the_mode(self, target: Hashable, error: Rejected) -> bool:
        if error.failure != "rejected" or error.status not in _REJECTING_STATUSES:
            return False
        return target not in self._proven or _NAMES_THE_MODE.search(error.message) is not None


class TopLogprobsLimit:
    """Lowers the number of alternatives that are requested at each position to what an endpoint takes, and remembers it."""

    def __init__(self) -> None:
        self._most: dict[Hashable, int] = {}

    async def ask(self, target: Hashable, request: Request, ask: Callable[[Request], Awaitable[Reply]]) -> Reply:
        """The reply to a request for log-probabilities. A rejection that names the most alternatives is followed by a
        request for so many; one that only names the parameter, by a request for fewer."""
        asked = min(request.top_logprobs, self._most.get(target, request.top_logprobs))
        while True:
            lowered = request if asked == request.top_logprobs else replace(request, top_logprobs=asked)
            try:
                return await ask(lowered)
            except Rejected as error:
                fewer = _fewer(asked, error)
                if fewer is None:
                    raise
                self._most[target] = asked = min(fewer, self._most.get(target, fewer))


def _fewer(asked: int, error: Rejected) -> int | None:
    """How many alternatives to request after a rejection; None where it is about something else."""
    if error.failure != "rejected" or error.status not in _REJECTING_STATUSES:
        return None
    named = _TOP_LOGPROBS.search(error.message)
    if named is None:
        return None
    numbers = [int(number) for number in _NUMBER.findall(error.message[named.start() :])]
    most = max((number for number in numbers if 0 < number < asked), default=0)
    return most or next((number for number in _USUAL_MOST if number < asked), None)


_TOP_LOGPROBS = re.compile(
    r"top[_ ]?logprobs|\blogprobs\b[^.]{0,40}(less|most|max|between|<|range|exceed)", re.IGNORECASE
)
_NUMBER = re.compile(r"(?<![\w.])\d{1,2}(?![\w]|\.\d)")
_USUAL_MOST = (5, 1)
