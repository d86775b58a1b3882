"""Fingerprints of a pipeline and digests of each judge: equal for equal meaning, however it is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from verdict_cli.language.calibrations import CalibrationFile, Fitted
from verdict_cli.language.extractors import resolve_extractor
from verdict_cli.language.fields.field_keys import InputDefault, record
from verdict_cli.language.namespace import Namespace
from verdict_cli.language.prompts.sections import dedented
from verdict_cli.language.units.base import LLMUnit
from verdict_cli.model import Model
from verdict_cli.plan.compile_input import is_path_key
from verdict_cli.plan.early_layers import Early
from verdict_cli.plan.expand import UnitInstance
from verdict_cli.plan.levels import Condition, EachGroup
from verdict_cli.plan.node import Escalation, LLMNode, Node

_CONNECTION = {
    "api_base",
    "api_key_env",
    "timeout",
    "max_wait",
    "rate_limit",
    "cost",
    "cache",
    "prompt_cache",
    "base_model",
    "batch",
}
"""How a model is reached, not what it is asked."""
_COMPARED_BY_MEANING = {
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
_COMPARED_BY_MEANING |= {"delimit", "each", "entry_name", "most", "per_call", "condition", "examples"}
"""Keys whose spelling may differ although they mean the same."""


_ROWS = ("id", "columns", "schema")
"""Keys of the dataset that decide what a row's values are; `where` only leaves rows out."""


def fingerprints(
    names: Namespace,
    instances: Sequence[UnitInstance],
    nodes: Sequence[Node],
    outputs: Sequence[int],
    early: Sequence[Early] = (),
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
    dataset = names.spec.file.dataset.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"trace", "span"}
    )
    row_digest = digest_json({key: dataset[key] for key in _ROWS if key in dataset}, 16)
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
                [
                    [at, calibration.model_dump(mode="json", exclude={"held_out"})]
                    for at, calibration in node.calibrations
                ]
            )
        if isinstance(node.work, LLMNode) and node.work.examples is not None:
            extra.append(["examples", node.work.examples.content()])
        if node.escalation is not None:
            extra.append(_escalation(instance, node.escalation))
        if node.groups:
            extra.append(
                ["each", [[groups[each].text, groups[each].name, groups[each].per_call] for each in node.groups]]
            )
        units[-1] += extra
        parent_digests = [node_digests[parent] for parent in node.parents]
        node_parts = [node.id, parent_digests, node.pinned, models, unit_digests[key], code, row_digest, *extra]
        node_parts += [_early_key(item) for item in early if item.pool == node.index]
        node_digests.append(digest_json(node_parts, 8))
    whole = {"name": names.spec.file.name, "dataset": dataset, "units": units, "outputs": outputs}
    if early:
        whole["early"] = [_early_key(item) for item in early]
    if groups:
        whole["each"] = [[group.text, group.most, group.nodes, group.checked] for group in groups]
    if conditions:
        whole["when"] = [[condition.holds.text for condition in conditions], [node.checked for node in nodes]]
    return digest_json(whole, 16), tuple(node_digests)


def digest_json(value: Any, size: int) -> str:
    """The digest of so many bytes of a value that JSON can write, in hex."""
    return hashlib.blake2b(json.dumps(canonical(value), sort_keys=True).encode(), digest_size=size).hexdigest()


def unit_keys(instance: UnitInstance) -> dict[str, Any]:
    """The unit's keys by what they mean; its calibrations count by their content."""
    unit, names = instance.unit, instance.names
    known: dict[str, Any] = unit.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_COMPARED_BY_MEANING)
    known["unit"] = unit.type_name
    for key in ("response", "output"):
        declared = getattr(unit, key, None)
        if declared:
            known[key] = repr(record(declared, names.scale_named))
    if unit.input:
        known["input"] = _input_keys(unit.input, names)
    if isinstance(known.get("weights"), dict):
        del known["weights"]
    if instance.delimited:
        known["delimit"] = True
    return known | (_llm_keys(unit, names, instance.path) if isinstance(unit, LLMUnit) else {})


def _input_keys(declared: Mapping[str, Any], names: Namespace) -> Any:
    """The types of input fields, and, where there are any, their paths and defaults."""
    paths = {name: key for name, key in declared.items() if is_path_key(key)}
    defaults = {name: key.default for name, key in declared.items() if isinstance(key, InputDefault)}
    types = {
        name: key.type if isinstance(key, InputDefault) else key for name, key in declared.items() if name not in paths
    }
    known = repr(record(types, names.scale_named))
    return [known, paths, defaults] if paths or defaults else known


def _llm_keys(unit: LLMUnit, names: Namespace, path: tuple[str | int, ...]) -> dict[str, Any]:
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
        "extract": None if unit.extract_key is None else extractor_keys(unit),
    }


def extractor_keys(unit: LLMUnit) -> dict[str, Any]:
    """The extractor's keys, but for its model and for what was fitted."""
    chosen = resolve_extractor(unit.extract_key)
    fitted = {
        key for key in ("calibration", "weights") if isinstance(getattr(chosen, key, None), CalibrationFile | Fitted)
    }
    unset = {key for key in ("sequence", "samples", "log") if not getattr(chosen, key, None)}
    return chosen.model_dump(exclude={"model", *fitted, *unset}, exclude_none=True)


def _escalation(instance: UnitInstance, escalation: Escalation) -> list[Any]:
    assert instance.unit.escalate is not None
    stages = [[model_keys(model) for model in models] for models in escalation.stages]
    when = instance.unit.escalate.when
    audited = [escalation.audit_share] if escalation.audit_share else []
    return [when if isinstance(when, str) else "", stages, escalation.abstains, *audited]


def _early_key(early: Early) -> str:
    return f"{early!r} audited {early.audit_share!r}" if early.audit_share else repr(early)


def _models(node: Node) -> list[Any]:
    work = node.work
    if not isinstance(work, LLMNode):
        return []
    return [[model_keys(model) for model in models] for models in (work.models, work.follow_up)]


def model_keys(model: Model) -> dict[str, Any]:
    default = {"structured"} if model.structured == "auto" else set()
    return model.model_dump(mode="json", exclude_none=True, exclude=_CONNECTION | default)


def canonical(value: Any) -> Any:
    """The value with keys of all types as texts that can be sorted."""
    if isinstance(value, Mapping):
        return {json.dumps(key): canonical(item) for key, item in value.items()}
    return [canonical(item) for item in value] if isinstance(value, list | tuple) else value


_POST_PROCESSING = ("propagate", "validate")
"""Keys that change what is passed on, not what is asked or how it is read."""
_NEUTRAL_KEYS = ("on_failure", "stream")
"""Keys that change neither."""
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
    keys = unit_keys(instance)
    post_processing = [keys.pop(key, None) for key in _POST_PROCESSING]
    for key in _NEUTRAL_KEYS:
        keys.pop(key, None)
    fitted = [
        [key, calibration.model_dump(mode="json", exclude={"held_out"})]
        for key, calibration in node.calibrations
        if key[0] != "escalate"
    ]
    output = [post_processing, fitted, [code.text for code in node.code]]
    if not isinstance(node.work, LLMNode):
        return {"unit": _digest(keys), "before": _digest(upstream), "output": _digest(output)}
    scale, extract = keys.pop("scale", None), keys.pop("extract", None)
    models = [[model_keys(model) for model in models] for models in (node.work.models, node.work.follow_up)]
    return {
        "model": _digest(models),
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
    return [DESCRIPTIONS.get(name, f"its {name}") for name, digest in fingerprint.items() if marks.get(name) != digest]
