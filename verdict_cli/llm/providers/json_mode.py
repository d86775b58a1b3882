"""How JSON by a schema is requested, and which of the modes an endpoint accepts for a model."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Hashable
from typing import Literal

from verdict_cli.errors import Rejected
from verdict_cli.messages import Reply
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
