"""`verdict batch`: look at, cancel, collect, export and import the batches of a run, without its pipeline."""

from __future__ import annotations

import re
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import asdict, replace
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypeVar

import typer

from verdict_cli.cli.console import print_error, print_json, print_report
from verdict_cli.cli.help_format import HelpCommand
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson, Config, Data, Yes, flatten_options
from verdict_cli.errors import ProviderError, UsageError
from verdict_cli.features.batches.batch_calls import CollectedBatch, Collector
from verdict_cli.features.batches.batch_facts import TO_FILE, BatchFacts, with_batches
from verdict_cli.features.batches.ledger import LEDGER, LOST, REQUESTS, BatchLedger, SentBatch, read_ledgers
from verdict_cli.features.batches.providers import FileBatches
from verdict_cli.features.batches.run_hooks import BatchOptions, open_batch_api
from verdict_cli.features.batches.waves import look_for
from verdict_cli.plural import plural
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.journal.partition import PARTS
from verdict_cli.storage.paths import is_remote_url, path_of

T = TypeVar("T")
CANCELLED = "cancelled"


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
        self._ledgers = read_ledgers(directory)

    @property
    def in_flight(self) -> int:
        """How many batches are in flight."""
        return sum(len(ledger.in_flight) for ledger in self._ledgers)

    async def look(self) -> list[tuple[BatchFacts, str]]:
        """Every batch, those in flight as their provider describes them now, and why a provider does not."""
        return [await _look_at(batch) for ledger in self._ledgers for batch in ledger.batches.values()]

    async def cancel(self) -> tuple[int, list[str]]:
        """Cancel every batch in flight: how many, and the messages of those that could not be.

        What a provider had answered before is collected by the next run. A batch that was never acknowledged is looked for
        first, for which no run may be writing to the directory.
        """
        count, errors = 0, []
        for ledger in self._ledgers:
            unsent = [batch for batch in ledger.in_flight if not batch.is_at_provider]
            if unsent:
                with ledger.directory.open_journal({}):
                    for batch in unsent:
                        count += await _settle_unsent(ledger, batch)
            for batch in ledger.in_flight:
                async with aclosing(open_batch_api(batch.sent_to)) as api:
                    try:
                        await api.cancel(batch.id)
                        count += 1
                    except ProviderError as error:
                        errors.append(f"{batch.id}: {error.message}")
        self._note()
        return count, errors

    async def fetch(self) -> list[CollectedBatch]:
        """Collect the batches that have ended into the journal. JournalError while a run is writing to it."""
        collected = []
        for ledger in self._ledgers:
            with ledger.directory.open_journal({}) as journal:
                collector = Collector(ledger, journal)
                for batch in filter(attrgetter("is_at_provider"), ledger.in_flight):
                    async with aclosing(open_batch_api(batch.sent_to)) as api:
                        state = await api.get(batch.id)
                        if state.ended:
                            collected.append(await collector.ended(batch, state, api))
        self._note()
        return collected

    async def import_results(self, results: Path) -> list[CollectedBatch]:
        """Read the results of exported requests into the journal. UsageError where they belong to none."""
        ledger, path = self._ledgers[0], self.directory.path
        waiting = [batch for batch in ledger.in_flight if batch.provider == TO_FILE]
        if not waiting:
            raise UsageError(f"{path} waits for no results", hint="verdict batch export writes requests")
        collected = []
        with self.directory.open_journal({}) as journal:
            collector = Collector(ledger, journal)
            for batch in waiting:
                api = FileBatches(batch.sent_to)
                if collector.matches(batch, results, api):
                    why = f"{results.name} has no result of it"
                    collected.append(await collector.file(batch, results, api, "imported", why))
        if not collected:
            raise UsageError(
                f"{results} has no result of the requests that {path} exported",
                hint="it takes one JSON object a line, with the `custom_id` of a request and its `response`",
            )
        self._note()
        return collected

    def _note(self) -> None:
        """Bring `run.json` up to date."""
        facts = self.directory.facts()
        if facts is not None:
            self.directory.write_facts(with_batches(facts, [fact for ledger in self._ledgers for fact in ledger.facts]))


async def _look_at(batch: SentBatch) -> tuple[BatchFacts, str]:
    if not batch.is_at_provider:
        return batch.facts, ""
    async with aclosing(open_batch_api(batch.sent_to)) as api:
        try:
            state = await api.get(batch.id)
        except ProviderError as error:
            return batch.facts, error.message
    return replace(batch.facts, status=state.status, answered=state.answered), ""


async def _settle_unsent(ledger: BatchLedger, batch: SentBatch) -> int:
    """Give up an exported file; find the id of a batch whose creation was not acknowledged, or give it up. Return how many
    were cancelled by that."""
    if batch.provider == TO_FILE:
        ledger.end(batch, CANCELLED)
        return 1
    async with aclosing(open_batch_api(batch.sent_to)) as api:
        state = await look_for(ledger, batch, api)
    if state is None:
        ledger.end(batch, LOST)
    else:
        ledger.sent(batch, state.id, state.status)
    return 0


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
        described = _run(batches.look())
    if as_json:
        print_json({"batches": [asdict(batch) for batch, _ in described]})
        return
    flying = sum(not batch.ended for batch, _ in described)
    print_report(f"{run}: {plural(len(described), 'batch|batches')}, {flying} in flight\n")
    for batch, problem in described:
        print_report(
            f"  wave {batch.wave}  {batch.provider}  {batch.model}  {batch.answered:,} of {batch.requests:,} answered  "
            f"{batch.status}  {batch.id}\n"
        )
        if problem:
            print_error(f"warning: {problem}")


@app.command("cancel", cls=HelpCommand)
def batch_cancel(run: RunFolder) -> None:
    """Cancel a run's batches in flight. What was answered before is kept; the same run command sends the rest again.

    Example: verdict batch cancel runs/nightly
    """

    with open_batches(run) as batches:
        count, errors = _run(batches.cancel())
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
        _tell(_run(batches.fetch()), batches.in_flight)


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
        if not results.is_file():
            raise UsageError(f"{results} is not a file", hint="name the results of the exported requests")
        _tell(_run(batches.import_results(results)), batches.in_flight)


def _tell(collected: list[CollectedBatch], in_flight: int) -> None:
    """Say what was collected, and what is missing."""
    answered, unanswered = sum(batch.answered for batch in collected), sum(batch.unanswered for batch in collected)
    print_report(
        f"{plural(len(collected), 'batch|batches')} collected: {answered:,} requests answered, "
        f"{unanswered:,} not; {in_flight} in flight\n"
    )
    for batch in collected:
        if batch.refusal is not None:
            raise batch.refusal
