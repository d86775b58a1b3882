"""`verdict graph CONFIG`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from verdict_cli.cli.console import print_json, print_report
from verdict_cli.cli.model_options import PipelineOptions
from verdict_cli.cli.options import AllowHost, Config
from verdict_cli.model import PLACEHOLDER_MODEL


def graph(
    config: Config,
    format_: Annotated[
        Literal["tree", "mermaid", "svg", "json"],
        typer.Option("--format", help="The output format."),
    ] = "tree",
    *,
    options: PipelineOptions,
    allow_host: AllowHost = None,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """Draw the graph of a pipeline: its units, their links, and the casts between them.

    Example: verdict graph xstest --format svg > xstest.svg
    """
    from verdict_cli.report.plan_graph import as_mapping, as_mermaid, as_svg, as_tree

    plan = options.plan(config, else_model=PLACEHOLDER_MODEL)
    if as_json or format_ == "json":
        print_json(as_mapping(plan))
    else:
        draw = {"tree": as_tree, "mermaid": as_mermaid, "svg": as_svg}[format_]
        print_report(draw(plan))
