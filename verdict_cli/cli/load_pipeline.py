"""Load the plan of a pipeline file, with the options that every command has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from verdict_cli.cli.console import print_error
from verdict_cli.errors import UsageError
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.overrides import apply_override, remove_value, replace_model
from verdict_cli.language.load import UnitTypes
from verdict_cli.language.model_address import ONLY
from verdict_cli.language.package_files import configs, file_or_named
from verdict_cli.plan.build import Built, load_plan
from verdict_cli.storage.path_policy import PathPolicy


def load_plan_for_command(
    config: Path,
    settings: Sequence[str],
    model: str | None,
    *,
    allow_code: Sequence[Path] = (),
    allow_outside: bool = False,
    warn: bool = True,
    else_model: str | None = None,
    off: Sequence[str] = (),
) -> Built:
    """Load a pipeline file, apply `--set` and `--model`, and build its plan.

    Args:
        config: The file, or the name of a pipeline shipped with verdict, such as `xstest`.
        allow_code: The Python files from which unit types are imported. Unknown unit types are also looked up in installed packages.
        allow_outside: Whether files outside the pipeline file's folder are read. Files named in `settings` always are.
        else_model: The model if neither the file nor `model` names one.
        off: Paths of the values to remove from the file.

    Raises:
        SpecError: The pipeline is not valid.
    """
    config = file_or_named(config, configs)
    if config.suffix not in (".yaml", ".yml") and _is_dataset(config):
        raise UsageError(
            f"{config} is a dataset, not a pipeline file", hint="the pipeline file comes first: verdict run CONFIG DATA"
        )
    document = apply_override(read_document(config), settings)
    name = model if model is not None or document.data.get("model") is not None else else_model
    if name is not None:
        document = replace(document, data={**document.data, "model": replace_model(document.data, name)})
    document = remove_value(document, off)
    unit_types: UnitTypes = {}
    if allow_code:
        from verdict_cli.language.authoring.unit_step import import_unit_types

        unit_types = import_unit_types(allow_code)
    built = load_plan(document, config.parent, _path_policy(config, settings, model, allow_outside), unit_types)
    for warning in built.warnings if warn else ():
        print_error(f"warning: {warning}")
    return built


def _path_policy(config: Path, settings: Sequence[str], model: str | None, allow_outside: bool) -> PathPolicy:
    named_files = {setting.partition("=")[2].strip("\"' ") for setting in settings}
    if model is not None:
        named_files.add(model)
    return PathPolicy(None if allow_outside else config.parent, frozenset(named_files), hidden=ONLY not in os.environ)


def _is_dataset(path: Path) -> bool:
    from verdict_cli.storage.datasets.files import format_of

    return format_of(path) not in (None, "json")
