"""The pipeline as it is run: files inlined, so that it can be read and run again from one place."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from verdict_cli.errors import SpecError
from verdict_cli.spec import Namespace
from verdict_cli.spec.document import read_document
from verdict_cli.spec.evaluate import Published
from verdict_cli.spec.problems import explain

_NOT_ASKED = ("description", "evaluate", "gates")
"""What does not change what the models are asked."""


@dataclass(frozen=True)
class Resolved:
    """The resolved document, and the published tables that its evaluations name."""

    data: Mapping[str, Any]
    published: Mapping[str, Published]


def resolved(names: Namespace) -> Resolved:
    """The document of a pipeline with its prompt files' texts and the blocks of other files in it."""
    data = copy.deepcopy(names.spec.document.data)
    blocks: dict[str, Any] = {}
    data["pipeline"] = [_step(step, names, blocks) for step in data["pipeline"]]
    if "blocks" in data:
        data["blocks"] = {
            name: [_step(step, names, blocks) for step in steps] for name, steps in data["blocks"].items()
        }
    return Resolved(data, _published(names))


def fingerprint(data: Mapping[str, Any]) -> str:
    """32 hex digits over everything in a resolved document that decides what the models are asked."""
    asked = {key: value for key, value in data.items() if key not in _NOT_ASKED}
    canonical = orjson.dumps(asked, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.blake2b(canonical, digest_size=16).hexdigest()


def _step(step: Any, names: Namespace, blocks: dict[str, Any]) -> Any:
    if not isinstance(step, dict):
        return step
    if "layer" in step or "block" in step:
        key = "layer" if "layer" in step else "block"
        return {**step, key: [_step(item, names, blocks) for item in step[key]]}
    if "#" in str(step.get("use", "")):
        found = names.block(step["use"], ())
        if found is not None:
            other, _, path = found
            return {
                "block": [
                    _step(inner, other, blocks) for inner in other.spec.document.data["blocks"][path[-1]]
                ]
            }
    prompt = step.get("prompt")
    if isinstance(prompt, dict) and isinstance(prompt.get("file"), str):
        return {**step, "prompt": (names.spec.folder / prompt["file"]).read_text(encoding="utf-8-sig")}
    return step


def _published(names: Namespace) -> dict[str, Published]:
    tables = {}
    for name, evaluation in names.spec.file.evaluate.items():
        if evaluation.published is None:
            continue
        path = names.spec.folder / Path(evaluation.published)
        try:
            document = read_document(path)
            tables[name] = Published.model_validate(document.data)
        except SpecError as error:
            for problem in error.problems:
                names.tell(problem)
        except ValidationError as error:
            for problem in explain(error, Published, document):
                names.tell(problem)
    return tables
