"""What makes a judge the judge it is, and whether a calibration was fitted to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from verdict_cli.plan.expand import UnitInstance
from verdict_cli.plan.fingerprint import digest_json, model_keys, unit_keys
from verdict_cli.plan.node import LLMNode, Node

_BEHIND = ("propagate", "validate")
"""Keys that change what is passed on, not what is asked or how it is read."""
_BESIDE = ("on_failure", "stream")
"""Keys that change neither."""
WORDS = {"before": "what stands before it", "output": "what it passes on"}
"""How messages name a mark that is no key."""


def judge_digest(seats: Sequence[UnitInstance], nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with their marks: digests of model, prompt, scale, extractor, what stands before, what is passed on."""
    made: list[Node] = []
    for seat, node in zip(seats, nodes, strict=True):
        before = [sorted(made[parent].marks.items()) for parent in node.parents]
        made.append(replace(node, marks=_marks(seat, node, before)))
    return tuple(made)


def _marks(seat: UnitInstance, node: Node, before: Sequence[Any]) -> dict[str, str]:
    keys = unit_keys(seat)
    behind = [keys.pop(key, None) for key in _BEHIND]
    for key in _BESIDE:
        keys.pop(key, None)
    fitted = [
        [key, made.model_dump(mode="json", exclude={"held_out"})]
        for key, made in node.calibrations
        if key[0] != "escalate"
    ]
    passed = [behind, fitted, [code.text for code in node.code]]
    if not isinstance(node.work, LLMNode):
        return {"unit": _mark(keys), "before": _mark(before), "output": _mark(passed)}
    scale, extract = keys.pop("scale", None), keys.pop("extract", None)
    models = [[model_keys(model) for model in models] for models in (node.work.models, node.work.follow_up)]
    return {
        "model": _mark(models),
        "prompt": _mark(keys),
        "scale": _mark(scale),
        "extractor": _mark(extract),
        "before": _mark(before),
        "output": _mark(passed),
    }


def _mark(value: Any) -> str:
    return digest_json(value, 8)


def check_calibrations(seats: Sequence[UnitInstance], nodes: Sequence[Node]) -> None:
    """Tells of every calibration that was fitted to another judge."""
    for seat, node in zip(seats, nodes, strict=True):
        for key, fitted in node.calibrations:
            changed = differing(fitted.fingerprint, node.marks)
            if changed:
                seat.names.problem(
                    "stale-calibration",
                    f"the calibration was fitted to another judge ({fitted.unit!r}, {fitted.made[:10]}): "
                    f"{' and '.join(changed)} changed since",
                    "run `verdict calibrate` on a run of this judge, or restore what changed",
                    (*seat.path, *key),
                )


def differing(fingerprint: Mapping[str, str], marks: Mapping[str, str]) -> list[str]:
    """In words, what of a calibration's judge is not as it is here."""
    return [WORDS.get(name, f"its {name}") for name, digest in fingerprint.items() if marks.get(name) != digest]
