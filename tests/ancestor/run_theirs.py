"""Run theirs.py in haizelabs' library: `python run_theirs.py URL`. The model's server is URL/CASE/v1.

Prints a JSON object with the fields of each case's units, and of those that nothing follows.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = (
    "verdict", "verdict.common.judge", "verdict.common.cot", "verdict.common.conversational", "verdict.common.ranker",
    "verdict.common.ensemble_verify", "verdict.common.g_eval", "verdict.common.model_ensemble", "verdict.scale", "verdict.schema",
    "verdict.transform", "verdict.extractor", "verdict.model", "verdict.dataset", "verdict.prompt",
)  # fmt: skip
TIMEOUT_S = 8.0
"""After this many seconds a case counts as one that never ends."""


def library() -> ModuleType:
    """A module with all public names of the library."""
    names = ModuleType("library")
    for module in MODULES:
        for key, value in vars(importlib.import_module(module)).items():
            if not key.startswith("_"):
                setattr(names, key, value)
    return names


def plain(value: Any) -> Any:
    """The value as JSON has it."""
    if hasattr(value, "history"):
        return str(value)
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.item() if hasattr(value, "item") else value


def run(case: Any) -> dict[str, Any]:
    """The outputs of a case: a column is a unit's place and a field, `Pipeline_root.block.unit[Judge]_score`."""
    pipeline, data = case()
    if isinstance(data, list):
        outputs, leaves = pipeline.run_from_list(data)
    elif hasattr(data, "samples"):
        outputs, leaves = pipeline.run_from_dataset(data)
    else:
        outputs, leaves = pipeline.run(data)
    columns = [str(name) for name in outputs if "]_" in str(name)]
    of_a_dataset = hasattr(outputs, "columns")
    return {
        "fields": [name.rpartition("]_")[2] for name in columns],
        "leaves": [
            (
                name.rpartition("]_")[2],
                plain(list(outputs[name]) if of_a_dataset else outputs[name]),
            )
            for name in leaves
            if name in columns
        ],
    }


def run_timed(case: Any) -> dict[str, Any]:
    """The outputs, or the error; the library does not end every case."""
    result: dict[str, Any] = {"error": "never ends"}

    def work() -> None:
        try:
            answer = run(case)
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        result.clear()
        result.update(answer)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    return result


def main(url: str) -> None:
    os.environ.update(OPENAI_API_KEY="sk-loopback", LITELLM_LOCAL_MODEL_COST_MAP="True")
    sys.modules["library"] = library()
    from verdict.util import ratelimit

    ratelimit.disable()
    sys.path.insert(0, str(Path(__file__).parent))
    import theirs

    results = {}
    for key, case in vars(theirs).items():
        if inspect.isfunction(case) and case.__module__ == "theirs":
            os.environ["OPENAI_BASE_URL"] = os.environ["OPENAI_API_BASE"] = f"{url}/{key}/v1"
            results[key] = run_timed(case)
    sys.__stdout__.write(f"\n{json.dumps(results)}\n")
    sys.__stdout__.flush()
    os._exit(0)  # a case that never ends has threads that never end


if __name__ == "__main__":
    main(sys.argv[1])
