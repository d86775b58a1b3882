"""`verdict estimate CONFIG DATA`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from verdict_cli.cli.console import print_json, print_message, print_report
from verdict_cli.cli.model_options import PipelineOptions
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.cli.options import AllowHost, AsJson, Config, Limit, OptionalData
from verdict_cli.run.estimate import ASSUMPTIONS, Line, estimate_run, total
from verdict_cli.storage.datasets.read import stream_rows

Options = TypeVar("Options", bound=PipelineOptions)


def estimate(
    config: Config,
    data: OptionalData = None,
    limit: Limit = None,
    skip_bad_rows: Annotated[bool, typer.Option("--skip-bad-rows", help="Skip rows that cannot be read.")] = False,
    *,
    options: PipelineOptions,
    allow_host: AllowHost = None,
    as_json: AsJson = False,
) -> None:
    """Estimate how many calls a run makes and what they cost, without calling a model.

    Without DATA, CONFIG is the name of a benchmark: its pipeline on its fetched file, else on our sample scaled to its rows.

    Example: verdict estimate xstest xstest_sample --model gpt-4o-mini
    """
    count = None
    if data is None:
        config, data, options, count = _benchmark(config, options)
    plan = options.plan(config)
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to:
        dataset = open_dataset(plan, data, Path(spool_to), skip_bad_rows=skip_bad_rows)
        facts = check_data(plan, dataset, limit=limit)
        facts = facts if count is None else replace(facts, rows=min(count, limit or count))
        units = estimate_run(plan, stream_rows(dataset, facts.selection), facts.rows)
    names = dict.fromkeys(line.model for line in units)
    models = [total([line for line in units if line.model == name], "", name) for name in names]
    sum_line = total(units, "total", "")
    if as_json:
        print_json(
            {
                "rows": facts.rows,
                **_counts(sum_line),
                "models": [{"model": line.model, **_counts(line)} for line in models],
                "units": [{"unit": line.unit, "model": line.model, **_counts(line)} for line in units],
                "assumptions": ASSUMPTIONS,
            }
        )
        return
    print_report(f"{facts.rows:,} rows\n\n{_table([*units, *models, sum_line])}\n")
    for assumption in ASSUMPTIONS:
        print_report(f"- {assumption}\n")


def _counts(line: Line) -> dict[str, Any]:
    return {
        "calls": line.calls,
        "least_calls": line.least,
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
    widths = [max(len(row[column]) for row in cells) for column in range(6)]
    return "".join(
        "  ".join(f"{cell:{'<' if column < 2 else '>'}{widths[column]}}" for column, cell in enumerate(row)).rstrip()
        + "\n"
        for row in cells
    )


def _benchmark(name: Path, options: Options) -> tuple[Path, str, Options, int | None]:
    """The pipeline and the data of a benchmark, and the number of its rows where the data are our sample."""
    from verdict_cli.benchmarks.card import card, cards
    from verdict_cli.benchmarks.data_dir import find_benchmark
    from verdict_cli.errors import UsageError
    from verdict_cli.language.package_files import named_config

    if name.as_posix() not in cards():
        raise UsageError(
            f"the data of {name} are missing, and it is not a benchmark",
            hint="verdict estimate CONFIG DATA, or the name of a benchmark: verdict datasets list",
        )
    found = card(name.as_posix())
    if found.config is None:
        raise UsageError(f"{name} has no pipeline to judge it with", hint=f"verdict estimate CONFIG {name}")
    located = find_benchmark(found, None)
    options = replace(options, settings=[*found.settings, *(options.settings or ())])
    count = found.files[0].rows if located.sample else None
    if located.sample:
        rows = "the number of its rows is not known" if count is None else f"scaled to its {count:,} rows"
        print_message(f"{found.title} is not fetched: estimated from this project's sample, {rows}")
    return named_config(found.config), str(located.path), options, count
