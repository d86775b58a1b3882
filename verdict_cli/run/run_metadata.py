"""A run's fingerprint, directory and metadata at start and end."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from verdict_cli import __version__
from verdict_cli.llm.providers.recording import CALLS
from verdict_cli.messages import RunFacts
from verdict_cli.plan.node import Plan
from verdict_cli.run.job import RunJob
from verdict_cli.run.progress import RunStats
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.datasets.dataset import DatasetFacts
from verdict_cli.storage.object_store.folder import is_remote_url, path_of


def start_run(job: RunJob) -> None:
    """Puts the run's name on its directory, which its journal's lock has made this process's alone.

    JournalError when it is another run's.
    """
    changed = None if job.fresh else job.directory.belongs_to(job.plan, job.start, update=job.update)[1]
    if job.fresh or changed is not None:
        job.directory.discard()
    job.directory.write_facts(job.start)
    job.directory.write_spec(job.plan)


def finish_run(job: RunJob, tally: RunStats, *, complete: bool, recorded: bool) -> RunFacts:
    """The facts of the run as it ended, once they stand in `run.json`. Baselines are no floors where a recording answered."""
    floors = () if recorded else tuple(sorted(name for name in tally.models if name.startswith("baseline/")))
    facts = tally.facts(job.start, "finished" if complete else "interrupted", floors=floors)
    job.directory.deliver(job.directory.results.name, job.directory.calls.name)
    job.directory.write_facts(facts)
    return facts


def run_fingerprint(plan: Plan, seed: int, replay: Path | None) -> str:
    """32 hex digits over the pipeline, the seed, and the content of the recording that answers."""
    recorded = ""
    if replay is not None:
        with recorded_file(replay).open("rb") as file:
            recorded = hashlib.file_digest(file, "blake2b").hexdigest()
    return hashlib.blake2b(f"{plan.fingerprint}|{seed}|{recorded}".encode(), digest_size=16).hexdigest()


def nodes(plan: Plan, seed: int) -> dict[str, str]:
    """Node -> 16 hex digits over what is asked there: its fingerprint in the plan, and the seed."""
    return {
        node.id: hashlib.blake2b(f"{node.fingerprint}|{seed}".encode(), digest_size=8).hexdigest()
        for node in plan.nodes
    }


def recorded_file(replay: Path) -> Path:
    """The file behind `--replay`: a run's calls, or the path itself."""
    return replay / CALLS if replay.is_dir() else replay


def default_directory(out: Path | str | None, facts: RunFacts) -> RunDirectory:
    """`--out`, a path or a URL, else a directory in `runs/` that no other pipeline and no other dataset has."""
    if out is not None and is_remote_url(str(out)):
        return RunDirectory.at(str(out))
    both = f"{facts.spec_fingerprint}{facts.data_fingerprint}".encode()
    own = f"{facts.name}-{hashlib.blake2b(both, digest_size=4).hexdigest()}"
    return RunDirectory(Path("runs") / own if out is None else Path(path_of(str(out))))


def new_facts(plan: Plan, data: DatasetFacts, named: tuple[str, str], seed: int, replay: Path | None) -> RunFacts:
    """What is known of a run before it starts; `named` are the pipeline file and the dataset as the user gave them."""
    return RunFacts(
        name=plan.name,
        status="running",
        config=named[0],
        dataset=named[1],
        spec_fingerprint=run_fingerprint(plan, seed, replay),
        data_fingerprint=data.fingerprint,
        version=__version__,
        started="",
        seed=seed,
        rows=data.rows,
        skipped_bad_rows=data.skipped,
        nodes=nodes(plan, seed),
        calibrated=plan.calibrated,
        replay="" if replay is None else replay.name,
    )


def starting(facts: RunFacts, earlier: RunFacts | None) -> RunFacts:
    """The facts with which a run starts, or goes on from an earlier one."""
    if earlier is not None:
        return replace(facts, started=earlier.started, wall_s=earlier.wall_s)
    return replace(facts, started=datetime.now(UTC).isoformat(timespec="seconds"))
