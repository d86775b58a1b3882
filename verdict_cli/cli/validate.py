"""`verdict validate CONFIG [DATA]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.options import AllowCode, AllowHost, AllowOutside, AsJson, Config, Model, Settings
from verdict_cli.cli.streams import complain, document, show
from verdict_cli.errors import DataError, Problem, SpecError


def validate(
    config: Config,
    data: Annotated[str | None, typer.Argument(help="A dataset whose rows are checked too.")] = None,
    settings: Settings = None,
    model: Model = None,
    allow_code: AllowCode = None,
    allow_outside: AllowOutside = False,
    allow_host: AllowHost = None,
    as_json: AsJson = False,
) -> None:
    """Check a pipeline file, and a dataset against it, without asking any model; show the hosts that a run calls.

    Example: verdict validate xstest xstest_sample
    """
    from verdict_cli.cli.pipeline import planned
    from verdict_cli.plan.hosts import hosts_called

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    hosts: list[str] = []
    try:
        built = planned(
            config,
            settings or [],
            model,
            allow_code=allow_code or (),
            allow_outside=allow_outside,
            warn=False,
        )
        warnings = built.warnings
        hosts = hosts_called(built.plan)
        if data is not None:
            import tempfile

            from verdict_cli.cli.dataset import opened
            from verdict_cli.engines.preflight import preflight

            with tempfile.TemporaryDirectory() as spool_to:
                _, found = preflight(built.plan, opened(built.plan, data, Path(spool_to)))
            warnings += found
    except SpecError as error:
        problems = error.problems
    except DataError as error:
        problems = (error.problem,)
    if as_json:
        document(
            {
                "ok": not problems,
                "errors": [problem.as_json() for problem in problems],
                "warnings": [warning.as_json() for warning in warnings],
                "hosts": hosts,
            }
        )
    else:
        for warning in warnings:
            complain(f"warning: {warning}")
        for problem in problems:
            complain(str(problem))
        if not problems:
            show(f"{config}: valid\n")
            for host in hosts:
                show(f"calls {host}\n")
    if problems:
        raise typer.Exit(2)
