"""The pipeline as it is run: files inlined, written as YAML that reads back as the same data."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import yaml

from verdict_cli.language.fields.field_keys import PLAIN, is_input_path
from verdict_cli.language.namespace import Namespace, UnknownNameError
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.base import snake
from verdict_cli.messages import JsonObject
from verdict_cli.regex import regex

_PLAIN = regex(r"[A-Za-z_][A-Za-z0-9_/.-]*( [A-Za-z0-9_/.-]+)*")
_RESERVED = {"null", "true", "false"}
_UNFIT = regex(r"[ \t]$|[\r\x85\u2028\u2029]")
"""What a line of a block scalar cannot hold: space at its end, and what PyYAML takes for a line break."""


class _Dumper(yaml.SafeDumper):
    """Writes YAML 1.2: whatever another reader could take for a number or a boolean is quoted."""

    def ignore_aliases(self, data: Any) -> bool:
        """Every value is written out."""
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style: str | None = '"'
    lines = text.split("\n")
    if len(lines) > 1 and text == text.strip() and not any(_UNFIT.search(line) for line in lines):
        style = "|"
    elif _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        style = None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(data: Any) -> str:
    """The data as YAML, keys in their own order."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def resolve_pipeline(names: Namespace) -> JsonObject:
    """The document of a valid pipeline, with the texts of its prompt files and the blocks of other files inlined."""
    data: JsonObject = copy.deepcopy(names.spec.document.data)
    data["pipeline"] = _steps(data["pipeline"], names, names)
    for name, steps in data.get("blocks", {}).items():
        data["blocks"][name] = _steps(steps, names, names)
    for name, custom in data.get("units", {}).items():
        data["units"][name] = _with_files(_without_class(custom, "base", names), names)
    return data


def _steps(steps: list[Any], names: Namespace, home: Namespace) -> list[Any]:
    return [_step(step, names, home) for step in steps]


def _step(step: JsonObject, names: Namespace, home: Namespace) -> JsonObject:
    """The step as the pipeline's own file (`home`) would have to write it."""
    for key in ("layer", "block"):
        if key in step:
            models = step if names is home else _with_models(step, names)
            return {**models, key: _steps(step[key], names, home)}
    if "use" in step:
        return _used_block(step, names, home)
    if names is home:
        return _with_files(_without_class(step, "unit", names), names)
    return _unit(_with_files(_merged(step, names), names), names)


def _used_block(step: JsonObject, names: Namespace, home: Namespace) -> JsonObject:
    """A block of this file stays named; one of another file is written out."""
    block = names.block(step["use"], ())
    assert block is not None
    owner, _, path = block
    if owner is home:
        return {"use": path[-1]}
    return {"block": _steps(owner.spec.document.data["blocks"][path[-1]], owner, home)}


def _with_files(step: JsonObject, names: Namespace) -> JsonObject:
    """The step with the content of its prompt file and its calibrations; an unused type's file may not have been read."""
    resolved = dict(step)
    prompt = step.get("prompt")
    if isinstance(prompt, dict) and prompt.get("file") in names.prompts:
        resolved["prompt"] = names.prompts[prompt["file"]]
    _inline(resolved, ("weights",), names)
    examples = step.get("examples")
    if isinstance(examples, dict) and (examples.get("file"), "kept") in names.examples:
        settings = {key: value for key, value in examples.items() if key != "file"}
        resolved["examples"] = {**settings, "rows": names.examples[examples["file"], "kept"]}
    for home, keys in (("extract", ("calibration", "weights")), ("escalate", ("when",))):
        if isinstance(step.get(home), dict):
            resolved[home] = dict(step[home])
            _inline(resolved[home], keys, names)
    return resolved


def _inline(data: JsonObject, keys: Sequence[str], names: Namespace) -> None:
    for key in keys:
        reference = data.get(key)
        file = reference.get("file") if isinstance(reference, dict) else None
        if isinstance(file, str) and file in names.calibrations:
            data[key] = names.calibrations[file]


def _without_class(step: JsonObject, key: str, names: Namespace) -> JsonObject:
    """The step or declared type, with the keys of a Python class that it names at `key`: a reader may not have it."""
    name = step[key]
    if name in TYPES or name in names.spec.file.units:
        return step
    try:
        merged = names.merged_type(name)
    except UnknownNameError:
        return step  # in a block that nobody uses, else it were an error by now
    keys = {name: value for name, value in merged.keys.items() if key == "unit" or name != "name"}
    return {**keys, **step, key: merged.base}


def _merged(step: JsonObject, names: Namespace) -> JsonObject:
    """A step of a declared type as one of the built-in type."""
    if step["unit"] in TYPES:
        return step
    merged = names.merged_type(step["unit"])
    declared = {
        key: names.spec.document.data["units"][owner][key] for key, owner in merged.set_by.items()
    }
    return {"name": snake(step["unit"]), **merged.keys, **declared, **step, "unit": merged.base}


def _unit(step: JsonObject, names: Namespace) -> JsonObject:
    """A unit of another file: the scales and models that it names there are written out."""
    resolved = _with_models(step, names)
    if isinstance(resolved.get("scale"), str):
        resolved["scale"] = _scale(resolved["scale"], names)
    for key in ("response", "output"):
        if resolved.get(key) is not None:
            resolved[key] = _type(resolved[key], names)
    if resolved.get("input") is not None:
        resolved["input"] = {name: _input(key, names) for name, key in resolved["input"].items()}
    extract = resolved.get("extract")
    if isinstance(extract, dict) and extract.get("model") is not None:
        resolved["extract"] = {**extract, "model": _model(extract["model"], names)}
    return resolved


def _with_models(step: JsonObject, names: Namespace) -> JsonObject:
    """A step of another file: the models that it names there are written out."""
    resolved = dict(step)
    if resolved.get("model") is not None:
        resolved["model"] = _model(resolved["model"], names)
    if resolved.get("models") is not None:
        resolved["models"] = [_model(model, names) for model in resolved["models"]]
    return resolved


def _model(key: Any, names: Namespace) -> Any:
    models = _models(key, names)
    return models[0] if len(models) == 1 else models


def _models(key: Any, names: Namespace) -> list[Any]:
    """The mappings of all models that a spelling means; `home` may have given their names another meaning."""
    if isinstance(key, list):
        return [model for item in key for model in _models(item, names)]
    if isinstance(key, str) and key in names.spec.file.models:
        return _models(names.spec.document.data["models"][key], names)
    return [{"name": key} if isinstance(key, str) else key]


def _scale(name: str, names: Namespace) -> Any:
    if name not in names.spec.file.scales:
        return name
    return {"type": names.spec.file.scales[name].type, **names.spec.document.data["scales"][name]}


def _input(key: Any, names: Namespace) -> Any:
    if isinstance(key, dict) and "default" in key:
        return {**key, "type": _type(key["type"], names)}
    return key if is_input_path(key) else _type(key, names)


def _type(key: Any, names: Namespace) -> Any:
    if isinstance(key, str):
        return key if key in PLAIN else _scale(key, names)
    scale = key.get("type") in ("boolean", "discrete", "continuous") or isinstance(
        key.get("enum"), list
    )
    return key if scale else {name: _type(inner, names) for name, inner in key.items()}
