"""`Judge`: a pipeline that stays ready, called row by row from anywhere."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Literal

from verdict_cli.config_model import checked_arguments
from verdict_cli.errors import RowError, UsageError
from verdict_cli.language.authoring.arguments import ModelLike, optional_path
from verdict_cli.messages import Result
from verdict_cli.python.background_loop import BackgroundJudge, JudgeConfig
from verdict_cli.python.judged import Judged, judged_or_raise, row_values
from verdict_cli.python.pipeline import Pipeline
from verdict_cli.run.outcome import reward_of
from verdict_cli.run.preflight import open_recording

NAN = float("nan")


class Judge:
    """A compound judge that stays ready: `judge(row)` in any thread, `await judge.acall(row)` in any event loop.

    All calls run in one event loop in a thread of the judge's own, so that they share connections, limits, the budget and
    the cache. `close`, or leaving `with`, ends it. A forked process gets a loop of its own.
    """

    @checked_arguments
    def __init__(
        self,
        pipeline: Pipeline,
        *,
        model: ModelLike | None = None,
        replay: str | Path | None = None,
        seed: int = 0,
        concurrency: int = 64,
        budget: float | None = None,
        cache: bool = False,
        reward: str | None = None,
    ) -> None:
        """Checks everything that needs no row: SpecError, or Refused for a model that cannot answer.

        ``budget`` in US dollars ends in BudgetError; ``cache`` shares replies with other runs; ``reward`` is the
        expression whose value `reward` gives, such as `output.score / 5`.
        """
        if not isinstance(pipeline, Pipeline):
            raise UsageError(f"Judge takes a Pipeline, not {pipeline!r:.80}", hint="`Judge(Pipeline('p') >> unit)`")
        if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
            raise UsageError(f"concurrency is {concurrency!r}, expected a whole number of at least 1")
        plan = pipeline.plan(model)
        recording = open_recording(optional_path("replay", replay), plan, priced=budget is not None)
        self._plan = plan
        self._reward_text = reward
        self._reward = None if reward is None else reward_of(plan, reward)
        self._config = JudgeConfig(plan, seed, concurrency, recording, budget, cache and recording is None)
        self._concurrency = concurrency
        self._lock = Lock()
        self._background: BackgroundJudge | None = None
        self._closed = False

    @classmethod
    def from_yaml(cls, source: str | Path, **options: Any) -> Judge:
        """The judge of a pipeline file, or of a YAML text (a string of several lines); options as for `Judge`."""
        return cls(Pipeline.from_yaml(source), **options)

    def __call__(self, row: Mapping[str, Any]) -> Judged:
        """The pipeline's output for the row. Raises its failure: ReplyError, Retryable, Rejected, RowError; and
        DataError for a row that lacks a column, Refused, BudgetError, PinnedError."""
        values = row_values(row)
        return judged_or_raise(
            self._plan, self._open_background().wait(lambda session: session.judge(session.row(values)))
        )

    async def acall(self, row: Mapping[str, Any]) -> Judged:
        """The same, awaited in the running event loop. Cancelling it ends the model calls."""
        values = row_values(row)
        return judged_or_raise(
            self._plan, await self._open_background().wait_async(lambda session: session.judge(session.row(values)))
        )

    def reward(self, rows: Iterable[Mapping[str, Any]], *, failures: Literal["raise", "nan"] = "raise") -> list[float]:
        """One number per row, in the rows' order; rows are judged concurrently.

        The number is that of the expression ``reward``, else what the last step gives: `score`, or its only field; a
        value of a scale counts as its number, a distribution as its expectation. A row that fails raises its failure,
        and the rows not yet judged are left; with `failures="nan"` its number is NaN, and so is that of a row without
        a verdict.
        """
        number, all_rows = self._number_of(failures), [row_values(row) for row in rows]
        return self._open_background().wait(lambda session: session.judge_all(all_rows, number, self._concurrency))

    async def areward(
        self, rows: Iterable[Mapping[str, Any]], *, failures: Literal["raise", "nan"] = "raise"
    ) -> list[float]:
        """The same, awaited in the running event loop."""
        number, all_rows = self._number_of(failures), [row_values(row) for row in rows]
        return await self._open_background().wait_async(
            lambda session: session.judge_all(all_rows, number, self._concurrency)
        )

    def close(self) -> None:
        """Ends the judge's event loop; calls in progress raise UsageError. May be called twice."""
        with self._lock:
            self._closed = True
            background, self._background = self._background, None
        if background is not None:
            background.stop()

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Judge({self._plan.name!r})"

    def _open_background(self) -> BackgroundJudge:
        with self._lock:
            if self._closed:
                raise UsageError("the judge is closed", hint="make a new one")
            if self._background is None or self._background.is_forked:
                self._background = BackgroundJudge(self._config)
                weakref.finalize(self, self._background.stop)
            return self._background

    def _number_of(self, failures: str) -> Callable[[Result], float]:
        """What turns an outcome into its number."""
        if failures not in ("raise", "nan"):
            raise UsageError(f"failures is {failures!r}", hint='it is "raise" or "nan"')
        reward = self._reward = self._reward or reward_of(self._plan)

        def number(result: Result) -> float:
            if failures == "raise":
                judged_or_raise(self._plan, result)
                return reward(result)
            try:
                return NAN if result.status != "ok" else reward(result)
            except RowError:
                return NAN

        return number
