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
from verdict_cli.language.fields.field_keys import InputDefault, is_path_key, record
from verdict_cli.language.namespace import Namespace
from verdict_cli.language.prompts.sections import dedented
from verdict_cli.language.units.base import LLMUnit
from verdict_cli.plan.early_stopping import EarlyStop
from verdict_cli.plan.expand import UnitInstance
from verdict_cli.plan.levels import Condition, EachGroup
from verdict_cli.plan.node import Escalation, LLMNode, Node

_Mode = Literal["json", "python"]


def counted_fields(
    value: ConfigModel, digest: Digest = "run", mode: _Mode = "json"
) -> dict[str, Any]:
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


def fingerprints(
    names: Namespace,
    instances: Sequence[UnitInstance],
    nodes: Sequence[Node],
    outputs: Sequence[int],
    early: Sequence[EarlyStop] = (),
    groups: Sequence[EachGroup] = (),
    conditions: Sequence[Condition] = (),
) -> tuple[str, tuple[str, ...]]:
    """32 hex digits over the pipeline's name, its dataset's keys, every unit as it is run, and the links; and for each
    node 16 over what decides what is asked there: the unit, how columns are read, and its parents' fingerprints.

    Names of scales, models, blocks and custom types, the layout of prompts, and how models are reached do not
    count. A Python function counts by its source.
    """
    keys_by_unit: dict[tuple[int, int], Any] = {}
    unit_digests: dict[tuple[int, int], str] = {}
    units: list[Any] = []
    node_digests: list[str] = []
    file = names.spec.file
    row_digest = digest_json(counted_fields(file.dataset, "calls"), 16)
    for instance, node in zip(instances, nodes, strict=True):
        key = (id(instance.unit), id(instance.names))
        if key not in keys_by_unit:
            keys_by_unit[key] = unit_keys(instance)
            unit_digests[key] = digest_json(keys_by_unit[key], 16)
        code = [item.text for item in node.code]
        models = _models(node)
        units.append([node.id, node.parents, node.pinned, models, keys_by_unit[key], code])
        extra: list[Any] = []
        if node.calibrations:
            extra.append(
                [[at, counted_fields(calibration)] for at, calibration in node.calibrations]
            )
        if isinstance(node.work, LLMNode) and node.work.examples is not None:
            extra.append(["examples", node.work.examples.content()])
        if node.escalation is not None:
            extra.append(_escalation(instance, node.escalation))
        if node.groups:
            extra.append(
                [
                    "each",
                    [[groups[index].text, groups[index].name] for index in node.groups],
                ]
            )
        units[-1] += extra
        parent_digests = [node_digests[parent] for parent in node.parents]
        node_parts = [
            node.id,
            parent_digests,
            node.pinned,
            models,
            unit_digests[key],
            code,
            row_digest,
            *extra,
        ]
        node_parts += [repr(item) for item in early if item.pool == node.index]
        node_digests.append(digest_json(node_parts, 8))
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
        whole["when"] = [
            [condition.holds.text for condition in conditions],
            [node.checked for node in nodes],
        ]
    return digest_json(whole, 16), tuple(node_digests)


def digest_json(value: Any, size: int) -> str:
    """The digest of so many bytes of a value that JSON can write, in hex."""
    return hashlib.blake2b(
        json.dumps(canonical(value), sort_keys=True).encode(), digest_size=size
    ).hexdigest()


def unit_keys(instance: UnitInstance, digest: Digest = "run") -> dict[str, Any]:
    """The unit's keys, those that names or the layout of a prompt could spell otherwise by what they mean."""
    unit, names = instance.unit, instance.names
    known = counted_fields(unit, digest) | {"unit": unit.type_name}
    for key in ("response", "output"):
        declared = getattr(unit, key, None)
        if declared:
            known[key] = repr(record(declared, names.scale_named))
    if unit.input:
        known["input"] = _input_keys(unit.input, names)
    if instance.delimited:
        known["delimit"] = True
    return known | (_llm_keys(unit, names, instance.path) if isinstance(unit, LLMUnit) else {})


def _input_keys(declared: Mapping[str, Any], names: Namespace) -> Any:
    """The types of input fields, and, where there are any, their paths and defaults."""
    paths = {name: key for name, key in declared.items() if is_path_key(key)}
    defaults = {
        name: key.default for name, key in declared.items() if isinstance(key, InputDefault)
    }
    types = {
        name: key.type if isinstance(key, InputDefault) else key
        for name, key in declared.items()
        if name not in paths
    }
    known = repr(record(types, names.scale_named))
    return [known, paths, defaults] if paths or defaults else known


def _llm_keys(unit: LLMUnit, names: Namespace, path: tuple[str | int, ...]) -> dict[str, Any]:
    scale = (
        names.scale_named(unit.scale)
        if isinstance(unit.scale, str)
        else unit.scale or unit.default_scale()
    )
    text, jinja = (
        (unit.default_prompt(), False)
        if unit.prompt_key is None
        else names.prompt_text(unit.prompt_key, path) or ("", False)
    )
    return {
        "scale": repr(scale),
        "prompt": dedented(text or ""),
        "jinja": jinja,
        "extract": None
        if unit.extract_key is None
        else counted_fields(resolve_extractor(unit.extract_key), mode="python"),
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


DESCRIPTIONS = {"before": "what precedes it", "output": "what it passes on"}
"""How messages name digests that are not of a key."""


def judge_digest(instances: Sequence[UnitInstance], nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with digests of their model, prompt, scale, extractor, upstream units and output."""
    with_marks: list[Node] = []
    for instance, node in zip(instances, nodes, strict=True):
        upstream = [sorted(with_marks[parent].marks.items()) for parent in node.parents]
        with_marks.append(replace(node, marks=_digests(instance, node, upstream)))
    return tuple(with_marks)


def _digests(instance: UnitInstance, node: Node, upstream: Sequence[Any]) -> dict[str, str]:
    keys = unit_keys(instance, "judge")
    passed_on = counted_fields(instance.unit)
    fitted = [
        [key, counted_fields(calibration)]
        for key, calibration in node.calibrations
        if key[0] != "escalate"
    ]
    output = [
        [passed_on.get("propagate"), passed_on.get("validate")],
        fitted,
        [code.text for code in node.code],
    ]
    if not isinstance(node.work, LLMNode):
        return {"unit": _digest(keys), "before": _digest(upstream), "output": _digest(output)}
    scale, extract = keys.pop("scale", None), keys.pop("extract", None)
    return {
        "model": _digest(_models(node)),
        "prompt": _digest(keys),
        "scale": _digest(scale),
        "extractor": _digest(extract),
        "before": _digest(upstream),
        "output": _digest(output),
    }


def _digest(value: Any) -> str:
    return digest_json(value, 8)


def check_calibrations(instances: Sequence[UnitInstance], nodes: Sequence[Node]) -> None:
    """Reports every calibration that was fitted to another judge."""
    for instance, node in zip(instances, nodes, strict=True):
        for key, fitted in node.calibrations:
            changed = changed_parts(fitted.fingerprint, node.marks)
            if changed:
                instance.names.problem(
                    "stale-calibration",
                    f"the calibration was fitted to another judge ({fitted.unit!r}, {fitted.made[:10]}): "
                    f"{' and '.join(changed)} changed since",
                    "run `verdict calibrate` on a run of this judge, or restore what changed",
                    (*instance.path, *key),
                )


def changed_parts(fingerprint: Mapping[str, str], marks: Mapping[str, str]) -> list[str]:
    """Descriptions of the judge's parts that changed since the calibration was fitted."""
    return [
        DESCRIPTIONS.get(name, f"its {name}")
        for name, digest in fingerprint.items()
        if marks.get(name) != digest
    ]
