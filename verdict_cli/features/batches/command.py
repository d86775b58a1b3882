"""`verdict batch`: look at, cancel, collect, export and import the batches of a run, without its pipeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypeVar

import typer
from msgspec import Struct

from verdict_cli.cli.console import print_error, print_json, print_report
from verdict_cli.cli.help_format import HelpCommand
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson, Config, Data, Yes, flatten_options
from verdict_cli.errors import ProviderError, Refused, UsageError
from verdict_cli.features.batches.batch_api import BatchApi, BatchState
from verdict_cli.features.batches.batch_calls import CollectedBatch, Collector, WaveJournal
from verdict_cli.features.batches.batch_facts import with_batches
from verdict_cli.features.batches.ledger import LEDGER, LOST, REQUESTS, BatchLedger, SentBatch
from verdict_cli.features.batches.providers import FileBatches
from verdict_cli.features.batches.run_hooks import TO_FILE, open_batch_api
from verdict_cli.features.batches.waves import Submitter
from verdict_cli.plural import plural
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.part_files import PARTS
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.paths import is_remote_url, path_of

T = TypeVar("T")
CANCELLED = "cancelled"


class LiveBatch(Struct, frozen=True):
    """A batch of the ledger, and what its provider says of it now: None where it was not asked, ``error`` where it failed."""

    batch: SentBatch
    state: BatchState | None = None
    error: str = ""


@contextmanager
def open_batches(run: str, *, change: bool = True) -> Iterator[RunBatches]:
    """The batches of the run in a directory, a path or a URL. ``change``: they are not only looked at, so that no run may be
    writing to a directory in a store. UsageError where there is no run."""
    if not is_remote_url(run):
        yield RunBatches(RunDirectory(Path(path_of(run))))
        return
    directory = RunDirectory.open_url(run)
    with ExitStack() as stack:
        if change:
            stack.enter_context(directory.lock())
        else:
            directory = RunDirectory(Path(stack.enter_context(TemporaryDirectory(prefix="verdict-"))), directory.remote)
        assert directory.remote is not None
        folder = directory.remote.folder
        needed = [name for place_name in ("run.json", LEDGER, REQUESTS, PARTS) for name in folder.names(place_name)]
        folder.get_all([name for name in needed if _NEEDED.fullmatch(name)], directory.path)
        yield RunBatches(directory)


_NEEDED = re.compile(rf"run\.json|({PARTS}/[0-9]{{6,}}/)?({re.escape(LEDGER)}|{REQUESTS}/.*)")


class RunBatches:
    """The batches of one run's directory, and of its parts."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        if directory.facts() is None:
            raise UsageError(
                f"{directory.display_name} is not the directory of a run", hint="name the directory that --out named"
            )
        self._folders = [FolderBatches(folder) for folder in batch_folders(directory)]

    @property
    def in_flight(self) -> int:
        """How many batches are in flight."""
        return sum(len(folder.ledger.in_flight) for folder in self._folders)

    def look(self) -> list[LiveBatch]:
        """Every batch, those in flight as their provider describes them now."""
        return [live for folder in self._folders for live in folder.look()]

    def cancel(self) -> tuple[int, list[str]]:
        """Cancel every batch in flight: how many, and the messages of those that could not be.

        What a provider had answered before is collected by the next run. A batch that was never acknowledged is looked for
        first, for which no run may be writing to the directory.
        """
        cancelled = [folder.cancel() for folder in self._folders]
        self._note()
        return sum(count for count, _ in cancelled), [error for _, errors in cancelled for error in errors]

    def fetch(self) -> list[CollectedBatch]:
        """Collect the batches that have ended into the journal. JournalError while a run is writing to it."""
        collected_batches = [collected for folder in self._folders for collected in folder.fetch()]
        self._note()
        return collected_batches

    def import_results(self, results: Path) -> list[CollectedBatch]:
        """Read the results of exported requests into the journal. UsageError where they belong to none."""
        collected_batches = [collected for folder in self._folders[:1] for collected in folder.import_results(results)]
        self._note()
        return collected_batches

    def _note(self) -> None:
        """Bring `run.json` up to date."""
        facts = self.directory.facts()
        if facts is not None:
            batches = [batch for folder in self._folders for batch in folder.ledger.facts]
            self.directory.write_facts(with_batches(facts, batches))


def batch_folders(directory: RunDirectory) -> list[RunDirectory]:
    """A run's directory, and those of its parts that have sent batches."""
    ledgers = sorted(directory.path.glob(f"{PARTS}/*/{LEDGER}"))
    return [directory, *(directory.below(f"{PARTS}/{path.parent.name}") for path in ledgers)]


class FolderBatches:
    """The batches of one ledger, in a run's directory or in that of a part."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self.ledger = BatchLedger.read(directory.path, store=directory)

    def look(self) -> list[LiveBatch]:
        """As `RunBatches.look`."""

        async def one(batch: SentBatch, api: BatchApi) -> LiveBatch:
            try:
                return LiveBatch(batch, await api.get(batch.id))
            except ProviderError as error:
                return LiveBatch(batch, error=error.message)

        results = _run(self._each(one))
        return [results.get(batch.number, LiveBatch(batch)) for batch in self.ledger.batches.values()]

    def cancel(self) -> tuple[int, list[str]]:
        errors: list[str] = []

        async def one(batch: SentBatch, api: BatchApi) -> bool:
            try:
                await api.cancel(batch.id)
            except ProviderError as error:
                errors.append(f"{batch.id}: {error.message}")
                return False
            return True

        count = 0
        if any(not batch.id or batch.provider == TO_FILE for batch in self.ledger.in_flight):
            journal = self.directory.open_journal({})
            try:
                count += _run(self._settle_unsent())
            finally:
                journal.close()
        count += sum(_run(self._each(one)).values())
        return count, errors

    def fetch(self) -> list[CollectedBatch]:
        journal = self.directory.open_journal({})
        try:
            collector = Collector(self.ledger, WaveJournal(journal, {}), journal.flush)

            async def one(batch: SentBatch, api: BatchApi) -> CollectedBatch | None:
                state = await api.get(batch.id)
                return await collector.ended(batch, state, api) if state.ended else None

            collected = [batch for batch in _run(self._each(one)).values() if batch is not None]
        finally:
            journal.close()
        return collected

    def import_results(self, results: Path) -> list[CollectedBatch]:
        if not results.is_file():
            raise UsageError(f"{results} is not a file", hint="name the results of the exported requests")
        waiting = [batch for batch in self.ledger.in_flight if batch.provider == TO_FILE]
        if not waiting:
            raise UsageError(f"{self.directory.path} waits for no results", hint="verdict batch export writes requests")
        journal = self.directory.open_journal({})
        try:
            collector = Collector(self.ledger, WaveJournal(journal, {}), journal.flush)
            collected = _run(self._import(collector, waiting, results))
        finally:
            journal.close()
        if not collected:
            raise UsageError(
                f"{results} has no result of the requests that {self.directory.path} exported",
                hint="it takes one JSON object a line, with the `custom_id` of a request and its `response`",
            )
        return collected

    async def _import(self, collector: Collector, waiting: list[SentBatch], results: Path) -> list[CollectedBatch]:
        collected = []
        for batch in waiting:
            api = FileBatches(batch.model)
            if collector.matches(batch, results, api):
                collected.append(
                    await collector.file(batch, results, api, "imported", f"{results.name} has no result of it")
                )
        return collected

    async def _settle_unsent(self) -> int:
        """Give up exported files; find the ids of batches whose creation was not acknowledged, or give them up."""
        count = 0
        for batch in self.ledger.in_flight:
            if batch.provider == TO_FILE:
                self.ledger.end(batch, CANCELLED)
                count += 1
            elif not batch.id:
                api = open_batch_api(batch.model)
                try:
                    state = await Submitter(self.ledger, lambda _, api=api: api).look_for(batch, api)  # type: ignore[misc]
                finally:
                    await api.close()
                if state is None:
                    self.ledger.end(batch, LOST)
                else:
                    self.ledger.sent(batch, state.id, state.status)
        return count

    async def _each(self, work: Callable[[SentBatch, BatchApi], Coroutine[Any, Any, T]]) -> dict[int, T]:
        """What ``work`` gives for each batch in flight at a provider, by its number."""
        results: dict[int, T] = {}
        for batch in self.ledger.in_flight:
            if batch.id and batch.provider != TO_FILE:
                api = open_batch_api(batch.model)
                try:
                    results[batch.number] = await work(batch, api)
                finally:
                    await api.close()
        return results


def first_refusal(collected: list[CollectedBatch]) -> Refused | None:
    """The first error that stops the run."""
    return next((batch.refusal for batch in collected if isinstance(batch.refusal, Refused)), None)


def _run(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)


app = typer.Typer(help="Show, cancel or collect the batches of a run.", rich_markup_mode=None, add_completion=False)
RunFolder = Annotated[
    str, typer.Argument(metavar="RUN", help="The directory of a run that sends batches: a path, or the URL of a store.")
]


@app.command("status", cls=HelpCommand)
def batch_status(run: RunFolder, as_json: AsJson = False) -> None:
    """Show a run's batches, those in flight as their provider describes them now.

    Example: verdict batch status runs/nightly
    """

    with open_batches(run, change=False) as batches:
        live_batches = batches.look()
    if as_json:
        print_json({"batches": [_document(live) for live in live_batches]})
        return
    flying = sum(not live.batch.ended for live in live_batches)
    print_report(f"{run}: {plural(len(live_batches), 'batch|batches')}, {flying} in flight\n")
    for live in live_batches:
        batch, state = live.batch, live.state
        status = batch.status if state is None else state.status
        answered = batch.answered if state is None else state.answered
        print_report(
            f"  wave {batch.wave}  {batch.provider}  {batch.model.name}  {answered:,} of {batch.requests:,} answered  "
            f"{status}  {batch.id}\n"
        )
        if live.error:
            print_error(f"warning: {live.error}")


def _document(live: Any) -> dict[str, Any]:
    document = asdict(live.batch.facts)
    if live.state is not None:
        document |= {"status": live.state.status, "answered": live.state.answered}
    return document


@app.command("cancel", cls=HelpCommand)
def batch_cancel(run: RunFolder) -> None:
    """Cancel a run's batches in flight. What was answered before is kept; the same run command sends the rest again.

    Example: verdict batch cancel runs/nightly
    """

    with open_batches(run) as batches:
        count, errors = batches.cancel()
    for error in errors:
        print_error(error)
    print_report(f"{plural(count, 'batch|batches')} cancelled\n")
    if errors:
        raise typer.Exit(4)


@app.command("fetch", cls=HelpCommand)
def batch_fetch(run: RunFolder) -> None:
    """Collect a run's batches that have ended, without running its pipeline.

    Example: verdict batch fetch runs/nightly
    """

    with open_batches(run) as batches:
        _tell(batches.fetch(), batches)


@app.command("export", cls=HelpCommand)
@flatten_options
def batch_export(
    config: Config,
    data: Data,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the requests are written, one a line.")],
    *,
    out: Annotated[str, typer.Option("--out", metavar="PATH|URL", help="The run's directory.")],
    how: RowOptions,
    yes: Yes = False,
) -> None:
    """Write the calls that are ready as a file of requests, in the form of OpenAI's batches; no provider is called.

    vLLM's `run_batch` and other tools answer such a file; `verdict batch import` reads the results. The same command then
    writes the next wave, and the report once nothing is left.

    Example: verdict batch export xstest xstest_sample wave.jsonl --out runs/offline --model hosted_vllm/qwen3
    """
    from verdict_cli.cli.run import RunCommand, judged_dataset
    from verdict_cli.cli.show_report import exit_code, show_report
    from verdict_cli.features.batches.run_hooks import BatchOptions

    chosen = {"batches": BatchOptions(every_model=True, detach=True, export=file)}
    try:
        report = judged_dataset(config, data, how, RunCommand(yes=yes), chosen, out=out)
    except typer.Exit as ended:
        if ended.exit_code != _WAITING:
            raise
        print_report(f"answer the requests, then: verdict batch import {out} RESULTS\n")
        return
    show_report(report, as_json=False)
    raise typer.Exit(exit_code(report))


_WAITING = 5


@app.command("import", cls=HelpCommand)
def batch_import(
    run: RunFolder, results: Annotated[Path, typer.Argument(metavar="RESULTS", help="The results, one a line.")]
) -> None:
    """Read the results of exported requests into a run.

    Example: verdict batch import runs/offline results.jsonl
    """

    with open_batches(run) as batches:
        _tell(batches.import_results(results), batches)


def _tell(collected: list[Any], batches: Any) -> None:
    """Say what was collected, and what is missing."""

    answered, unanswered = (sum(getattr(batch, name) for batch in collected) for name in ("answered", "unanswered"))
    left = batches.in_flight
    print_report(
        f"{plural(len(collected), 'batch|batches')} collected: {answered:,} requests answered, "
        f"{unanswered:,} not; {left} in flight\n"
    )
    refusal = first_refusal(collected)
    if refusal is not None:
        raise refusal
