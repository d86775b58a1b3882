"""Renew the prices and capabilities of models that ship with verdict, from the installed litellm's data.

    python docs/tools/renew_prices.py

Keeps the models that answer in text and the keys that are read, one model a line, so that a change shows in a diff.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[2] / "verdict_cli" / "llm" / "providers" / "model_prices.json"
KEPT = re.compile(
    r"litellm_provider|(input|output)_cost_per_token(_above_\d+k_tokens)?(_flex|_priority|_batches)?|"
    r"cache_(read|creation)_input_token_cost(_above_(\d+k_tokens|1hr))?(_flex|_priority|_batches)?|"
    r"max_(input|output)_tokens|prompt_cache_min_tokens|default_reasoning_effort|deprecation_date|"
    r"supports_(reasoning|none_reasoning_effort|vision|function_calling|response_schema|prompt_caching)"
)
MODES = (None, "chat", "completion", "responses")


def main() -> None:
    """Write the file."""
    spec = find_spec("litellm")
    assert spec is not None and spec.origin is not None, "litellm is not installed"
    source = Path(spec.origin).with_name("model_prices_and_context_window_backup.json")
    data: dict[str, dict[str, Any]] = json.loads(source.read_text(encoding="utf-8"))
    about = {
        "litellm": version("litellm"),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "licence": "MIT, Copyright (c) 2023 Berri AI (https://github.com/BerriAI/litellm)",
    }
    entries = {"sample_spec": about}
    for name, entry in data.items():
        if name != "sample_spec" and entry.get("mode") in MODES:
            entries[name] = {key: value for key, value in entry.items() if KEPT.fullmatch(key) and value is not None}
    lines = (f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    sys.stdout.write(
        f"{TARGET.name}: {len(entries) - 1} models of litellm {about['litellm']}, {TARGET.stat().st_size:,} bytes"
        + "\n"
    )


if __name__ == "__main__":
    main()
