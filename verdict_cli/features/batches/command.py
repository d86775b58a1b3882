"""`verdict batch`: the batches of a run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from verdict_cli.cli.console import print_error, print_json, print_report
from verdict_cli.cli.help_format import HelpCommand
from verdict_cli.cli.model_options import RowOptions, flatten_options
from verdict_cli.cli.options import AsJson, Config, Data, Yes

app = typer.Typer(help="Show, cancel or collect the batches of a run.", rich_markup_mode=None, add_completion=False)
RunFolder = Annotated[
    str, typer.Argument(metavar="RUN", help="The directory of a run that sends batches: a path, or the URL of a store.")
]


@app.command("status", cls=HelpCommand)
def batch_status(run: RunFolder, as_json: AsJson = False) -> None:
    """Show a run's batches, those in flight as their provider describes them now.

    Example: verdict batch status runs/nightly
    """
    from verdict_cli.features.batches.manage import open_batches

    with open_batches(run, change=False) as batches:
        found = batches.look()
    if as_json:
        print_json({"batches": [_document(each) for each in found]})
        return
    flying = sum(not each.batch.ended for each in found)
    print_report(f"{run}: {len(found)} batch{'' if len(found) == 1 else 'es'}, {flying} in flight\n")
    for each in found:
        batch, state = each.batch, each.state
        status = batch.status if state is None else state.status
        answered = batch.answered if state is None else state.answered
        print_report(
            f"  wave {batch.wave}  {batch.provider}  {batch.model.name}  {answered:,} of {batch.requests:,} answered  "
            f"{status}  {batch.id}\n"
        )
        if each.error:
            print_error(f"warning: {each.error}")


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
    from verdict_cli.features.batches.manage import open_batches

    with open_batches(run) as batches:
        count, errors = batches.cancel()
    for error in errors:
        print_error(error)
    print_report(f"{count} batch{'' if count == 1 else 'es'} cancelled\n")
    if errors:
        raise typer.Exit(4)


@app.command("fetch", cls=HelpCommand)
def batch_fetch(run: RunFolder) -> None:
    """Collect a run's batches that have ended, without running its pipeline.

    Example: verdict batch fetch runs/nightly
    """
    from verdict_cli.features.batches.manage import open_batches

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
    from verdict_cli.features.batches.manage import open_batches

    with open_batches(run) as batches:
        _tell(batches.import_results(results), batches)


def _tell(collected: list[Any], batches: Any) -> None:
    """Say what was collected, and what is missing."""
    from verdict_cli.features.batches.manage import first_refusal

    answered, unanswered = (sum(getattr(each, name) for each in collected) for name in ("answered", "unanswered"))
    left = batches.in_flight
    print_report(
        f"{len(collected)} batch{'' if len(collected) == 1 else 'es'} collected: {answered:,} requests answered, "
        f"{unanswered:,} not; {left} in flight\n"
    )
    refusal = first_refusal(collected)
    if refusal is not None:
        raise refusal
