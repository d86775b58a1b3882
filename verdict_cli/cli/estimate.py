"""`verdict estimate CONFIG DATA`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verdict_cli.cli.console import document, print_report
from verdict_cli.cli.options import AllowHost, AllowOutside, AsJson, Config, Limit, ModelOption, SetOption

if TYPE_CHECKING:
    from verdict_cli.run.estimate import Line


def estimate(
    config: Config,
    data: Annotated[str, typer.Argument(help="JSONL, JSON, CSV, TSV or Parquet: a file, a directory, a glob, or -.")],
    model: ModelOption = None,
    settings: SetOption = None,
    limit: Limit = None,
    skip_bad_rows: Annotated[bool, typer.Option("--skip-bad-rows", help="Leave rows that cannot be read out.")] = False,
    allow_outside: AllowOutside = False,
    allow_host: AllowHost = None,
    as_json: AsJson = False,
) -> None:
    """Say how many calls a run will make and what they will cost, without asking any model.

    Example: verdict estimate xstest xstest_sample --model gpt-4o-mini
    """
    from verdict_cli.cli.load_pipeline import load_plan_for_command
    from verdict_cli.cli.open_dataset import check_data, open_dataset
    from verdict_cli.run.estimate import ASSUMPTIONS, total
    from verdict_cli.run.estimate import estimate_run as estimated
    from verdict_cli.storage.datasets.read import stream_rows

    plan = load_plan_for_command(config, settings or [], model, allow_outside=allow_outside).plan
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to:
        dataset = open_dataset(plan, data, Path(spool_to), skip_bad_rows=skip_bad_rows)
        found = check_data(plan, dataset, limit=limit)
        units = estimated(plan, stream_rows(dataset, found.selection), found.rows)
    names = dict.fromkeys(line.model for line in units)
    models = [total([line for line in units if line.model == name], "", name) for name in names]
    summed = total(units, "total", "")
    if as_json:
        document(
            {
                "rows": found.rows,
                **_figures(summed),
                "models": [{"model": line.model, **_figures(line)} for line in models],
                "units": [{"unit": line.unit, "model": line.model, **_figures(line)} for line in units],
                "assumptions": ASSUMPTIONS,
            }
        )
        return
    print_report(f"{found.rows:,} rows\n\n{_table([*units, *models, summed])}\n")
    for words in ASSUMPTIONS:
        print_report(f"- {words}\n")


def _figures(line: Line) -> dict[str, Any]:
    return {
        "calls": line.calls,
        "least_calls": line.least,
        "prompt_tokens": line.prompt_tokens,
        "completion_tokens": line.completion_tokens,
        "cost_usd": line.cost_usd,
    }


def _calls(line: Line) -> str:
    """`3,000 to 9,000` where a layer may stop early."""
    return f"{line.least:,} to {line.calls:,}" if line.least < line.calls else f"{line.calls:,}"


def _table(lines: list[Line]) -> str:
    """The lines under one another; `unknown` where a figure is."""
    from verdict_cli.report.formatting import money

    cells: list[tuple[str, ...]] = [("unit", "model", "calls", "prompt tokens", "reply tokens", "cost")]
    for line in lines:
        tokens = (
            "unknown" if count is None else f"{count:,}" for count in (line.prompt_tokens, line.completion_tokens)
        )
        cells.append((line.unit, line.model, _calls(line), *tokens, money(line.cost_usd)))
    widths = [max(len(row[place]) for row in cells) for place in range(6)]
    return "".join(
        "  ".join(f"{cell:{'<' if place < 2 else '>'}{widths[place]}}" for place, cell in enumerate(row)).rstrip()
        + "\n"
        for row in cells
    )
