"""What features do at the steps of a run: their options, engines by name, and calls that are answered later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from verdict_cli.errors import Problem
from verdict_cli.messages import Ask, Request
from verdict_cli.registry import Registry
from verdict_cli.run_facts import RunFacts

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan
    from verdict_cli.run.estimate import Line
    from verdict_cli.run.job import Halt, RunJob, RunOptions, Stop
    from verdict_cli.run.model_client import ModelClient
    from verdict_cli.run.progress import PendingCalls, Progress
    from verdict_cli.run.run_directory import RunDirectory
    from verdict_cli.storage.journal.journal import Journal


class DeferredCalls(Protocol):
    """Calls that are answered together, some time after they are made.

    ``ask`` raises Pending for a call that is not answered yet. The rows are run again and again, until none is pending.
    """

    ask: Ask
    forget: Callable[[Request], None]
    waiting: bool
    """Whether the run ends although calls are still to be answered."""

    def again(self, request: Request) -> bool:
        """As `Context.again`."""

    @property
    def retry(self) -> Callable[[Request], bool] | None:
        """As `again`, for the rows that failed; None where they stay failed."""

    @property
    def pending(self) -> PendingCalls:
        """The calls that are to be answered, for display."""

    async def start(self) -> None:
        """Take over what an earlier process left."""

    def begin_pass(self) -> None:
        """Collect the calls of another pass over the rows."""

    async def answer(self) -> bool:
        """Have the collected calls answered; False where nothing more can be answered now. Raises VerdictError."""

    async def close(self) -> None:
        """From now on, make no call and collect none."""

    def facts(self, facts: RunFacts) -> RunFacts:
        """The facts of the run with what is known of these calls."""


class OtherEstimate(Struct, frozen=True):
    """What a run costs if its calls are answered in another way than one by one."""

    document: dict[str, Any]
    """The estimate for `--json`."""
    sentence: str
    """The estimate as a line of `verdict estimate`."""
    phrase: str
    """The cost, told before a run."""


class RunHooks:
    """What a feature does at the steps of every run: it overrides what it needs.

    It is a frozen dataclass whose fields are the feature's options.
    """

    def check(self, options: RunOptions) -> None:
        """Raise UsageError where the run cannot be made with these options."""

    def check_resumed(self, options: RunOptions, directory: RunDirectory, start: RunFacts) -> None:
        """Raise UsageError where the directory's run, whose facts are ``start``, cannot be resumed with these options."""

    def check_claimed(self, job: RunJob, *, same: bool) -> None:
        """Raise UsageError where the earlier run of the directory cannot be taken over now.

        ``same``: its pipeline and dataset are those of this run."""

    def part_rows(self, options: RunOptions) -> int | None:
        """The rows of each part of a new run, where the feature decides that; 0 for a run that has one part."""
        return None

    def defers(self, options: RunOptions) -> bool:
        """Whether the run's calls are answered later than they are made."""
        return False

    def deferred_calls(self, job: RunJob, journal: Journal, client: ModelClient, halt: Halt) -> DeferredCalls:
        """The calls of a run that `defers`."""
        raise NotImplementedError

    def awaits(self, folder: RunDirectory) -> bool:
        """Whether calls that a part has made are still to be answered."""
        return False

    def add_facts(self, directory: RunDirectory, facts: RunFacts) -> RunFacts:
        """The facts with what is known of the calls of all parts."""
        return facts

    def model_problems(self, plan: Plan) -> Iterable[Problem]:
        """What would keep models from answering."""
        return ()

    def notices(self, facts: RunFacts, name: str, resume: str) -> Iterable[str]:
        """What the user is told of a run that has ended. ``name`` is its directory, ``resume`` says how it is resumed."""
        return ()

    def estimate(self, plan: Plan, lines: Sequence[Line]) -> OtherEstimate | None:
        """What a run of these calls costs with the feature; None where it cannot be used."""
        return None


RUN_HOOKS: Registry[type[RunHooks]] = Registry("verdict_cli.run", {}, "verdict_cli.run_hooks")


class Engine(Protocol):
    """Where rows are judged."""

    def check(self, options: RunOptions, directory: RunDirectory) -> None:
        """Raise UsageError where the engine cannot make the run."""

    def run(self, job: RunJob, stop: Stop, show: Callable[[Progress], None]) -> RunFacts:
        """Run the job and return its facts; `status` is `finished`, `waiting` or `interrupted`.

        The tables hold what is done whatever stopped the run, unless the disk refuses. Raises what stops a run: Refused,
        BudgetError, PinnedError, OutputError, DataError, JournalError.
        """


ENGINES: Registry[type[Engine]] = Registry("verdict_cli.run", {"local": "whole_run.LocalEngine"}, "verdict_cli.engines")


def hook_classes() -> dict[str, type[RunHooks]]:
    """The hooks of features and installed packages, by their names."""
    return {name: RUN_HOOKS[name] for name in RUN_HOOKS.names()}
