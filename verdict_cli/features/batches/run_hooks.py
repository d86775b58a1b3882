"""How a run sends its calls as batches: options, providers with a batch interface, what keeps it from doing so, the estimate."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.features.batches.adapters import batch_problem, export_problem, open_batch_api
from verdict_cli.features.batches.batch_facts import batches_of, read_batches, with_batches
from verdict_cli.features.batches.batch_keys import batch_key, batch_settings
from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import sum_usd
from verdict_cli.model import Model
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.plural import plural
from verdict_cli.run.hooks import CallPool, OtherEstimate, RunHooks
from verdict_cli.run.preflight import models_in_use, models_of
from verdict_cli.run_facts import RunFacts

if TYPE_CHECKING:
    from verdict_cli.features.batches.batch_api import BatchApi
    from verdict_cli.llm.middleware.replies import OwnCalls
    from verdict_cli.run.estimate import Line
    from verdict_cli.run.job import Halt, RunJob, RunOptions
    from verdict_cli.run.model_client import ModelClient
    from verdict_cli.run.run_directory import RunDirectory
    from verdict_cli.storage.database.database import Database

# `validate` loads these hooks. What only runs need is imported in their methods: the pool with its clients, asyncio, prices.


@dataclass(frozen=True)
class BatchOptions(RunHooks):
    """Which calls are sent as batches, and how."""

    every_model: bool = False
    """Send all calls as batches. Otherwise the calls of models with `batch` are."""
    fallback: bool = False
    """Call what a batch did not answer in the ordinary way."""
    detach: bool = False
    """Send what is ready, and do not wait."""
    export: Path | None = None
    """The file to which each batch is written in place of sending it."""

    def open_api(self, model: Model) -> BatchApi:
        """What takes the model's batches."""
        from verdict_cli.features.batches.providers import FileBatches

        return open_batch_api(model) if self.export is None else FileBatches(model, self.export)

    def takes(self, model: Model) -> bool:
        """Whether the model's calls are sent as batches."""
        return self._chooses(model) and not is_local(model.name)

    def _chooses(self, model: Model) -> bool:
        return self.every_model or batch_key(model) is not False

    def sends(self, plan: Plan) -> bool:
        """Whether a run of the plan sends batches."""
        return any(map(self._chooses, models_of(plan)))

    def check(self, options: RunOptions) -> None:
        if options.recording is not None:
            if self.every_model:
                hint = "give one of them"
                raise UsageError("--batch sends calls, and --replay makes none", hint=hint)
            return
        for node, message in self._problems(options.plan):
            hint = "set `batch: true` on models that have them only, and leave --batch out"
            raise UsageError(f"{node.id}: {message}", hint=hint)

    def check_resumed(self, options: RunOptions, directory: RunDirectory, start: RunFacts) -> None:
        """UsageError where batches of the run are in flight: their requests would be sent a second time."""
        path = directory.database
        if options.fresh or self.sends(options.plan) or not path.exists():
            return
        from verdict_cli.storage.database.database import Database
        from verdict_cli.storage.database.schema import DamagedError

        flying = []
        with (
            suppress(DataError, DamagedError),
            Database.open_foreign(path) as database,
        ):  # the run repairs a damaged one
            flying = [batch for batch in read_batches(database) if not batch.ended]
        if flying:
            raise UsageError(
                f"{directory.display_name} has {plural(len(flying), 'batch|batches')} in flight",
                hint="collect them by the command that sent them; or `verdict batch cancel RUN`, then `verdict batch fetch RUN`",
            )

    def pool(self, job: RunJob, own: OwnCalls, client: ModelClient, halt: Halt) -> CallPool | None:
        if not self.sends(job.plan):
            return None
        # Its clients of the providers take a while to import, which runs of ordinary calls need not wait for.
        from verdict_cli.features.batches.pool import BatchPool

        return BatchPool(self, job, own, client, halt)

    def with_facts(self, facts: RunFacts, database: Database) -> RunFacts:
        from verdict_cli.storage.database.schema import DamagedError

        with suppress(DamagedError):
            return with_batches(facts, database)
        return facts

    def model_problems(self, plan: Plan) -> Iterable[Problem]:
        for _, message in self._problems(plan):
            hint = "remove `batch` from it; a run is refused until then"
            yield Problem("model-cannot-answer", message, hint)

    def _problems(self, plan: Plan) -> Iterator[tuple[Node, str]]:
        """The nodes whose calls cannot be sent as batches although they should be, with the reason."""
        find_problem = batch_problem if self.export is None else export_problem
        for node, model, _ in models_in_use(plan):
            why = find_problem(model) if self._chooses(model) else None
            if why is not None:
                yield node, f"calls of model {model.name} cannot be sent as batches: {why}"

    def notices(self, facts: RunFacts, name: str, resume: str) -> Iterable[str]:
        """Say that batches continue at their provider without this process."""
        flying = [batch for batch in batches_of(facts) if not batch.ended]
        if not flying:
            return
        requests = sum(batch.requests for batch in flying)
        number = plural(len(flying), "batch|batches")
        yield f"{number} with {requests:,} requests in flight; `verdict batch cancel {shlex.quote(name)}` cancels them"
        if facts.status == "waiting":
            yield f"waiting for batches: {resume}"

    def estimate(self, plan: Plan, lines: Sequence[Line]) -> OtherEstimate | None:
        """The run as batches, where every request is answered at its first attempt and no unit stops early; None where a model of it
        has no batch interface."""
        models = models_of(plan)
        if not models or any(map(batch_problem, models)):
            return None
        from verdict_cli.llm.providers.price_book import BATCH_SHARE
        from verdict_cli.report.formatting import money

        count, ordinary_usd = _waves(plan), sum_usd(*[line.cost_usd for line in lines])
        cost_usd = None if ordinary_usd is None else BATCH_SHARE * ordinary_usd
        worst_h = count * max(batch_settings(model).wait_s for model in models) / 3600
        cost, waves = money(cost_usd), plural(count, "wave")
        return OtherEstimate(
            {"waves": count, "cost_usd": cost_usd, "worst_h": worst_h},
            f"as batches (--batch): {cost}, {waves} or more, {worst_h:g} hours at worst",
            f"about {cost} as batches in {waves} or more" if self.sends(plan) else "",
        )


def _waves(plan: Plan) -> int:
    """The most calls of which each waits for the one before. Early stopping, escalation and retries add some."""
    depths: dict[int, int] = {}
    for node in plan.nodes:
        depth = max((depths[parent] for parent in node.parents), default=0)
        if isinstance(node.work, LLMNode):
            depth += max(1, len(node.stages)) * node.work.reading.calls
        depths[node.index] = depth
    return max(depths.values(), default=0)
