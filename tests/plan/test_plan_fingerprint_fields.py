"""Every field of a pipeline file counts in its fingerprint, or its class marks it with the reason why it does not."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import verdict_cli.language
from verdict_cli.config_model import ConfigModel, uncounted_fields
from verdict_cli.language.calibrations import Fitted
from verdict_cli.language.extractors.bound_extractor import Extractor
from verdict_cli.language.load import load
from verdict_cli.language.pipeline_file import DatasetKeys, PipelineFile
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.base import UnitBase
from verdict_cli.model import Model
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.fingerprint import counted_fields

BELOW_A_MARK = {
    "Evaluation", "Gold", "Published", "PublishedRow", "Reduce", "Gate", "GatesFile",  # `evaluate`, `gates`
    "Cost", "RateLimit",  # how a model is reached
    "PromptFile", "JinjaPrompt", "CalibrationFile", "Enum", "InputDefault",  # their content and types count
}  # fmt: skip
JUDGE = "{unit: JudgeUnit, name: j, prompt: x}"
POOL = "{unit: MeanPoolUnit}"
ROWS = "rows: [{q: a, l: 1, m: 2, w: u}, {q: b, l: 3, m: 4, w: v}]"


def _layer(keys: str, after: str = POOL) -> str:
    return f"- layer: [{JUDGE}, {{unit: JudgeUnit, name: k, prompt: y}}]\n  {keys}\n- {after}"


def _until(keys: str) -> str:
    return f"- layer: [{{unit: JudgeUnit, prompt: x, scale: boolean}}]\n  repeat: 5\n  until: {{{keys}}}\n- {POOL}"


def _examples(keys: str, where: str = ROWS) -> str:
    return f"- {{unit: JudgeUnit, prompt: '{{source.q}}', explanation: true, examples: {{{where}, {keys}}}}}"


def _escalate(keys: str) -> str:
    return f"- {{unit: JudgeUnit, prompt: x, escalate: {{{keys}}}}}"


def _each(keys: str) -> str:
    return f"- {{each: source.c, {keys}unit: JudgeUnit, prompt: x}}\n- {POOL}"


EACH = "- {each: source.c, unit: JudgeUnit, prompt: x}\n- " + POOL
CHANGES: dict[str, tuple[str, str]] = {
    "Layer.layer": (_layer("repeat: 1"), f"- layer: [{JUDGE}]\n- {POOL}"),
    "Layer.repeat": (_layer("repeat: 1"), _layer("repeat: 2")),
    "Layer.models": (_layer("models: [m]"), _layer("models: [n]")),
    "Layer.inner": (_layer("inner: none"), _layer("inner: chain")),
    "Layer.outer": (_layer("outer: dense"), _layer("outer: last")),
    "Layer.roots": (f"- {JUDGE}\n{_layer('roots: [0]')}", f"- {JUDGE}\n{_layer('roots: [1]')}"),
    "Layer.leaves": (_layer("leaves: [0]"), _layer("leaves: [1]")),
    "Layer.until": (
        _until("confidence: 1, threshold: 0.5"),
        f"- layer: [{JUDGE}]\n  repeat: 5\n- {POOL}",
    ),
    "Layer.model": (_layer("model: m"), _layer("model: n")),
    "Block.block": (f"- block: [{JUDGE}]", f"- block: [{JUDGE}, {JUDGE}]"),
    "Block.model": (f"- {{block: [{JUDGE}], model: m}}", f"- {{block: [{JUDGE}], model: n}}"),
    "Block.pinned": (f"- {{block: [{JUDGE}], pin: true}}", f"- {{block: [{JUDGE}], pin: false}}"),
    "UseStep.use": ("- use: one", "- use: two"),
    "CustomStep.unit": ("- {unit: Own}", "- {unit: Other}"),
    "CustomType.base": ("- {unit: Own}", "- {unit: Thought}"),
    "Until.confidence": (_until("confidence: 1, within: 1"), _until("confidence: 0.9, within: 1")),
    "Until.max": (
        _until("confidence: 1, within: 1, max: 5"),
        _until("confidence: 1, within: 1, max: 9"),
    ),
    "Until.batch": (
        _until("confidence: 1, within: 1"),
        _until("confidence: 1, within: 1, batch: 2"),
    ),
    "Until.threshold": (
        _until("confidence: 1, threshold: 0.5"),
        _until("confidence: 1, threshold: 0.6"),
    ),
    "Until.within": (_until("confidence: 1, within: 1"), _until("confidence: 1, within: 0.5")),
    "Until.audit_share": (
        _until("confidence: 1, within: 1"),
        _until("confidence: 1, within: 1, audit_share: 0.5"),
    ),
    "Escalate.when": (
        _escalate("when: output.score < 3, to: n"),
        _escalate("when: output.score < 2, to: n"),
    ),
    "Escalate.to": (
        _escalate("when: output.score < 3, to: n"),
        _escalate("when: output.score < 3, to: o"),
    ),
    "Escalate.audit_share": (
        _escalate("when: output.score < 3, to: n"),
        _escalate("when: output.score < 3, to: n, audit_share: 0.5"),
    ),
    "Examples.rows": (
        _examples("target: source.l"),
        _examples("target: source.l", "rows: [{q: c, l: 1}]"),
    ),
    "Examples.file": (
        _examples("target: source.l", "file: a.jsonl"),
        _examples("target: source.l", "file: b.jsonl"),
    ),
    "Examples.k": (_examples("target: source.l"), _examples("target: source.l, k: 1")),
    "Examples.choose": (
        _examples("target: source.l"),
        _examples("target: source.l, choose: nearest"),
    ),
    "Examples.target": (_examples("target: source.l"), _examples("target: source.m")),
    "Examples.prediction": (
        _examples("target: source.l, choose: errors, prediction: source.l"),
        _examples("target: source.l, choose: errors, prediction: source.m"),
    ),
    "Examples.explanation": (
        _examples("target: source.l"),
        _examples("target: source.l, explanation: source.w"),
    ),
    "Examples.columns": (
        _examples("target: source.l"),
        _examples("target: source.l, columns: [w]"),
    ),
    "Examples.cluster": (
        _examples("target: source.l"),
        _examples("target: source.l, cluster: source.w"),
    ),
    "Examples.seed": (_examples("target: source.l"), _examples("target: source.l, seed: 3")),
}


def _file(tmp_path: Path, pipeline: str) -> Path:
    path = tmp_path / "p.yaml"
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"q": name, "l": 1}) + "\n")
    path.write_text(
        "verdict: 1\nname: x\nmodel: m\n"
        "units: {Own: {base: JudgeUnit, prompt: x}, Other: {base: JudgeUnit, prompt: y}, Thought: {base: CoTUnit, prompt: x}}\n"
        f"blocks: {{one: [{JUDGE}], two: [{{unit: JudgeUnit, name: j, prompt: y}}]}}\npipeline:\n{pipeline}\n"
    )
    return path


@pytest.mark.parametrize("field", CHANGES)
def test_a_change_of_a_step_changes_the_fingerprint(field, tmp_path):
    first, second = (
        build_plan(load(_file(tmp_path, text))).plan.fingerprint for text in CHANGES[field]
    )
    assert first != second


EACH_KEYS = {
    "each": "source.d",
    "entry_name": "e",
    "most": "9",
    "condition": "source.n > 1",
}


@pytest.mark.parametrize("field", EACH_KEYS)
def test_what_is_around_a_unit_changes_the_fingerprint(field, tmp_path):
    key = {"entry_name": "as", "most": "max", "condition": "when"}.get(field, field)
    text = (
        EACH.replace("source.c", EACH_KEYS[field])
        if key == "each"
        else _each(f"{key}: {EACH_KEYS[field]}, ")
    )
    first, second = (
        build_plan(load(_file(tmp_path, text_of_file))).plan.fingerprint
        for text_of_file in (EACH, text)
    )
    assert first != second


def _classes(base: Any) -> Iterator[Any]:
    for kind in base.__subclasses__():
        yield kind
        yield from _classes(kind)


def _language_classes() -> list[Any]:
    for module in pkgutil.walk_packages(verdict_cli.language.__path__, "verdict_cli.language."):
        importlib.import_module(module.name)
    homes = ("verdict_cli.language.", "verdict_cli.model")
    return [
        kind
        for kind in _classes(ConfigModel)
        if kind.__module__.startswith(homes) and _is_public(kind)
    ]


def _is_public(kind: type[Any]) -> bool:
    """False for a class that `with_added_keys` has replaced by one with more fields."""
    return getattr(sys.modules[kind.__module__], kind.__name__, kind) is kind


def _with(kind: Any, name: str, value: str) -> Any:
    required = {
        field_name: "z" for field_name, field in kind.model_fields.items() if field.is_required()
    }
    return kind.model_construct(**{**required, name: value})


DUMPED = (UnitBase, Model, Extractor, Fitted, DatasetKeys, PipelineFile)


def test_every_field_counts_or_says_why_it_does_not():
    uncounted = []
    for kind in _language_classes():
        marks = uncounted_fields(kind)
        assert all(mark.reason and mark.digests for mark in marks.values())
        for name in kind.model_fields:
            if name in marks or kind.__name__ in BELOW_A_MARK:
                continue
            if issubclass(kind, DUMPED):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    counts = counted_fields(_with(kind, name, "one")) != counted_fields(
                        _with(kind, name, "two")
                    )
            elif issubclass(kind, Scale):
                counts = repr(_with(kind, name, "one")) != repr(_with(kind, name, "two"))
            else:
                counts = any(f"{owner.__name__}.{name}" in CHANGES for owner in kind.__mro__)
            if not counts:
                uncounted.append(f"{kind.__name__}.{name}")
    assert uncounted == []


def test_a_field_with_a_mark_changes_nothing(tmp_path):
    plan = build_plan(load(_file(tmp_path, f"- {JUDGE}"))).plan
    settings = (
        "description=d",
        "level=0.9",
        "model.timeout=5",
        "model.retries=2",
        "model.structured=auto",
    )
    assert (
        build_plan(load(_file(tmp_path, f"- {JUDGE}"), settings)).plan.fingerprint
        == plan.fingerprint
    )
