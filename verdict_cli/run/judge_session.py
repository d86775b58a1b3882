"""A judge that stays ready: rows are judged one by one as they come, by the same calls as those of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from verdict_cli.llm.tracing import Spans
from verdict_cli.messages import Call, Result, Row
from verdict_cli.plan.node import Plan
from verdict_cli.run.attempts import Context
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.row import run_pinned, run_row
from verdict_cli.run.row_input import RowInputs

T = TypeVar("T")


class JudgeSession:
    """A plan with a way to its models, for one event loop. `verdict judge`, `rank` and `serve` and the Python API
    judge with it.

    ``pinned`` are the calls of units that all rows share, made once by `open`.
    """

    def __init__(
        self, plan: Plan, access: ModelClient, *, seed: int = 0, spans: Spans | None = None, folder: Path = Path()
    ) -> None:
        self.plan = plan
        self.access = access
        self.pinned: tuple[Call, ...] = ()
        self._spans = spans or Spans()
        self._sources = RowInputs(plan, folder)
        chain = access.chain(self._spans)
        self._context = Context(chain.ask, seed=seed, forget=chain.forget, unit=self._spans.unit)
        if access.recorded:
            self._context.again = lambda _: True

    async def open(self) -> JudgeSession:
        """The judge, once its pinned units are asked. PinnedError when one of them fails."""
        self._context.pinned, self.pinned = await run_pinned(self.plan, self._context)
        return self

    def row(self, given: Mapping[str, Any], index: int = 0) -> Row:
        """The row of that place. DataError for one that the pipeline cannot take."""
        return self._sources.row(given, index)

    async def judge(self, row: Row) -> Result:
        """The row's outcome. Raises Refused and BudgetError where the models may not be asked; any other failure is a
        value of the result."""
        with self._spans.row(row) as ended:
            result = await run_row(self.plan, row, self._context)
            ended(result.failure)
        return result

    async def judge_all(
        self, given: Sequence[Mapping[str, Any]], settle: Callable[[Result], T], at_once: int, first: int = 0
    ) -> list[T]:
        """What ``settle`` makes of each row's outcome, in the rows' order, so many rows side by side. What is raised,
        by ``settle`` too, cancels the rest. Rows are numbered from ``first``."""
        rows = [self.row(one, first + place) for place, one in enumerate(given)]
        left = iter(rows)
        found: dict[int, T] = {}

        async def work() -> None:
            for row in left:
                found[row.index] = settle(await self.judge(row))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(at_once, len(rows))):
                    group.create_task(work())
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        return [found[row.index] for row in rows]
