"""Judging many rows of a ranking, with progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from verdict_cli.engines.tally import Progress, Tally
from verdict_cli.engines.warm import Warm
from verdict_cli.values import Result


class Judging:
    """A judge that counts. ``rows`` is how many it will judge at most."""

    def __init__(self, warm: Warm, rows: int, at_once: int, watch: Callable[[Progress], None]) -> None:
        self.tally = Tally(rows)
        self._warm = warm
        self._at_once = at_once
        self._watch = watch
        self._next = 0

    async def all(self, rows: Sequence[Mapping[str, Any]]) -> list[Result]:
        """The rows' outcomes, in their order. Rows are numbered on through all calls."""
        made = await self._warm.judge_all(rows, self._counted, self._at_once, self._next)
        self._next += len(rows)
        return made

    def _counted(self, result: Result) -> Result:
        self.tally.add(result)
        self._watch(self.tally.progress(self._warm.access.gates))
        return result
