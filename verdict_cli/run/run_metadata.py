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
from verdict_cli.run.checked_data import keep_checked
from verdict_cli.run.digests import file_digest, with_spec_digest
from verdict_cli.run.job import RunJob, RunOptions
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.tables import TABLES
from verdict_cli.run_facts import Counts, RunFacts
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.datasets.dataset import UNDECIDED, Selection
from verdict_cli.storage.datasets.fingerprint import dataset_fingerprint, file_stamps
from verdict_cli.storage.paths import is_remote_url, path_of


def start_run(job: RunJob, database: Database) -> None:
    """Write the run's facts and pipeline into its directory, and what its tables are written from into its database."""
    if job.fresh:
        job.directory.discard()
    job.directory.write_facts(job.start)
    files = job.directory.write_spec(job.plan)
    database.put(
        "run",
        {"facts": job.start.as_json(), "files": files, "columns": job.table_columns.as_json()},
    )
    keep_checked(job, database)


def finish_run(job: RunJob, counts: Counts, status: str, wall_s: float) -> RunFacts:
    """The facts of the run as it ended, which are then in `run.json`."""
    facts = job.start.with_counts(counts, status, wall_s)
    files = [name for name in TABLES if (job.directory.path / name).is_file()]
    if status == "finished" or counts.calls:
        facts = structs.replace(
            facts, digests={name: file_digest(job.directory.path / name) for name in files}
        )
    facts = with_spec_digest(job.directory, facts)
    job.directory.put(*files)
    job.directory.write_facts(facts)
    return facts


def changed_dataset(job: RunJob, same_rows: Callable[[], bool]) -> DataError | None:
    """The error of a dataset whose files were rewritten while they were judged; None where they were not.

    ``same_rows`` compares the rows. It is called if the files were written to but are as before.
    """
    try:
        same_files = dataset_fingerprint(job.dataset, job.data.selection) == job.data.of_files
        if same_files and (file_stamps(job.dataset) == job.data.stamps or same_rows()):
            return None
    except DataError as error:
        return error
    return DataError(
        Problem(
            "dataset-changed",
            "the dataset was rewritten while it was judged: some rows may be of its former content",
            "judge it as it is now with --out NEW --reuse and this run's directory, and pay only for rows that differ",
            str(job.dataset.files[0]),
        )
    )


def run_fingerprint(plan: Plan, seed: int, replay: Path | None) -> str:
    """32 hex digits over the pipeline, the seed, and the content of the recording that answers."""
    recorded = ""
    if replay is not None:
        with recorded_file(replay).open("rb") as file:
            recorded = hashlib.file_digest(file, "blake2b").hexdigest()
    return hashlib.blake2b(
        f"{plan.fingerprint}|{seed}|{recorded}".encode(), digest_size=16
    ).hexdigest()


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
    if facts.shard:
        own += f"-{facts.shard.replace('/', '-of-')}"
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
        shard=shard_name(data.selection),
        skipped_bad_rows=data.skipped,
        warnings=tuple(
            dict.fromkeys((*plan.idle_gates, *(problem.message for problem in data.warnings)))
        ),
        nodes=node_fingerprints(plan, options.seed),
        calibrated=plan.calibrated,
        replay="" if options.replay is None else options.replay.name,
        id_column=options.dataset.id if data.selection.id == UNDECIDED else data.selection.id,
    )


def shard_name(selection: Selection) -> str:
    """`i/n`, "" for a whole run."""
    return f"{selection.shard}/{selection.shards}" if selection.shards > 1 else ""


def with_ids_of(
    options: RunOptions, facts: RunFacts, earlier: RunFacts | None
) -> tuple[RunOptions, RunFacts]:
    """The options and facts with the ids that the earlier run began with: another column that happens to identify the rows
    would make other rows of them."""
    named = options.dataset.id
    if earlier is None or facts.id_column in (earlier.id_column, named):
        return options, facts
    selection = structs.replace(options.data.selection, id=earlier.id_column)
    data = structs.replace(options.data, selection=selection)
    return replace(options, data=data), structs.replace(facts, id_column=earlier.id_column)


def resumed_facts(facts: RunFacts, earlier: RunFacts | None) -> RunFacts:
    """The facts with the start of the run and what was counted so far: those of the earlier run, else now."""
    if earlier is not None:
        return structs.replace(
            facts,
            started=earlier.started,
            wall_s=earlier.wall_s,
            other_prompts=earlier.other_prompts,
        )
    return structs.replace(facts, started=datetime.now(UTC).isoformat(timespec="seconds"))
