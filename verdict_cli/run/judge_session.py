"""A judge that stays open: rows are judged one by one as they arrive, by the same calls as in a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from verdict_cli.config_model import display_value
from verdict_cli.errors import DataError, Problem
from verdict_cli.language.fields.types import RecordType
from verdict_cli.llm.middleware.budget import HaltedError
from verdict_cli.llm.middleware.chain import StopSignal
from verdict_cli.messages import Call, NamedValues, Result, Row
from verdict_cli.plan.node import Plan
from verdict_cli.plan.row_types import row_converter
from verdict_cli.run.attempts import Context
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.observer import RunObserver
from verdict_cli.run.row import run_observed_row, run_pinned
from verdict_cli.storage.datasets.dataset import rename_columns


class RowInputs:
    """Makes rows of mappings, as a dataset of the plan would."""

    def __init__(self, plan: Plan, folder: Path = Path()) -> None:
        keys = plan.resolved.get("dataset") or {}
        self._plan = plan
        self._columns: Mapping[str, str] = keys.get("columns") or {}
        self._id = str(keys.get("id", ""))
        self._folder = folder

    def row(self, values: NamedValues, index: int = 0) -> Row:
        """The values as row ``index``.

        DataError where a column that a unit uses is missing, `dataset.schema` is broken, or a prompt names a column in
        braces without `source.`. Columns that only metrics and gates use, such as labels, may be missing.
        """
        source: NamedValues = rename_columns(self._columns, values)
        for used in self._plan.columns:
            if used.asked and used.column not in source:
                columns = ", ".join(map(repr, source)) or "none"
                message = f"the row has no column {used.column!r}, which {used.location} uses"
                raise DataError(
                    Problem(
                        "missing-column",
                        message,
                        f"{used.hint and used.hint + '; '}its columns are {columns}",
                    )
                )
        for brace in self._plan.braces:
            if brace.column in source:
                raise DataError(brace.problem)
        types = self._plan.row_types
        if types is not None:
            present = RecordType(
                {name: kind for name, kind in types.fields.items() if name in source}
            )
            try:
                source = row_converter(present, self._folder, self._plan.fence)(source)
            except ValueError as error:
                raise DataError(Problem("schema", f"the row breaks the schema: {error}")) from None
        identity = source.get(self._id, index)
        if isinstance(identity, bool) or not isinstance(identity, str | int):
            message = f"the id column {self._id!r} holds {display_value(identity)}"
            raise DataError(Problem("bad-id", message, "an id is a string or an integer"))
        return Row(index, identity, source)


T = TypeVar("T")


class JudgeSession:
    """A plan with a client of its models, for one event loop: of `verdict judge`, `rank` and `serve`, and of Python.

    ``pinned`` are the calls of units that all rows share, which `open` makes.
    """

    def __init__(
        self,
        plan: Plan,
        client: ModelClient,
        *,
        seed: int = 0,
        observer: RunObserver | None = None,
        folder: Path = Path(),
        signal: StopSignal | None = None,
    ) -> None:
        self.plan = plan
        self.client = client
        self.pinned: tuple[Call, ...] = ()
        self._observer = observer or RunObserver()
        self._sources = RowInputs(plan, folder)
        chain = client.chain(self._observer, signal)
        self._context = Context(
            chain.ask,
            seed=seed,
            forget=chain.forget,
            recorded=client.recorded,
            unit=self._observer.unit,
        )

    async def open(self) -> JudgeSession:
        """Call the pinned units and return the session. PinnedError when one of them fails."""
        self._context.pinned, self.pinned = await run_pinned(self.plan, self._context)
        return self

    def row(self, given: NamedValues, index: int = 0) -> Row:
        """The values as row ``index``. DataError for a row that the pipeline cannot take."""
        return self._sources.row(given, index)

    async def judge(self, row: Row) -> Result:
        """The row's result. Raises Refused and BudgetError; any other failure is a value of the result."""
        return await run_observed_row(self.plan, row, self._context, self._observer)

    async def judge_all(
        self,
        rows: Sequence[NamedValues],
        convert: Callable[[Result], T],
        concurrency: int,
        first: int = 0,
    ) -> list[T]:
        """``convert`` of each row's result, in the rows' order. Rows are numbered from ``first``.

        An error, also one of ``convert``, cancels the rest and is raised. HaltedError where the signal to stop came first:
        rows whose calls are in flight get to their end.
        """
        inputs = [self.row(row, first + index) for index, row in enumerate(rows)]
        remaining = iter(inputs)
        converted: dict[int, T] = {}

        async def work() -> None:
            for row in remaining:
                with suppress(HaltedError):
                    converted[row.index] = convert(await self.judge(row))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, len(inputs))):
                    group.create_task(work())
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        if len(converted) < len(inputs):
            raise HaltedError("the rows are stopped")
        return [converted[row.index] for row in inputs]
