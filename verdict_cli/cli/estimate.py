"""`verdict estimate CONFIG DATA`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from msgspec import Struct, structs

from verdict_cli.cli.console import aligned, print_error, print_json, print_report
from verdict_cli.cli.model_options import ModelOptions, PipelineOptions
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.cli.options import AllowHost, AsJson, Config, Limit, OptionalData
from verdict_cli.cli.progress import show_reading
from verdict_cli.errors import UsageError
from verdict_cli.llm.model_families import is_free
from verdict_cli.llm.providers.price_book import price_source
from verdict_cli.plural import plural
from verdict_cli.registry import Registry
from verdict_cli.run.estimate import DryRun, Line, total
from verdict_cli.run.hooks import hook_classes
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.model_warnings import capability_warnings, context_warnings
from verdict_cli.run.pilot_estimate import PilotEstimate, pilot_positions, run_pilot
from verdict_cli.run.prompt_sharing import PromptSharing, SharedPart
from verdict_cli.storage.datasets.read import stream_rows

Options = TypeVar("Options", bound=PipelineOptions)


def estimate(
    config: Config,
    data: OptionalData = None,
    limit: Limit = None,
    skip_bad_rows: Annotated[bool, typer.Option("--skip-bad-rows", help="Skip rows that cannot be read.")] = False,
    pilot: Annotated[
        int | None,
        typer.Option(
            "--pilot",
            min=2,
            metavar="N",
            help="Judge N random rows first, learn each unit's tokens from them, and give an interval of the cost. Their "
            "replies are kept in the cache, so a run does not pay for them again.",
        ),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="With --pilot: the confidence level of the interval.")] = 0.95,
    *,
    options: ModelOptions,
    allow_host: AllowHost = None,
    as_json: AsJson = False,
) -> None:
    """Estimate how many calls a run makes and what they cost. Without --pilot, no model is called.

    Without DATA, CONFIG is the name of a benchmark. Its pipeline is estimated on the fetched file, else on the sample shipped with
    verdict, scaled to the benchmark's rows.

    Example: verdict estimate xstest xstest_sample --model gpt-4o-mini
    """
    if not 0 < level < 1:
        raise UsageError(f"--level {level:g} is not between 0 and 1", hint="the usual level is 0.95")
    if pilot is None and (options.budget is not None or options.replay is not None or options.no_cache):
        raise UsageError(
            "--budget, --replay and --no-cache need --pilot",
            hint="without --pilot, no model is called and nothing is paid",
        )
    count = None
    if data is None:
        named = _named_run(config.as_posix())
        config, data, count = named.config, named.data, named.rows
        options = replace(options, settings=[*named.settings, *(options.settings or ())])
    plan = options.plan(config)
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to:
        dataset = open_dataset(plan, data, Path(spool_to), skip_bad_rows=skip_bad_rows)
        facts = check_data(plan, dataset, limit=limit)
        positions = pilot_positions(facts.rows, pilot or 0, options.seed)
        with show_reading():
            dry = DryRun(plan, options.seed, keep=positions).add(stream_rows(dataset, facts.selection))
        facts = facts if count is None else structs.replace(facts, rows=min(count, limit or count))
    for warning in (*capability_warnings(plan), *context_warnings(plan, dry.longest)):
        print_error(f"warning: {warning}")
    measured = None if pilot is None else _pilot(options, dry, facts.rows, level)
    units = dry.lines(facts.rows) if measured is None else measured.lines
    names = dict.fromkeys(line.model for line in units)
    models = [total([line for line in units if line.model == name], "", name) for name in names]
    sum_line = total(units, "total", "")
    prices = price_source()
    shared = None if measured is not None else dry.sharing.part(units)
    others = {name: hooks().estimate(plan, units) for name, hooks in hook_classes().items()}
    if as_json:
        print_json(
            {
                "rows": facts.rows,
                **_counts(sum_line),
                "models": [{"model": line.model, **_counts(line)} for line in models],
                "units": [{"unit": line.unit, "model": line.model, **_counts(line)} for line in units],
                "pilot": None if measured is None else _pilot_document(measured),
                "prompt_cache": None if shared is None else _cache_document(shared, dry.sharing, units),
                **{name: None if other is None else other.document for name, other in others.items()},
                "prices": prices,
                "assumptions": dry.assumptions() if measured is None else (),
            }
        )
        return
    print_report(f"{plural(facts.rows, 'row')}\n\n{_table([*units, *models, sum_line])}\n")
    for sentence in dry.assumptions() if measured is None else _pilot_sentences(measured, sum_line.cost_usd):
        print_report(f"- {sentence}\n")
    if shared is not None and shared.cached_tokens:
        print_report(f"- {_cache_sentence(shared, sum_line.cost_usd)}\n")
    for other in others.values():
        if other is not None:
            print_report(f"- {other.sentence}\n")
    if any(not is_free(name) for name in names):
        print_report(f"- {prices}\n")


def _pilot(options: ModelOptions, dry: DryRun, count: int, level: float) -> PilotEstimate:
    """Judge the rows that the dry run kept."""
    recording = options.recording(dry.plan)
    store = options.store(dry.plan)
    try:
        client = ModelClient.open(recording=recording, budget_usd=options.budget, store=store)
        measured = run_pilot(JudgeSession(dry.plan, client, seed=options.seed), dry, count, level=level)
    finally:
        if store is not None:
            store.close()
    if measured.stopped:
        print_error(f"warning: the pilot ended after {plural(measured.rows, 'row')}: {measured.stopped}")
    if measured.failed == measured.rows:
        print_error(f"every row of the pilot failed, so nothing can be estimated from it: {measured.failure}")
        raise typer.Exit(3)
    if measured.failed:
        print_error(
            f"warning: {measured.failed:,} of the pilot's {plural(measured.rows, 'row')} failed, the first with: {measured.failure}"
        )
    return measured


def _pilot_document(pilot: PilotEstimate) -> dict[str, Any]:
    return {
        "rows": pilot.rows,
        "failed": pilot.failed,
        "calls": pilot.calls,
        "spent_usd": pilot.spent_usd,
        "cost_low_usd": pilot.low,
        "cost_high_usd": pilot.high,
        "level": pilot.level,
    }


def _pilot_sentences(pilot: PilotEstimate, cost: float | None) -> list[str]:
    from verdict_cli.report.formatting import money

    interval = f"the cost of all rows is {money(cost)}, {100 * pilot.level:g}% interval {money(pilot.low)} to {money(pilot.high)}"
    return [
        f"pilot: {plural(pilot.rows, 'row')} in {plural(pilot.calls, 'call')}, for {money(pilot.spent_usd)}",
        *([interval] if pilot.low is not None else []),
        "every line is carried over from the pilot's rows: calls, retries and tokens as they were charged",
    ]


def _cache_document(shared: SharedPart, sharing: PromptSharing, units: Sequence[Line]) -> dict[str, Any]:
    return {
        "cached_tokens": shared.cached_tokens,
        "share": shared.share,
        "cost_usd": shared.cost_usd,
        "units": [
            {"unit": line.unit, "model": line.model, "share": sharing.part([line]).share}
            for line in units
            if line.prompt_tokens
        ],
    }


def _cache_sentence(shared: SharedPart, cost: float | None) -> str:
    """The share of the prompts that the provider's cache may serve, and the price with it."""
    from verdict_cli.report.formatting import money

    told = f"{shared.share:.0%} of the prompt tokens begin like those of an earlier call"
    if cost is None or shared.cost_usd is None:
        return f"{told}, which the provider's prompt cache may serve"
    return f"{told}: with the provider's prompt cache, the cost is {money(shared.cost_usd)} instead of {money(cost)}"


def _counts(line: Line) -> dict[str, Any]:
    return {
        "calls": line.calls,
        "least_calls": line.least,
        "requests": line.calls if line.requests is None else line.requests,
        "prompt_tokens": line.prompt_tokens,
        "completion_tokens": line.completion_tokens,
        "cost_usd": line.cost_usd,
    }


def _calls(line: Line) -> str:
    """Format the calls of a line, such as `3,000 to 9,000` for a layer that may stop early."""
    return f"{line.least:,} to {line.calls:,}" if line.least < line.calls else f"{line.calls:,}"


def _table(lines: list[Line]) -> str:
    """Format the lines as a table. Unknown values are `unknown`."""
    from verdict_cli.report.formatting import money

    cells: list[tuple[str, ...]] = [("unit", "model", "calls", "prompt tokens", "reply tokens", "cost")]
    for line in lines:
        tokens = (
            "unknown" if count is None else f"{count:,}" for count in (line.prompt_tokens, line.completion_tokens)
        )
        cells.append((line.unit, line.model, _calls(line), *tokens, money(line.cost_usd)))
    return "".join(f"{line}\n" for line in aligned(cells, left=2))


class NamedRun(Struct, frozen=True):
    """What a bare name stands for: a pipeline with its data and settings."""

    config: Path
    data: str
    settings: Sequence[str]
    rows: int | None
    """The number of rows to scale the estimate to, where ``data`` is only a sample."""


NAMED_RUNS: Registry[Callable[[str], NamedRun | None]] = Registry("verdict_cli.cli", {}, "verdict_cli.named_runs")
"""Functions that know what a bare name such as `xstest` stands for, None where they do not."""


def _named_run(name: str) -> NamedRun:
    for source in NAMED_RUNS.names():
        run = NAMED_RUNS[source](name)
        if run is not None:
            return run
    raise UsageError(
        f"the data of {name} are missing, and it is not a benchmark",
        hint="verdict estimate CONFIG DATA, or the name of a benchmark: verdict datasets list",
    )
