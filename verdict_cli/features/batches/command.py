"""`verdict batch`: look at, cancel, collect, export and import the batches of a run, without its pipeline."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from verdict_cli.cli.console import print_error, print_json, print_report
from verdict_cli.cli.help_format import HelpCommand
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson, Config, Data, Yes, flatten_options
from verdict_cli.errors import ProviderError, UsageError
from verdict_cli.features.batches.adapters import open_batch_api
from verdict_cli.features.batches.batch_facts import TO_FILE, with_batches
from verdict_cli.features.batches.providers import FileBatches
from verdict_cli.features.batches.run_hooks import BatchOptions
from verdict_cli.features.batches.sent import (
    CollectedBatch,
    RunBatches,
    SentBatch,
    batch_facts,
    read_batches,
    scratch,
    settle_intent,
)
from verdict_cli.llm.middleware.replies import OwnCalls
from verdict_cli.plural import plural
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.paths import path_of

T = TypeVar("T")


def _directory(run: str) -> RunDirectory:
    """The directory of a run. UsageError where there is none."""
    directory = RunDirectory(Path(path_of(run)))
    if directory.facts() is None or not directory.database.is_file():
        raise UsageError(
            f"{run} is not the directory of a run", hint="name the directory that --out named"
        )
    return directory


@contextmanager
def open_batches(run: str) -> Iterator[tuple[RunDirectory, RunBatches]]:
    """The batches of the run in a directory, to which no other process may be writing. `run.json` is then brought up to date."""
    directory = _directory(run)
    with directory.lock(), Database.open(directory.database) as database:
        try:
            yield directory, RunBatches(OwnCalls(database))
        finally:
            database.writer.wait()
            facts = directory.facts()
            assert facts is not None
            directory.write_facts(with_batches(facts, batch_facts(database)))


async def _look(batches: list[SentBatch]) -> list[tuple[SentBatch, str]]:
    """Every batch, those in flight as their provider describes them now, and why a provider does not."""
    return [await _look_at(batch) for batch in batches]


async def _look_at(batch: SentBatch) -> tuple[SentBatch, str]:
    if not batch.is_at_provider:
        return batch, ""
    async with aclosing(open_batch_api(batch.sent_to)) as api:
        try:
            state = await api.get(batch.id)
        except ProviderError as error:
            return batch, error.message
    return replace(batch, status=state.status, answered=state.answered), ""


async def _cancel(directory: RunDirectory, batches: RunBatches) -> tuple[int, list[str]]:
    """Cancel every batch in flight: how many, and the messages of those that could not be.

    What a provider had answered before is collected by the next run. A batch that was never acknowledged is looked for first.
    """
    count, errors = 0, []
    for batch in batches.in_flight:
        if batch.provider == TO_FILE:
            await batches.end(batch, "cancelled")
            count += 1
            continue
        async with aclosing(open_batch_api(batch.sent_to)) as api:
            try:
                if not batch.id:
                    async with scratch(directory.path) as folder:
                        await settle_intent(batches, batch, api, folder)
                if batch.id:
                    await api.cancel(batch.id)
                    count += 1
            except ProviderError as error:
                errors.append(f"{batch.id or batch.provider}: {error.message}")
    return count, errors


async def _fetch(directory: RunDirectory, batches: RunBatches) -> list[CollectedBatch]:
    """Collect the batches that have ended."""
    collected = []
    for batch in [batch for batch in batches.in_flight if batch.is_at_provider]:
        async with (
            aclosing(open_batch_api(batch.sent_to)) as api,
            scratch(directory.path) as folder,
        ):
            state = await api.get(batch.id)
            if state.ended:
                collected.append(await batches.collect(batch, state, api, folder))
    return collected


async def _import(
    directory: RunDirectory, batches: RunBatches, results: Path
) -> list[CollectedBatch]:
    """Take the results of exported requests. UsageError where they belong to none."""
    path = directory.path
    waiting = [batch for batch in batches.in_flight if batch.provider == TO_FILE]
    if not waiting:
        raise UsageError(
            f"{path} waits for no results", hint="verdict batch export writes requests"
        )
    collected = []
    for batch in waiting:
        api = FileBatches(batch.sent_to)
        if batches.matches(batch, results, api):
            why = f"{results.name} has no result of it"
            collected.append(await batches.read(batch, results, api, "imported", why))
    if not collected:
        raise UsageError(
            f"{results} has no result of the requests that {path} exported",
            hint="it takes one JSON object a line, with the `custom_id` of a request and its `response`",
        )
    return collected


def _run(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)


app = typer.Typer(
    help="Show, cancel or collect the batches of a run.",
    rich_markup_mode=None,
    add_completion=False,
)
RunFolder = Annotated[
    str, typer.Argument(metavar="RUN", help="The directory of a run that sends batches.")
]


@app.command("status", cls=HelpCommand)
def batch_status(run: RunFolder, as_json: AsJson = False) -> None:
    """Show a run's batches, those in flight as their provider describes them now.

    Example: verdict batch status runs/nightly
    """
    with Database.open_foreign(_directory(run).database) as database:
        described = _run(_look(read_batches(database)))
    if as_json:
        print_json({"batches": [asdict(batch.facts) for batch, _ in described]})
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
    with open_batches(run) as (directory, batches):
        count, errors = _run(_cancel(directory, batches))
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
    with open_batches(run) as (directory, batches):
        _tell(_run(_fetch(directory, batches)), len(batches.in_flight))


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
        if ended.exit_code != _WAITING:
            raise
        print_report(f"answer the requests, then: verdict batch import {out} RESULTS\n")
        return
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
    with open_batches(run) as (directory, batches):
        _tell(_run(_import(directory, batches, results)), len(batches.in_flight))


def _tell(collected: list[CollectedBatch], in_flight: int) -> None:
    """Say what was collected, and what is missing."""
    answered, unanswered = (
        sum(batch.answered for batch in collected),
        sum(batch.unanswered for batch in collected),
    )
    print_report(
        f"{plural(len(collected), 'batch|batches')} collected: {answered:,} requests answered, "
        f"{unanswered:,} not; {in_flight} in flight\n"
    )
    for batch in collected:
        if batch.refusal is not None:
            raise batch.refusal
