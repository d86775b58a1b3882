"""A run's fingerprint, directory and metadata at start and end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

from verdict_cli import __version__
from verdict_cli.errors import DataError, Problem
from verdict_cli.llm.providers.recorded_calls import recorded_file
from verdict_cli.plan.node import Plan
from verdict_cli.run.job import RunJob, RunOptions
from verdict_cli.run.part_files import rows_a_part
from verdict_cli.run.progress import RunStats
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.dataset import UNDECIDED
from verdict_cli.storage.datasets.fingerprint import dataset_fingerprint, file_stamps
from verdict_cli.storage.datasets.parquet import table_files
from verdict_cli.storage.paths import is_remote_url, path_of

AddFacts = Callable[[RunFacts], RunFacts]


def start_run(job: RunJob) -> None:
    """Write the run's facts and pipeline into its directory, whose journal this process has locked.

    JournalError when the directory belongs to another run. It is checked again because another process may have run
    there between `open_run` and the lock.
    """
    difference = None if job.fresh else job.directory.earlier_run(job.plan, job.start, update=job.update)[1]
    if job.fresh or difference is not None:
        job.directory.discard()
    job.directory.write_facts(job.start)
    job.directory.write_spec(job.plan)


def finish_run(
    job: RunJob, stats: RunStats, *, complete: bool, waiting: bool = False, add_facts: AddFacts | None = None
) -> RunFacts:
    """The facts of the run as it ended, which are then in `run.json`.

    Baseline models are named in them only where they answered, not a recording. ``waiting``: calls of it are
    still to be answered. ``add_facts`` adds what is known of such calls.
    """
    recorded = job.recording is not None
    floors = () if recorded else tuple(sorted(name for name in stats.models if name.startswith("baseline/")))
    facts = stats.facts(job.start, "finished" if complete else "waiting" if waiting else "interrupted", floors=floors)
    if add_facts is not None:
        facts = add_facts(facts)
    # The tables of parts are there as soon as they are finished.
    job.directory.put(*(path.name for path in (job.directory.results, job.directory.calls) if path.is_file()))
    job.directory.write_facts(facts)
    return facts


def changed_dataset(job: RunJob, same_rows: Callable[[], bool] | None = None) -> DataError | None:
    """The error of a dataset whose files were rewritten while they were judged; None where they were not.

    ``same_rows`` compares the rows with those that were judged. It is called if the files were written to but are as before,
    because a rewrite may have been undone.
    """
    try:
        same_files = dataset_fingerprint(job.dataset, job.data.selection) == job.data.of_files
        if same_files and (same_rows is None or file_stamps(job.dataset) == job.data.stamps or same_rows()):
            return None
    except DataError as error:
        return error
    return DataError(
        Problem(
            "dataset-changed",
            "the dataset was rewritten while it was judged: some rows may be of its former content",
            "the same command with --update judges it as it is now, and pays only for rows that it does not have",
            str(job.dataset.files[0]),
        )
    )


def run_fingerprint(plan: Plan, seed: int, replay: Path | None) -> str:
    """32 hex digits over the pipeline, the seed, and the content of the recording that answers."""
    recorded = ""
    if replay is not None:
        for part in table_files(recorded_file(replay)):
            with part.open("rb") as file:
                recorded += hashlib.file_digest(file, "blake2b").hexdigest()
    return hashlib.blake2b(f"{plan.fingerprint}|{seed}|{recorded}".encode(), digest_size=16).hexdigest()


def node_fingerprints(plan: Plan, seed: int) -> dict[str, str]:
    """Node id -> 16 hex digits over its fingerprint in the plan, and the seed."""
    return {
        node.id: hashlib.blake2b(f"{node.fingerprint}|{seed}".encode(), digest_size=8).hexdigest()
        for node in plan.nodes
    }


def run_directory(out: Path | str | None, facts: RunFacts) -> RunDirectory:
    """``out``, a path or a URL; None is a directory in `runs/` that no other pipeline and no other dataset has."""
    if out is not None and is_remote_url(str(out)):
        return RunDirectory.open_url(str(out))
    both = f"{facts.spec_fingerprint}{facts.data_fingerprint}".encode()
    own = f"{facts.name}-{hashlib.blake2b(both, digest_size=4).hexdigest()}"
    return RunDirectory(Path("runs") / own if out is None else Path(path_of(str(out))))


def first_facts(options: RunOptions) -> RunFacts:
    """The facts that are known before a run starts."""
    plan, data = options.plan, options.data
    return RunFacts(
        name=plan.name,
        status="running",
        config=options.config,
        dataset=options.source,
        spec_fingerprint=run_fingerprint(plan, options.seed, options.replay),
        data_fingerprint=data.fingerprint,
        version=__version__,
        started="",
        seed=options.seed,
        rows=data.rows,
        part_rows=_part_rows(options),
        skipped_bad_rows=data.skipped,
        warnings=tuple(dict.fromkeys(problem.message for problem in data.warnings)),
        nodes=node_fingerprints(plan, options.seed),
        calibrated=plan.calibrated,
        replay="" if options.replay is None else options.replay.name,
        id_column=options.dataset.id if data.selection.id == UNDECIDED else data.selection.id,
    )


def with_ids_of(options: RunOptions, facts: RunFacts, earlier: RunFacts | None) -> tuple[RunOptions, RunFacts]:
    """The options and facts with the ids that the earlier run began with: another column that happens to identify the rows
    would make other rows of them."""
    named = options.dataset.id
    if earlier is None or facts.id_column in (earlier.id_column, named):
        return options, facts
    selection = structs.replace(options.data.selection, id=earlier.id_column)
    data = structs.replace(options.data, selection=selection)
    return replace(options, data=data), replace(facts, id_column=earlier.id_column)


def _part_rows(options: RunOptions) -> int:
    """The rows of each part, 0 for a run in one part."""
    chosen = next((rows for hooks in options.hooks.values() if (rows := hooks.part_rows(options)) is not None), None)
    return rows_a_part(options.data.rows, options.part_rows) if chosen is None else chosen


def resumed_facts(facts: RunFacts, earlier: RunFacts | None) -> RunFacts:
    """The facts with the start of the run: that of the earlier run and its duration so far, else now; and with its parts."""
    if earlier is not None:
        same = (facts.spec_fingerprint, facts.data_fingerprint) == (earlier.spec_fingerprint, earlier.data_fingerprint)
        size = earlier.part_rows if same else facts.part_rows
        if earlier.part_rows > 0 and not same:
            size = earlier.part_rows if facts.rows > earlier.part_rows else 0
        return replace(facts, started=earlier.started, wall_s=earlier.wall_s, part_rows=size)
    return replace(facts, started=datetime.now(UTC).isoformat(timespec="seconds"))
