"""What decides what the models are asked, as hex digits: the same for a pipeline however it is spelled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from verdict_cli.language.calibrations import CalibrationFile, Fitted
from verdict_cli.language.extractors import extractor
from verdict_cli.language.fields.field_keys import record
from verdict_cli.language.namespace import Namespace
from verdict_cli.language.prompts.sections import dedented
from verdict_cli.language.units.base import LLMUnit
from verdict_cli.model import Model
from verdict_cli.plan.expand import UnitInstance
from verdict_cli.plan.node import Early, Escalation, LLMNode, Node

_CONNECTION = {"api_base", "api_key_env", "timeout", "rate_limit", "cost", "cache"}
"""How a model is reached, not what it is asked."""
_ELSEWHERE = {
    "name",
    "prompt_key",
    "model",
    "scale",
    "extract_key",
    "input",
    "response",
    "output",
    "pinned",
    "escalate",
}
_ELSEWHERE |= {"delimit"}
"""Keys whose spelling may differ although they mean the same."""


_ROWS = ("id", "columns", "schema")
"""Keys of the dataset that decide what a row's values are; `where` only leaves rows out."""


def fingerprints(
    names: Namespace,
    seats: Sequence[UnitInstance],
    nodes: Sequence[Node],
    outputs: Sequence[int],
    early: Sequence[Early] = (),
) -> tuple[str, tuple[str, ...]]:
    """32 hex digits over the pipeline's name, its dataset's keys, every unit as it is run, and the links; and for each
    node 16 over what decides what is asked there: the unit, how columns are read, and its parents' fingerprints.

    Names of scales, models, blocks and custom types, the layout of prompts, and how models are reached do not
    count. A Python function counts by its source.
    """
    known: dict[tuple[int, int], Any] = {}
    digests: dict[tuple[int, int], str] = {}
    units: list[Any] = []
    each: list[str] = []
    dataset = names.spec.file.dataset.model_dump(mode="json", by_alias=True, exclude_none=True)
    read = digest_json({key: dataset[key] for key in _ROWS if key in dataset}, 16)
    for seat, node in zip(seats, nodes, strict=True):
        key = (id(seat.unit), id(seat.names))
        if key not in known:
            known[key] = unit_keys(seat)
            digests[key] = digest_json(known[key], 16)
        code = [one.text for one in node.code]
        models = _models(node)
        units.append([node.id, node.parents, node.pinned, models, known[key], code])
        further: list[Any] = []
        if node.calibrations:
            further.append([[at, made.model_dump(mode="json", exclude={"held_out"})] for at, made in node.calibrations])
        if node.escalation is not None:
            further.append(_escalation(seat, node.escalation))
        units[-1] += further
        before = [each[parent] for parent in node.parents]
        own = [node.id, before, node.pinned, models, digests[key], code, read, *further]
        own += [repr(one) for one in early if one.pool == node.index]
        each.append(digest_json(own, 8))
    whole = {"name": names.spec.file.name, "dataset": dataset, "units": units, "outputs": outputs}
    if early:
        whole["early"] = [repr(one) for one in early]
    return digest_json(whole, 16), tuple(each)


def digest_json(value: Any, size: int) -> str:
    """The digest of so many bytes of a value that JSON can write, in hex."""
    return hashlib.blake2b(json.dumps(canonical(value), sort_keys=True).encode(), digest_size=size).hexdigest()


def unit_keys(seat: UnitInstance) -> dict[str, Any]:
    """The unit's keys by what they mean; its calibrations count by their content."""
    unit, names = seat.unit, seat.names
    known: dict[str, Any] = unit.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_ELSEWHERE)
    known["unit"] = unit.type_name
    for key in ("input", "response", "output"):
        declared = getattr(unit, key, None)
        if declared:
            known[key] = repr(record(declared, names.scale_named))
    if isinstance(known.get("weights"), dict):
        del known["weights"]
    if seat.delimited:
        known["delimit"] = True
    return known | (_asked(unit, names, seat.path) if isinstance(unit, LLMUnit) else {})


def _asked(unit: LLMUnit, names: Namespace, path: tuple[str | int, ...]) -> dict[str, Any]:
    scale = names.scale_named(unit.scale) if isinstance(unit.scale, str) else unit.scale or unit.default_scale()
    text, jinja = (
        (unit.default_prompt(), False)
        if unit.prompt_key is None
        else names.prompt_text(unit.prompt_key, path) or ("", False)
    )
    return {
        "scale": repr(scale),
        "prompt": dedented(text or ""),
        "jinja": jinja,
        "extract": None if unit.extract_key is None else extracted(unit),
    }


def extracted(unit: LLMUnit) -> dict[str, Any]:
    """The extractor's keys, but for its model and for what was fitted."""
    chosen = extractor(unit.extract_key)
    fitted = {
        key for key in ("calibration", "weights") if isinstance(getattr(chosen, key, None), CalibrationFile | Fitted)
    }
    return chosen.model_dump(exclude={"model", *fitted}, exclude_none=True)


def _escalation(seat: UnitInstance, escalation: Escalation) -> list[Any]:
    assert seat.unit.escalate is not None
    stages = [[model_keys(model) for model in models] for models in escalation.stages]
    when = seat.unit.escalate.when
    return [when if isinstance(when, str) else "", stages, escalation.abstains]


def _models(node: Node) -> list[Any]:
    work = node.work
    if not isinstance(work, LLMNode):
        return []
    return [[model_keys(model) for model in models] for models in (work.models, work.follow_up)]


def model_keys(model: Model) -> dict[str, Any]:
    return model.model_dump(mode="json", exclude_none=True, exclude=_CONNECTION)


def canonical(value: Any) -> Any:
    """The value with keys of all types as texts that can be sorted."""
    if isinstance(value, Mapping):
        return {json.dumps(key): canonical(item) for key, item in value.items()}
    return [canonical(item) for item in value] if isinstance(value, list | tuple) else value
