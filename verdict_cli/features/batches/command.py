"""`verdict batch`: look at, cancel, collect, export and import the batches of a run, without its pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from verdict_cli.cli.console import print_error, print_json, print_report
from verdict_cli.cli.help_format import HelpCommand
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson, Config, Data, Yes, flatten_options
from verdict_cli.errors import ProviderError, UsageError
from verdict_cli.features.batches.adapters import open_batch_api
from verdict_cli.features.batches.batch_api import BatchApi
from verdict_cli.features.batches.batch_facts import TO_FILE, SentBatch, read_batches, with_batches
from verdict_cli.features.batches.providers import FileBatches
from verdict_cli.features.batches.run_hooks import BatchOptions
from verdict_cli.features.batches.sent import RunBatches
from verdict_cli.model import Model
from verdict_cli.plural import plural
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.paths import path_of


def _directory(run: str) -> RunDirectory:
    """The directory of a run. UsageError where there is none."""
    directory = RunDirectory(Path(path_of(run)))
    if directory.facts() is None or not directory.database.is_file():
        raise UsageError(
            f"{run} is not the directory of a run", hint="name the directory that --out named"
        )
    return directory


@asynccontextmanager
async def _batches_of(
    run: str, open_api: Callable[[Model], BatchApi] = open_batch_api
) -> AsyncIterator[RunBatches]:
    """The batches of the run in a directory, to which no other process may be writing. `run.json` is then brought up to date."""
    directory = _directory(run)
    with (
        directory.lock(),
        Database.open(directory.database) as database,
    ):
        batches = RunBatches(database, directory.path, open_api)
        try:
            yield batches
        finally:
            await batches.aclose()
            await database.writer.flush()
            facts = directory.facts()
            assert facts is not None
            directory.write_facts(with_batches(facts, database))


async def _cancel(run: str) -> None:
    """Cancel every batch in flight. Exit code 4 where one could not be.

    What a provider had answered before is collected by the next run. A batch that was never acknowledged is looked for first.
    """
    count, is_done = 0, True
    async with _batches_of(run) as batches:
        for batch in batches.in_flight:
            try:
                count += await batches.cancel(batch)
            except ProviderError as error:
                print_error(f"{batch.id or batch.provider}: {error.message}")
                is_done = False
    print_report(f"{plural(count, 'batch|batches')} cancelled\n")
    if not is_done:
        raise typer.Exit(4)


async def _fetch(run: str, results: Path | None = None) -> None:
    """Collect the batches that have ended, or whose results are in a file."""
    collected, refusal = [], None
    open_api = open_batch_api if results is None else lambda model: FileBatches(model, results)
    async with _batches_of(run, open_api) as batches:
        for batch in batches.in_flight:
            if (results is not None) != (batch.provider == TO_FILE):
                continue
            state = await batches.api(batch.sent_to).get(batch.id)
            if state.ended and (results is None or batches.matches(batch, results)):
                refusal = await batches.collect(batch, state) or refusal
                collected.append(batch)
        in_flight = len(batches.in_flight)
    if results is not None and not collected:
        raise UsageError(
            f"{results} has no result of the requests that {run} exported",
            hint="it takes one JSON object a line, with the `custom_id` of a request and its `response`",
        )
    answered = sum(batch.answered for batch in collected)
    missing = sum(batch.requests for batch in collected) - answered
    print_report(
        f"{plural(len(collected), 'batch|batches')} collected: {answered:,} requests answered, "
        f"{missing:,} not; {in_flight} in flight\n"
    )
    if refusal is not None:
        raise refusal


def _run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(work)


app = typer.Typer(
    help="Show, cancel or collect the batches of a run.",
    rich_markup_mode=None,
    add_completion=False,
)
RunFolder = Annotated[
    str, typer.Argument(metavar="RUN", help="The directory of a run that sends batches.")
]


async def _look(batches: Iterable[SentBatch]) -> None:
    """Note what providers say of their batches now."""
    for batch in batches:
        async with aclosing(open_batch_api(batch.sent_to)) as api:
            try:
                state = await api.get(batch.id)
            except ProviderError as error:
                print_error(f"warning: {error.message}")
            else:
                batch.status, batch.answered = state.status, state.answered


@app.command("status", cls=HelpCommand)
def batch_status(run: RunFolder, as_json: AsJson = False) -> None:
    """Show a run's batches, those in flight as their provider describes them now.

    Example: verdict batch status runs/nightly
    """
    with Database.open_foreign(_directory(run).database) as database:
        batches = read_batches(database)
    _run(_look(batch for batch in batches if batch.is_at_provider))
    if as_json:
        print_json({"batches": [batch.facts for batch in batches]})
        return
    flying = sum(not batch.ended for batch in batches)
    print_report(f"{run}: {plural(len(batches), 'batch|batches')}, {flying} in flight\n")
    for batch in batches:
        print_report(
            f"  wave {batch.wave}  {batch.provider}  {batch.model}  {batch.answered:,} of {batch.requests:,} answered  "
            f"{batch.status}  {batch.id}\n"
        )


@app.command("cancel", cls=HelpCommand)
def batch_cancel(run: RunFolder) -> None:
    """Cancel a run's batches in flight. What was answered before is kept; the same run command sends the rest again.

    Example: verdict batch cancel runs/nightly
    """
    _run(_cancel(run))


@app.command("fetch", cls=HelpCommand)
def batch_fetch(run: RunFolder) -> None:
    """Collect a run's batches that have ended, without running its pipeline.

    Example: verdict batch fetch runs/nightly
    """
    _run(_fetch(run))


@app.command("export", cls=HelpCommand)
@flatten_options
def batch_export(
    config: Config,
    data: Data,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where the requests are written, one a line.")
    ],
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
        if ended.exit_code == _WAITING:
            print_report(f"answer the requests, then: verdict batch import {out} RESULTS\n")
            return
        raise
    show_report(report, as_json=False)
    raise typer.Exit(exit_code(report))


_WAITING = 5


@app.command("import", cls=HelpCommand)
def batch_import(
    run: RunFolder,
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="The results, one a line.")],
) -> None:
    """Read the results of exported requests into a run.

    Example: verdict batch import runs/offline results.jsonl
    """
    if not results.is_file():
        raise UsageError(
            f"{results} is not a file", hint="name the results of the exported requests"
        )
    _run(_fetch(run, results))
