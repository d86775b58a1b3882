"""The `--set` settings by which an audit changes the units of a pipeline file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verdict_cli.language.scales import named_scales
from verdict_cli.messages import NamedValues
from verdict_cli.plan.unit_locations import UnitLocation


def setting(unit: UnitLocation, key: str, value: Any) -> str:
    """The `--set` argument that gives the unit's key this value."""
    return f"{unit.path}.{key}={json.dumps(value, ensure_ascii=False)}"


def both_orders_settings(units: list[UnitLocation]) -> tuple[str, ...]:
    """The settings by which every pairwise judge is called in both orders."""
    return tuple(
        setting(unit, "positions", "both")
        for unit in units
        if unit.type == "PairwiseJudgeUnit" and unit.keys.get("positions") != "both"
    )


def reversed_scale_settings(units: list[UnitLocation], data: NamedValues) -> tuple[str, ...]:
    """The settings by which judges see a numeric scale with its best end first; their scores are mapped back."""
    settings = []
    for unit in units:
        ends = _ends(unit, data)
        if ends is None:
            continue
        low, high = ends[0], ends[1]
        scale = {"type": "discrete", "range": list(ends), "end_is_worst": True}
        back = {"score": f"{json.dumps(low + high)} - output.score", **_explanation_field(unit)}
        settings += [setting(unit, "scale", scale), setting(unit, "propagate", back)]
    return tuple(settings)


def _ends(unit: UnitLocation, data: NamedValues) -> tuple[Any, ...] | None:
    if unit.type != "JudgeUnit" or unit.reads_tokens or unit.keys.get("propagate"):
        return None
    scale = _scale(unit, data)
    if isinstance(scale, str):
        named_scale = named_scales().get(scale)
        scale = None if named_scale is None else named_scale.key()
    if not isinstance(scale, dict) or scale.get("scores") or scale.get("end_is_worst"):
        return None
    ends = scale.get("range")
    if not isinstance(ends, list) or any(isinstance(end, str) for end in ends):
        return None
    return tuple(ends)


def renamed_label_settings(
    units: list[UnitLocation], data: NamedValues, names: Mapping[str, str], folder: Path
) -> tuple[str, ...]:
    """The settings by which labels get other names in scales, categories and prompts; verdicts are mapped back."""
    settings = []
    back = json.dumps({new: old for old, new in names.items()})
    for unit in units:
        field, key, values = _labels(unit, data)
        texts = {value for value in values if isinstance(value, str)}
        if unit.reads_tokens or unit.keys.get("propagate") or not names.keys() & texts:
            continue
        changed: Any = [
            names.get(value, value) if isinstance(value, str) else value for value in values
        ]
        if key == "scale":
            changed = {"type": "discrete", "values": changed}
        old = {field: f"{back}.get(output.{field}, output.{field})", **_explanation_field(unit)}
        settings += [setting(unit, key, changed), setting(unit, "propagate", old)]
        text = _prompt(unit, folder)
        if text is not None:
            settings.append(setting(unit, "prompt", _rename_words(text, names)))
    return tuple(settings)


def _labels(unit: UnitLocation, data: NamedValues) -> tuple[str, str, list[Any]]:
    """The field, the key and the values of a unit that chooses among labels."""
    if unit.type == "CategoricalJudgeUnit":
        return "choice", "categories", list(unit.keys.get("categories") or [])
    scale = _scale(unit, data)
    if unit.type != "JudgeUnit" or not isinstance(scale, dict) or set(scale) - {"type", "values"}:
        return "", "", []
    return "score", "scale", list(scale.get("values") or [])


def _scale(unit: UnitLocation, data: NamedValues) -> Any:
    """The scale as the file has it: its keys, else the name of one that it does not define."""
    scale = unit.keys.get("scale", "likert")
    return (data.get("scales") or {}).get(scale, scale) if isinstance(scale, str) else scale


def _explanation_field(unit: UnitLocation) -> dict[str, str]:
    return {"explanation": "output.explanation"} if unit.keys.get("explanation") else {}


def _prompt(unit: UnitLocation, folder: Path) -> str | None:
    prompt = unit.keys.get("prompt")
    if isinstance(prompt, dict) and isinstance(prompt.get("file"), str):
        text: str = (folder / prompt["file"]).read_text(encoding="utf-8")
        return text
    return prompt if isinstance(prompt, str) else None


def _rename_words(text: str, names: Mapping[str, str]) -> str:
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    pattern = re.compile(rf"\{{[^{{}}\n]*\}}|(?<!\w)({words})(?!\w)")
    return pattern.sub(lambda match: names[match[1]] if match[1] else match[0], text)
