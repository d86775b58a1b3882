"""The ways to ask for JSON by a schema, best first, and which of them an endpoint takes for a model."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Hashable
from typing import Literal

from verdict_cli.errors import Rejected
from verdict_cli.messages import Reply

JsonMode = Literal["schema", "tool", "words"]
"""The provider's JSON-schema output, a forced call of one tool, or an instruction below the last message."""

_NEXT: dict[JsonMode, JsonMode] = {"schema": "tool", "tool": "words"}
_NAMED = re.compile(r"response_format|json_schema|structured|schema|grammar|tool|function", re.IGNORECASE)
_REFUSALS = (400, 415, 422, 500, 501)


class JsonModeFallback:
    """Learns from refusals: a way that was refused is not tried again for the same endpoint and model."""

    def __init__(self) -> None:
        self._first: dict[Hashable, JsonMode] = {}
        self._proven: set[Hashable] = set()

    async def ask(self, where: Hashable, best: JsonMode, send: Callable[[JsonMode], Awaitable[Reply]]) -> Reply:
        """The reply, asked for in the first way that is not refused.

        A way that has brought a reply counts as refused only when the refusal names it. When every way is refused,
        the request itself is at fault: the first refusal is raised, and nothing is learned from it.
        """
        way = first = self._first.get(where, best)
        refused: Rejected | None = None
        while True:
            try:
                reply = await send(way)
            except Rejected as problem:
                refused = refused or problem
                if way not in _NEXT or not self._is_of_the_way(where, problem):
                    raise refused from None
                way = _NEXT[way]
                continue
            if way != first:
                self._first[where] = way
            self._proven.add(where)
            return reply

    def _is_of_the_way(self, where: Hashable, problem: Rejected) -> bool:
        if problem.failure != "rejected" or problem.status not in _REFUSALS:
            return False
        return where not in self._proven or _NAMED.search(problem.message) is not None
