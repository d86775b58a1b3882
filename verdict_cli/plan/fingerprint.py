"""Fingerprints of a pipeline and digests of each judge: equal for equal meaning, however it is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from verdict_cli.config_model import ConfigModel, Digest, uncounted_fields
from verdict_cli.language.calibrations import CalibrationFile, Fitted
from verdict_cli.language.extractors import resolve_extractor
from verdict_cli.language.fields.field_keys import InputDefault, input_types, record
from verdict_cli.language.namespace import Namespace
from verdict_cli.language.prompts.sections import dedent
from verdict_cli.language.units.base import LLMUnit
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.plan.early_stopping import EarlyStop
from verdict_cli.plan.expand import UnitInstance
from verdict_cli.plan.levels import Condition, EachGroup
from verdict_cli.plan.node import Escalation, LLMNode, Node
from verdict_cli.plan.place import Place

_Mode = Literal["json", "python"]
DESCRIPTIONS = {"before": "what precedes it", "output": "what it passes on"}
"""How messages name digests that are not of a key."""


def counted_fields(value: ConfigModel, digest: Digest = "run", mode: _Mode = "json") -> JsonObject:
    """The fields of a part of a file that count in a digest: all but those that their class marks as `Uncounted`, and
    what was fitted, whose content counts beside the unit."""
    kind: Any = type(value)
    left_out = {name for name, mark in uncounted_fields(kind).items() if digest in mark.digests}
    left_out |= {
        name
        for name in kind.model_fields
        if isinstance(getattr(value, name), CalibrationFile | Fitted)
    }
    return value.model_dump(mode=mode, by_alias=True, exclude_none=True, exclude=left_out)


def with_fingerprints(
    names: Namespace,
    instances: Sequence[UnitInstance],
    nodes: Sequence[Node],
    outputs: Sequence[int],
    early: Sequence[EarlyStop],
    groups: Sequence[EachGroup],
    conditions: Sequence[Condition],
) -> tuple[str, tuple[Node, ...]]:
    """32 hex digits over the pipeline's name, its dataset's keys, every unit as it is run, and the links; and the nodes, each
    with 16 over what decides what is asked there: the unit, how columns are read, and its parents' fingerprints.

    Names of scales, models, blocks and custom types, the layout of prompts, and how models are reached do not
    count. A Python function counts by its source.
    """
    file = names.spec.file
    row_digest = digest_json(counted_fields(file.dataset, "calls"), 16)
    keys_by_unit: dict[tuple[int, int], tuple[JsonObject, str]] = {}
    units: list[Any] = []
    finished: list[Node] = []
    for instance, node in zip(instances, nodes, strict=True):
        key = (id(instance.unit), id(instance.place.names))
        if key not in keys_by_unit:
            keys = unit_keys(instance)
            keys_by_unit[key] = keys, digest_json(keys, 16)
        keys, digest = keys_by_unit[key]
        code, models = [item.text for item in node.code], _models(node)
        more = _rarer_parts(instance, node, groups)
        units.append([node.id, node.parents, node.pinned, models, keys, code, *more])
        before = [finished[parent].fingerprint for parent in node.parents]
        parts = [node.id, before, node.pinned, models, digest, code, row_digest, *more]
        parts += [repr(item) for item in early if item.pool == node.index]
        finished.append(replace(node, fingerprint=digest_json(parts, 8)))
    whole = {
        **counted_fields(file),
        "dataset": counted_fields(file.dataset),
        "units": units,
        "outputs": outputs,
    }
    if early:
        whole["early"] = [repr(item) for item in early]
    if groups:
        whole["each"] = [[group.text, group.most, group.nodes, group.checked] for group in groups]
    if conditions:
        texts = [condition.holds.text for condition in conditions]
        whole["when"] = [texts, [node.checked for node in nodes]]
    return digest_json(whole, 16), tuple(finished)


def _rarer_parts(instance: UnitInstance, node: Node, groups: Sequence[EachGroup]) -> list[Any]:
    """What counts of a node that few units have."""
    parts: list[Any] = []
    if node.calibrations:
        parts.append([[place, counted_fields(fitted)] for place, fitted in node.calibrations])
    if isinstance(node.work, LLMNode) and node.work.examples is not None:
        parts.append(["examples", node.work.examples.content()])
    if node.escalation is not None:
        parts.append(_escalation(instance, node.escalation))
    if node.groups:
        around = [groups[number] for number in node.groups]
        parts.append(["each", [[group.text, group.name] for group in around]])
    return parts


def digest_json(value: Any, size: int) -> str:
    """The digest of so many bytes of a value that JSON can write, in hex."""
    return hashlib.blake2b(
        json.dumps(canonical(value), sort_keys=True).encode(), digest_size=size
    ).hexdigest()


def unit_keys(instance: UnitInstance, digest: Digest = "run") -> JsonObject:
    """The unit's keys, those that names or the layout of a prompt could spell otherwise by what they mean."""
    unit, place = instance.unit, instance.place
    content = counted_fields(unit, digest) | {"unit": unit.type_name}
    for key in ("response", "output"):
        declared = getattr(unit, key, None)
        if declared:
            content[key] = repr(record(declared, place.names.scale_named))
    if unit.input:
        content["input"] = _input_keys(unit.input, place.names)
    if instance.delimited:
        content["delimit"] = True
    return content | (_llm_keys(unit, place) if isinstance(unit, LLMUnit) else {})


def _input_keys(declared: NamedValues, names: Namespace) -> Any:
    """The types of input fields, and, where there are any, their paths and defaults."""
    types = input_types(declared)
    paths = {name: key for name, key in declared.items() if name not in types}
    defaults = {
        name: key.default for name, key in declared.items() if isinstance(key, InputDefault)
    }
    type_text = repr(record(types, names.scale_named))
    return [type_text, paths, defaults] if paths or defaults else type_text


def _llm_keys(unit: LLMUnit, place: Place) -> JsonObject:
    scale: Any = unit.scale or unit.default_scale()
    if isinstance(unit.scale, str):
        scale = place.names.scale_named(unit.scale)
    text, is_jinja = unit.default_prompt(), False
    if unit.prompt_key is not None:
        text, is_jinja = place.names.prompt_text(unit.prompt_key, place.path) or ("", False)
    extract = None
    if unit.extract_key is not None:
        extract = counted_fields(resolve_extractor(unit.extract_key), mode="python")
    return {
        "scale": repr(scale),
        "prompt": dedent(text or ""),
        "jinja": is_jinja,
        "extract": extract,
    }


def _escalation(instance: UnitInstance, escalation: Escalation) -> list[Any]:
    assert instance.unit.escalate is not None
    stages = [[counted_fields(model) for model in models] for models in escalation.stages]
    when = instance.unit.escalate.when
    audited = [escalation.audit_share] if escalation.audit_share else []
    return [when if isinstance(when, str) else "", stages, escalation.abstains, *audited]


def _models(node: Node) -> list[Any]:
    work = node.work
    if not isinstance(work, LLMNode):
        return []
    return [[counted_fields(model) for model in models] for models in (work.models, work.follow_up)]


def canonical(value: Any) -> Any:
    """The value with keys of all types as texts that can be sorted."""
    if isinstance(value, Mapping):
        return {json.dumps(key): canonical(item) for key, item in value.items()}
    return [canonical(item) for item in value] if isinstance(value, list | tuple) else value


def judge_digest(instances: Sequence[UnitInstance], nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with digests of their model, prompt, scale, extractor, upstream units and output."""
    finished: list[Node] = []
    for instance, node in zip(instances, nodes, strict=True):
        upstream = [sorted(finished[parent].marks.items()) for parent in node.parents]
        parts = _judge_parts(instance, node, upstream)
        digests = {name: digest_json(part, 8) for name, part in parts.items()}
        finished.append(replace(node, marks=digests))
    return tuple(finished)


def _judge_parts(instance: UnitInstance, node: Node, upstream: Sequence[Any]) -> JsonObject:
    keys = unit_keys(instance, "judge")
    passed_on = counted_fields(instance.unit)
    fitted = [
        [key, counted_fields(calibration)]
        for key, calibration in node.calibrations
        if key[0] != "escalate"
    ]
    rules = [passed_on.get("propagate"), passed_on.get("validate")]
    output = [rules, fitted, [code.text for code in node.code]]
    if not isinstance(node.work, LLMNode):
        return {"unit": keys, "before": upstream, "output": output}
    scale, extract = keys.pop("scale", None), keys.pop("extract", None)
    return {
        "model": _models(node),
        "prompt": keys,
        "scale": scale,
        "extractor": extract,
        "before": upstream,
        "output": output,
    }


def check_calibrations(instances: Sequence[UnitInstance], nodes: Sequence[Node]) -> None:
    """Reports every calibration that was fitted to another judge."""
    for instance, node in zip(instances, nodes, strict=True):
        for key, fitted in node.calibrations:
            changed = [
                DESCRIPTIONS.get(name, f"its {name}")
                for name, digest in fitted.fingerprint.items()
                if node.marks.get(name) != digest
            ]
            if changed:
                message = (
                    f"the calibration was fitted to another judge ({fitted.unit!r}, {fitted.made[:10]}): "
                    f"{' and '.join(changed)} changed since"
                )
                hint = "run `verdict calibrate` on a run of this judge, or restore what changed"
                instance.place.problem("stale-calibration", message, hint, *key)
