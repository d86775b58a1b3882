"""What features do at the steps of a run: their options, and calls that are answered later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from verdict_cli.errors import Problem
from verdict_cli.messages import JsonObject, Reply, Request
from verdict_cli.registry import feature_part
from verdict_cli.run_facts import RunFacts

if TYPE_CHECKING:
    from verdict_cli.llm.middleware.replies import OwnCalls
    from verdict_cli.plan.node import Plan
    from verdict_cli.run.estimate import Line
    from verdict_cli.run.job import Halt, RunJob, RunOptions
    from verdict_cli.run.model_client import ModelClient
    from verdict_cli.run.run_directory import RunDirectory
    from verdict_cli.storage.database.database import Database


class CallPool(Protocol):
    """Calls that are answered together, some time after they are made. Their replies are then in the run's database."""

    waiting: bool
    """Whether the run ends although calls are still to be answered."""

    async def defer(self, request: Request, digest: bytes) -> Reply | None:
        """The reply of a call, whose digest this is; None where it is made at once. Raises Pending where it is answered later."""

    async def start(self) -> None:
        """Take over what an earlier process left. Raises VerdictError."""

    async def answer(self) -> bool:
        """Have calls answered; False where no more can be answered now. Raises VerdictError."""

    async def close(self) -> None:
        """Close connections."""


class OtherEstimate(Struct, frozen=True):
    """What a run costs if its calls are answered in another way than one by one."""

    document: JsonObject
    """The estimate for `--json`."""
    sentence: str
    """The estimate as a line of `verdict estimate`."""
    phrase: str
    """What the run costs, in words, where its options choose that way; else ""."""


class RunHooks:
    """What a feature does at the steps of every run: it overrides what it needs.

    It is a frozen dataclass whose fields are the feature's options.
    """

    def check(self, options: RunOptions) -> None:
        """Raise UsageError where the run cannot be made with these options."""

    def check_resumed(self, options: RunOptions, directory: RunDirectory, start: RunFacts) -> None:
        """Raise UsageError where the directory's run, whose facts are ``start``, cannot be resumed with these options."""

    def pool(self, job: RunJob, own: OwnCalls, client: ModelClient, halt: Halt) -> CallPool | None:
        """What answers calls later than they are made; None where each is made at once."""
        return None

    def with_facts(self, facts: RunFacts, database: Database) -> RunFacts:
        """The facts of a run that has ended, with what its database says of the feature."""
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


def hook_classes() -> dict[str, type[RunHooks]]:
    """The hooks of features, by their names."""
    batches = feature_part("batches", "run_hooks.BatchOptions")
    return {} if batches is None else {"batches": batches}
