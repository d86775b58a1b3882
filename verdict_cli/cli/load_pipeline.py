"""cli.pipeline"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from verdict_cli.cli.console import print_error
from verdict_cli.errors import UsageError
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.overrides import apply_override, remove_value
from verdict_cli.language.load import UnitTypes
from verdict_cli.language.package_files import configs, file_or_named
from verdict_cli.plan.build import Built
from verdict_cli.plan.load_plan import load_plan
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
    """The plan of the file without what stands at the paths `off`, with `--set` and `--model` applied, and of
    `else_model` where it then names no model. SpecError when it cannot be run.

    A bare name such as `xstest` that is no file is the pipeline of that name that comes with verdict.
    Files outside the pipeline file's folder are read with `allow_outside` only, except those that a setting names.
    Python is imported only from the files of `allow_code` and, for unit types that nobody else knows, from packages.
    """
    config = file_or_named(config, configs)
    if config.suffix not in (".yaml", ".yml") and _is_dataset(config):
        raise UsageError(
            f"{config} is a dataset, not a pipeline file", hint="the pipeline file comes first: verdict run CONFIG DATA"
        )
    chosen = [*settings, *([f"model={_quoted(model)}"] if model is not None else [])]
    document = remove_value(apply_override(read_document(config), chosen), off)
    if else_model is not None and document.data.get("model") is None:
        document = apply_override(document, [f"model={_quoted(else_model)}"])
    unit_types: UnitTypes = {}
    if allow_code:
        from verdict_cli.language.units.plugins import import_unit_types

        unit_types = import_unit_types(allow_code)
    built = load_plan(document, config.parent, _fence(config, chosen, allow_outside), unit_types)
    for warning in built.warnings if warn else ():
        print_error(f"warning: {warning}")
    return built


def _fence(config: Path, chosen: Sequence[str], allow_outside: bool) -> PathPolicy:
    given = {setting.partition("=")[2].strip("\"' ") for setting in chosen}
    return PathPolicy(None if allow_outside else config.parent, frozenset(given))


def _is_dataset(path: Path) -> bool:
    from verdict_cli.storage.datasets.files import format_of

    return format_of(path) not in (None, "json")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
