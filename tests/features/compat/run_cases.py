"""Run the cases in one of the two libraries: `python run_cases.py LIBRARY URL`, LIBRARY is `verdict` or `verdict_cli.compat`.

Prints a JSON object with the outputs of each case. The model's server is URL/CASE/v1.
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


def library(name: str) -> ModuleType:
    """A module with all public names of the library."""
    made = ModuleType("library")
    for module in MODULES if name == "verdict" else (name,):
        vars(made).update(
            {
                key: value
                for key, value in vars(importlib.import_module(module)).items()
                if key[0] != "_"
            }
        )
    vars(made).pop("__all__", None)
    return made


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
    """The outputs of a case."""
    pipeline, data = case()
    if isinstance(data, list) or hasattr(data, "samples"):
        table, leaves = (
            pipeline.run_from_list(data)
            if isinstance(data, list)
            else pipeline.run_from_dataset(data)
        )
        outputs = {name: list(table[name]) for name in table.columns}
    else:
        outputs, leaves = pipeline.run(data)
    return {
        "outputs": {name: plain(value) for name, value in outputs.items()},
        "leaves": list(leaves),
    }


def tried(case: Any) -> dict[str, Any]:
    """The outputs, or the error."""
    try:
        return run(case)
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {error}"}


def timed(case: Any) -> dict[str, Any]:
    """The outputs, or the error; haizelabs' library does not end every case."""
    found: dict[str, Any] = {"error": "never ends"}

    def work() -> None:
        answer = tried(case)
        found.clear()
        found.update(answer)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    return found


def main(name: str, url: str, *only: str) -> None:
    os.environ.update(OPENAI_API_KEY="sk-loopback", LITELLM_LOCAL_MODEL_COST_MAP="True")
    sys.modules["library"] = library(name)
    if name == "verdict":
        from verdict.util import ratelimit

        ratelimit.disable()
    sys.path.insert(0, str(Path(__file__).parent))
    import cases

    results = {}
    for key, case in vars(cases).items():
        if inspect.isfunction(case) and case.__module__ == "cases" and (not only or key in only):
            os.environ["OPENAI_BASE_URL"] = os.environ["OPENAI_API_BASE"] = f"{url}/{key}/v1"
            results[key] = timed(case) if name == "verdict" else tried(case)
    sys.__stdout__.write(f"\n{json.dumps(results)}\n")
    sys.__stdout__.flush()
    os._exit(0)  # a case that never ends has threads that never end


if __name__ == "__main__":
    main(*sys.argv[1:])
