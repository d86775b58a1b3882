"""Unit types written in Python: what a file can say of them, what their class decides, and those that `--allow-code` names.

Unit types of installed packages come from the registry (`units.TYPES`, entry points of the group `verdict_cli.units`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verdict_cli.errors import UsageError
from verdict_cli.language.authoring.arguments import prompt_key
from verdict_cli.language.authoring.functions import (
    OUTPUT_NAMES,
    RULE_NAMES,
    Function,
    method_function,
    python_rule,
    source_text,
)
from verdict_cli.language.authoring.schema import Schema
from verdict_cli.language.authoring.step import FunctionsByPath, Step, StepPath
from verdict_cli.language.extractors.bound_extractor import EXPLANATION
from verdict_cli.language.units.base import LLMUnit, UnitBase, snake

HOOKS = (
    "default_scale", "own_fields", "scaled_field", "response_record", "default_prompt", "prompt_prefix", "prompt_suffix",
    "frame", "required_inputs", "output_fields", "option_orders", "combine_responses", "validation_error", "settings",
)  # fmt: skip
"""Methods of a unit type that a class written in Python may override, besides `validate` and `process`."""


def class_document(name: str, kind: type[LLMUnit]) -> dict[str, Any]:
    """The keys that the class of a unit type sets, `unit` among them.

    Raises UsageError for a class that cannot be constructed without arguments.
    """
    return _default_unit(name, kind).to_document((), {})


def _default_unit(name: str, kind: type[LLMUnit]) -> LLMUnit:
    try:
        return kind()
    except TypeError as fault:
        raise UsageError(
            f"the unit type {name!r} cannot be constructed without arguments: {fault}",
            hint="give its parameters defaults",
        ) from None


@dataclass(frozen=True)
class UnitClass(Function):
    """The class of a unit written in Python that decides more than its document can say: it overrides hooks, or declares
    keys of its own (``own_fields``)."""

    unit: LLMUnit | None = None
    own_fields: tuple[str, ...] = ()

    def keys(self, step: UnitBase) -> dict[str, Any]:
        """The keys of the unit: those of its document, read as the base type, and those of its class."""
        assert self.unit is not None
        fields = type(self.unit).model_fields
        given = {name: getattr(step, name) for name in type(step).model_fields if name in step.model_fields_set}
        given |= {name: getattr(self.unit, name) for name in self.own_fields if name in self.unit.model_fields_set}
        return {fields[name].alias or name: value for name, value in given.items()}


def unit_class(unit: LLMUnit) -> UnitClass | None:
    """The class of the unit, None where the document says all of it."""
    kind, base = type(unit), unit.language_class()
    hooks = [name for name in HOOKS if getattr(kind, name) is not getattr(base, name)]
    own = tuple(name for name in kind.model_fields if _default(kind, name) != _default(base, name))
    if not hooks and not own:
        return None
    sources = [source_text(getattr(unit, name)) for name in hooks]
    text = "\n".join([kind.__name__, *(text for text, _ in sources)])
    return UnitClass(kind, kind.__name__, (), text, all(found for _, found in sources), unit=unit, own_fields=own)


def _default(kind: type[Step], name: str) -> Any:
    field = kind.model_fields.get(name)
    return field if field is None else (field.get_default(call_default_factory=True),)


def custom_unit_document(
    unit: LLMUnit, keys: dict[str, Any], path: StepPath, functions: FunctionsByPath
) -> dict[str, Any]:
    """The unit's keys with what its class declares. Its `validate` and `process`, and its class where that decides more,
    are added to `functions`."""
    from verdict_cli import Extractor

    kind = type(unit)
    data = {"unit": keys.pop("unit")}
    if kind is not unit.language_class():
        data["name"] = unit.name or snake(_class_attribute(kind, "_char") or kind.__name__)
    data |= keys
    prompt = _class_attribute(kind, "_prompt")
    if "prompt" not in data and prompt is not None:
        data["prompt"] = prompt_key(prompt)
    is_processed = kind.process is not LLMUnit.process
    schemas = {
        "input": unit.InputSchema or Schema,
        "response": unit.ResponseSchema or Schema,
        "output": unit.OutputSchema or Schema,
    }
    for key, schema in schemas.items():
        if schema.declared() and not (key == "output" and is_processed):
            declared = schema.declared_input() if key == "input" else schema.declared()
            data[key] = {**data.get(key, {}), **declared}
    arguments = {key: schemas[key] for key in ("response", "input")}
    code = unit_class(unit) if kind is not unit.language_class() else None
    if code is not None:
        functions[*path, "class"] = code
    if kind.validate is not LLMUnit.validate:
        functions[*path, "validate"] = python_rule(unit.validate, f"{kind.__name__}.validate", RULE_NAMES, arguments)
    if is_processed:
        fields = schemas["output"].declared() or None
        what = f"{kind.__name__}.process"
        functions[*path, "process"] = method_function(unit.process, what, OUTPUT_NAMES, arguments, fields)
    extractor = data.get("extract")
    if isinstance(extractor, Extractor):
        data["extract"] = extractor.key(_response_fields(unit, data))
    return data


def _class_attribute(kind: type[LLMUnit], name: str) -> Any:
    """A private attribute of the class. One that is annotated is taken away by pydantic, which keeps its default."""
    private = getattr(kind, "__private_attributes__", {}).get(name)
    return getattr(kind, name) if private is None else private.default


def _response_fields(unit: LLMUnit, data: dict[str, Any]) -> list[str]:
    """The names of the response's fields, except the explanation."""
    own = unit.own_fields(unit.scale or unit.default_scale())  # type: ignore[arg-type]
    return [name for name in dict.fromkeys([*data.get("response", {}), *own]) if name != EXPLANATION]


def unit_of_class(
    kind: type[LLMUnit], keys: Mapping[str, Any], path: StepPath, like: LLMUnit | None = None
) -> tuple[LLMUnit, FunctionsByPath]:
    """A unit of a class written in Python, from the keys of a file, and its functions by path. It has the attributes,
    which are no keys, of the unit `like`; by default, those that the class's constructor sets.

    Raises ValidationError for keys that the class does not accept.
    """
    like = like or _default_unit(kind.__name__, kind)
    unit = kind.model_validate(keys)
    unit.__dict__.update({name: value for name, value in vars(like).items() if name not in kind.model_fields})
    functions: FunctionsByPath = {}
    unit.to_document(path, functions)
    return unit, functions


def import_unit_types(files: Sequence[Path]) -> dict[str, type[LLMUnit]]:
    """The unit types of Python files, by class name. Raises UsageError for a file without any, or that fails to import."""
    types: dict[str, type[LLMUnit]] = {}
    for path in files:
        types |= _types_in(path)
    return types


def _types_in(path: Path) -> dict[str, type[LLMUnit]]:
    import importlib.util

    spec = importlib.util.spec_from_file_location(f"verdict_allowed_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"--allow-code {path}: there is no such Python file", hint="name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as fault:
        raise UsageError(
            f"--allow-code {path}: {type(fault).__name__}: {fault}", hint="the file must import without errors"
        ) from None
    types = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, LLMUnit) and value.__module__ == module.__name__
    }
    if not types:
        raise UsageError(
            f"--allow-code {path}: no subclass of verdict_cli.Unit is defined in it", hint="see docs/python.md"
        )
    return types
