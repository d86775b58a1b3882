"""`verdict estimate CONFIG DATA`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from msgspec import Struct, structs

from verdict_cli.cli.console import aligned, print_error, print_json, print_report
from verdict_cli.cli.model_options import PipelineOptions
from verdict_cli.cli.open_dataset import check_data, opened_dataset
from verdict_cli.cli.options import AllowHost, AsJson, Config, Limit, OptionalData, Seed
from verdict_cli.cli.progress import show_reading
from verdict_cli.errors import UsageError
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.price_book import price_source
from verdict_cli.messages import JsonObject
from verdict_cli.plural import plural
from verdict_cli.registry import feature_part
from verdict_cli.run.estimate import DryRun, Line, total
from verdict_cli.run.hooks import hook_classes
from verdict_cli.run.model_warnings import capability_warnings, context_warnings
from verdict_cli.storage.datasets.read import stream_rows

Options = TypeVar("Options", bound=PipelineOptions)


def estimate(
    config: Config,
    data: OptionalData = None,
    limit: Limit = None,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Skip rows that cannot be read.")
    ] = False,
    *,
    options: PipelineOptions,
    seed: Seed = 0,
    allow_host: AllowHost = None,
    as_json: AsJson = False,
) -> None:
    """Estimate how many calls a run makes and what they cost. No model is called.

    Without DATA, CONFIG is the name of a benchmark. Its pipeline is estimated on the fetched file, else on the sample shipped with
    verdict, scaled to the benchmark's rows.

    Example: verdict estimate xstest xstest_sample --model gpt-4o-mini
    """
    count = None
    if data is None:
        source_run = _named_run(config.as_posix())
        config, data, count = source_run.config, source_run.data, source_run.rows
        options = replace(options, settings=[*source_run.settings, *(options.settings or ())])
    plan = options.plan(config)
    with opened_dataset(plan, data, skip_bad_rows=skip_bad_rows) as dataset:
        facts = check_data(plan, dataset, limit=limit)
        with show_reading():
            dry = DryRun(plan, seed).add(stream_rows(dataset, facts.selection))
        facts = facts if count is None else structs.replace(facts, rows=min(count, limit or count))
    for warning in (*capability_warnings(plan), *context_warnings(plan, dry.longest)):
        print_error(f"warning: {warning}")
    units = dry.lines(facts.rows)
    names = dict.fromkeys(line.model for line in units)
    models = [total([line for line in units if line.model == name], "", name) for name in names]
    sum_line = total(units, "total", "")
    prices = price_source()
    hook_estimates = {name: hooks().estimate(plan, units) for name, hooks in hook_classes().items()}
    if as_json:
        print_json(
            {
                "rows": facts.rows,
                **_counts(sum_line),
                "models": [{"model": line.model, **_counts(line)} for line in models],
                "units": [
                    {"unit": line.unit, "model": line.model, **_counts(line)} for line in units
                ],
                **{
                    name: None if value is None else value.document
                    for name, value in hook_estimates.items()
                },
                "prices": prices,
                "assumptions": dry.assumptions(),
            }
        )
        return
    print_report(f"{plural(facts.rows, 'row')}\n\n{_table([*units, *models, sum_line])}\n")
    for sentence in dry.assumptions():
        print_report(f"- {sentence}\n")
    for hook_estimate in hook_estimates.values():
        if hook_estimate is not None:
            print_report(f"- {hook_estimate.sentence}\n")
    if any(not is_local(name) for name in names):
        print_report(f"- {prices}\n")


def _counts(line: Line) -> JsonObject:
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

    cells: list[tuple[str, ...]] = [
        ("unit", "model", "calls", "prompt tokens", "reply tokens", "cost")
    ]
    for line in lines:
        tokens = (
            "unknown" if count is None else f"{count:,}"
            for count in (line.prompt_tokens, line.completion_tokens)
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


def _named_run(name: str) -> NamedRun:
    benchmark_run = feature_part("benchmarks", "card.benchmark_run")
    run: NamedRun | None = benchmark_run and benchmark_run(name)
    if run is not None:
        return run
    raise UsageError(
        f"the data of {name} are missing, and it is not a benchmark",
        hint="verdict estimate CONFIG DATA, or the name of a benchmark: verdict datasets list",
    )
