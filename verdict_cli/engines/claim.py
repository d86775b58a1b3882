"""A run's name on its directory: before the first call, and when it has ended."""

from __future__ import annotations

from verdict_cli.engines.job import Job
from verdict_cli.engines.tally import Tally
from verdict_cli.values import RunFacts


def claim(job: Job) -> None:
    """Puts the run's name on its directory, which its journal's lock has made this process's alone.

    JournalError when it is another run's.
    """
    changed = None if job.fresh else job.directory.belongs_to(job.plan, job.start, update=job.update)[1]
    if job.fresh or changed is not None:
        job.directory.discard()
    job.directory.write_facts(job.start)
    job.directory.write_spec(job.plan)


def conclude(job: Job, tally: Tally, *, complete: bool, recorded: bool) -> RunFacts:
    """The facts of the run as it ended, once they stand in `run.json`. Baselines are no floors where a recording answered."""
    floors = () if recorded else tuple(sorted(name for name in tally.models if name.startswith("baseline/")))
    facts = tally.facts(job.start, "finished" if complete else "interrupted", floors=floors)
    job.directory.deliver(job.directory.results.name, job.directory.calls.name)
    job.directory.write_facts(facts)
    return facts
