"""Several runs, one after another, that share limits, spending and cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from verdict_cli.messages import RunFacts
from verdict_cli.run.job import RunJob, Stop
from verdict_cli.run.local import loop_factory, run_within
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.progress import Progress
from verdict_cli.run.run_metadata import starting


@dataclass(frozen=True)
class PreparedRun:
    """A run to be made, and its facts where it was finished before."""

    name: str
    job: RunJob
    finished: RunFacts | None


def prepared(name: str, job: RunJob) -> PreparedRun:
    """The job, which goes on with what its directory holds. JournalError where that is another run's."""
    earlier = None if job.fresh else job.directory.belongs_to(job.plan, job.start)[0]
    done = earlier if earlier is not None and earlier.status == "finished" else None
    return PreparedRun(name, replace(job, start=starting(job.start, earlier)), done)


def run_several(
    jobs: Sequence[RunJob], stop: Stop, watch: Callable[[Progress], None], *, paid_usd: float = 0.0
) -> list[RunFacts]:
    """The facts of each run, in order; where one was interrupted it is the last.

    The first job's concurrency, recording, budget and store are those of all; `paid_usd` is what is spent of the budget
    already. Raises what `run` raises; runs that were finished before stay.
    """

    async def work() -> list[RunFacts]:
        first = jobs[0]
        access = ModelClient.open(
            concurrency=first.concurrency, recording=first.recording, budget_usd=first.budget_usd, store=first.store
        )
        access.spending.spent_usd += paid_usd
        done: list[RunFacts] = []
        try:
            for job in jobs:
                done.append(await run_within(job, stop, watch, access))
                if done[-1].status != "finished":
                    break
        finally:
            await access.close()
        return done

    if not jobs:
        return []
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work())
