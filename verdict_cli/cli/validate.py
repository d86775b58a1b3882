"""`verdict validate CONFIG [DATA]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.console import print_error, print_json, print_report
from verdict_cli.cli.model_options import PipelineOptions
from verdict_cli.cli.options import AllowHost, AsJson, Config
from verdict_cli.errors import DataError, Problem, SpecError
from verdict_cli.llm.model_families import is_local

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan


def validate(
    config: Config,
    data: Annotated[str | None, typer.Argument(help="Also check the rows of this dataset.")] = None,
    *,
    options: PipelineOptions,
    allow_host: AllowHost = None,
    as_json: AsJson = False,
) -> None:
    """Check a pipeline file, and a dataset against it, without calling a model. Prints the hosts that a run would call.

    Example: verdict validate xstest xstest_sample
    """
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    hosts: list[str] = []
    hints: list[Problem] = []
    try:
        built = options.built(config)
        warnings = (*built.warnings, *_model_warnings(built.plan))
        hosts = _called_hosts(built.plan)
        if data is not None:
            import tempfile

            from verdict_cli.cli.open_dataset import open_dataset
            from verdict_cli.run.model_warnings import context_warnings, sampled_dry_run
            from verdict_cli.run.preflight import preflight
            from verdict_cli.run.prompt_sharing import order_hints

            with tempfile.TemporaryDirectory() as spool_to:
                dataset = open_dataset(built.plan, data, Path(spool_to))
                facts = preflight(built.plan, dataset)
                dry = sampled_dry_run(built.plan, dataset, facts)
            warnings += (*facts.warnings, *context_warnings(built.plan, dry.longest))
            hints = order_hints(built.plan, dry.sharing.sample)
    except SpecError as error:
        problems = error.problems
    except DataError as error:
        problems = error.problems
    if as_json:
        print_json(
            {
                "ok": not problems,
                "errors": [problem.as_json() for problem in problems],
                "warnings": [warning.as_json() for warning in warnings],
                **({"hints": [hint.as_json() for hint in hints]} if hints else {}),
                "hosts": hosts,
            }
        )
    else:
        for warning in warnings:
            print_error(f"warning: {warning}")
        for hint in hints:
            print_error(f"hint: {hint}")
        for problem in problems:
            print_error(str(problem))
        if not problems:
            print_report(f"{config}: valid\n")
            for host in hosts:
                print_report(f"calls {host}\n")
    if problems:
        raise typer.Exit(2)


def _model_warnings(plan: Plan) -> list[Problem]:
    """What the price data and the environment say against the plan's models; built-in ones need neither."""
    if all(is_local(model.name) for node in plan.nodes for stage in node.stages for model in stage):
        return []
    from verdict_cli.run.model_warnings import capability_warnings, retirement_warnings

    return [*retirement_warnings(plan), *capability_warnings(plan)]


def _called_hosts(plan: Plan) -> list[str]:
    """Every host that a run calls, sorted; none for built-in models and recordings."""
    import os

    from verdict_cli.llm.model_families import host_called, is_free
    from verdict_cli.plan.node import LLMNode

    models = {
        (model.name, model.api_base): model
        for node in plan.nodes
        if isinstance(node.work, LLMNode)
        for model in (*(model for stage in node.stages for model in stage), *node.work.follow_up)
        if not is_free(model.name)
    }
    return sorted({host for model in models.values() if (host := host_called(model, os.environ))})
