"""`verdict validate FILE… [--data DATA]`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from verdict_cli.cli.console import print_error, print_json, print_report
from verdict_cli.cli.model_options import PipelineOptions, is_dataset
from verdict_cli.cli.options import AllowHost, AsJson
from verdict_cli.errors import DataError, Problem, SpecError, UsageError
from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import JsonObject

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan


class Checked(Struct):
    """What is wrong with one pipeline, what its author is warned of, and the hosts that a run would call."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    hints: tuple[Problem, ...] = ()
    hosts: tuple[str, ...] = ()

    def as_json(self) -> JsonObject:
        """The document of `--json`."""
        document: JsonObject = {
            "ok": not self.errors,
            "errors": [problem.as_json() for problem in self.errors],
            "warnings": [problem.as_json() for problem in self.warnings],
            "hosts": list(self.hosts),
        }
        if self.hints:
            document["hints"] = [problem.as_json() for problem in self.hints]
        return document


def validate(
    configs: Annotated[
        list[str],
        typer.Argument(
            help="Pipeline files, or names of shipped ones; a dataset may follow the only one."
        ),
    ],
    data: Annotated[
        str | None, typer.Option("--data", help="Also check the rows of this dataset.")
    ] = None,
    *,
    options: PipelineOptions,
    allow_host: AllowHost = None,
    as_json: AsJson = False,
) -> None:
    """Check pipeline files, and a dataset against them, without calling a model. Prints the hosts that a run would call.

    Examples:

      verdict validate xstest geval

      verdict validate xstest --data xstest_sample
    """
    if data is None and len(configs) == 2 and _is_data(configs[1]):
        configs, data = configs[:1], configs[1]
    _check_no_dataset(configs)
    paths = map(Path, configs)
    results = {str(path): _checked(path, data, options) for path in paths}
    if as_json:
        documents = [{"pipeline": name, **checked.as_json()} for name, checked in results.items()]
        print_json(next(iter(results.values())).as_json() if len(results) == 1 else documents)
    else:
        for name, checked in results.items():
            _print(name, checked)
    if any(checked.errors for checked in results.values()):
        raise typer.Exit(2)


def _check_no_dataset(configs: Sequence[str]) -> None:
    """UsageError for a dataset among several pipeline files."""
    datasets = [name for name in configs if is_dataset(Path(name))]
    if datasets and len(configs) > 1:
        files = [name for name in configs if name not in datasets]
        raise UsageError(
            f"{datasets[0]} is a dataset, and stands among {len(configs)} files",
            hint=shlex.join(["verdict", "validate", *files, "--data", datasets[0]]),
        )


def _is_data(argument: str) -> bool:
    """Whether the second argument of the older form is a dataset, and not another pipeline."""
    from verdict_cli.language.package_files import configs, file_or_named

    path = Path(argument)
    if path.suffix in (".yaml", ".yml"):
        return False
    return file_or_named(path, configs).suffix != ".yaml"


def _checked(config: Path, data: str | None, options: PipelineOptions) -> Checked:
    """Every mistake of a pipeline, and of the data that it is to judge, in one round."""
    checked = Checked()
    try:
        built = options.built(config)
        plan: Plan | None = built.plan
        refused, doubts = _of_models(built.plan)
        checked.errors, checked.warnings = tuple(refused), (*built.warnings, *doubts)
        checked.hosts = tuple(_called_hosts(built.plan))
    except SpecError as error:
        checked.errors = error.problems
        plan = error.repaired
    if data is not None and plan is not None:
        try:
            _check_data(checked, plan, data)
        except (SpecError, DataError) as error:
            checked.errors += tuple(error.problems)
    return checked


def _check_data(checked: Checked, plan: Plan, data: str) -> None:
    """Add what the rows of the dataset say against the plan."""
    from verdict_cli.cli.open_dataset import opened_dataset
    from verdict_cli.run.model_warnings import context_warnings, sampled_dry_run
    from verdict_cli.run.preflight import preflight

    with opened_dataset(plan, data) as dataset:
        facts = preflight(plan, dataset)
        dry = sampled_dry_run(plan, dataset, facts)
    if checked.errors:
        return  # warnings of a repaired plan would follow from its errors
    checked.warnings += (*facts.warnings, *context_warnings(plan, dry.longest))
    checked.hints = tuple(dry.order.hints(plan))


def _print(name: str, checked: Checked) -> None:
    for warning in checked.warnings:
        print_error(f"warning: {warning}")
    for hint in checked.hints:
        print_error(f"hint: {hint}")
    for problem in checked.errors:
        print_error(str(problem))
    if not checked.errors:
        print_report(f"{name}: valid\n")
        for host in checked.hosts:
            print_report(f"calls {host}\n")


def _of_models(plan: Plan) -> tuple[list[Problem], list[Problem]]:
    """What a run of the plan's models would be refused for, and what they are warned of; built-in ones need neither.

    A key that is not set is a warning: the file may be right, and run elsewhere.
    """
    if all(is_local(model.name) for node in plan.nodes for stage in node.stages for model in stage):
        return [], []
    from verdict_cli.run.model_warnings import capability_warnings, retirement_warnings

    problems = [*retirement_warnings(plan), *capability_warnings(plan)]
    refused = [problem for problem in problems if problem.code == "model-cannot-answer"]
    return refused, [problem for problem in problems if problem.code != "model-cannot-answer"]


def _called_hosts(plan: Plan) -> list[str]:
    """Every host that a run calls, sorted; none for built-in models and recordings."""
    import os

    from verdict_cli.llm.model_families import host_called, is_local
    from verdict_cli.plan.node import LLMNode

    models = {
        (model.name, model.api_base): model
        for node in plan.nodes
        if isinstance(node.work, LLMNode)
        for model in (*(model for stage in node.stages for model in stage), *node.work.follow_up)
        if not is_local(model.name)
    }
    return sorted({host for model in models.values() if (host := host_called(model, os.environ))})
