"""Renew the prices and capabilities of models that ship with verdict, from the installed litellm's data.

    python docs/tools/renew_prices.py

Keeps the models that answer in text or with decisions, and the keys that are read, one model a line, so that a change shows in a diff.
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
    r"litellm_provider|(input|output)_cost_per_token(_above_\d+k_tokens)?(_flex|_priority|_batches|_decisions)?|"
    r"cache_(read|creation)_input_token_cost(_above_(\d+k_tokens|1hr))?(_flex|_priority|_batches|_decisions)?|"
    r"input_cost_per_query|"
    r"max_(input|output)_tokens|prompt_cache_min_tokens|default_reasoning_effort|deprecation_date|"
    r"supports_(reasoning|none_reasoning_effort|vision|function_calling|response_schema|prompt_caching)"
)
DECISION_MODES = ("evaluation", "decisions")
LICENCE = (
    "MIT License. Copyright (c) 2023 Berri AI. Permission is hereby granted, free of charge, to any person obtaining a copy of "
    'this software and associated documentation files (the "Software"), to deal in the Software without restriction, including '
    "without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the "
    "Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions: The above "
    "copyright notice and this permission notice shall be included in all copies or substantial portions of the Software. THE "
    'SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES '
    "OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS "
    "BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT "
    "OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."
)
MODES = (None, "chat", "completion", "responses", *DECISION_MODES)


def main() -> None:
    """Write the file."""
    spec = find_spec("litellm")
    assert spec is not None and spec.origin is not None, "litellm is not installed"
    source = Path(spec.origin).with_name("model_prices_and_context_window_backup.json")
    data: dict[str, dict[str, Any]] = json.loads(source.read_text(encoding="utf-8"))
    about = {
        "litellm": version("litellm"),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "licence": LICENCE,
    }
    entries = {"sample_spec": about}
    for name, entry in data.items():
        if name != "sample_spec" and entry.get("mode") in MODES:
            kept = {
                key: value
                for key, value in entry.items()
                if KEPT.fullmatch(key) and value is not None
            }
            entries[name] = kept | (
                {"mode": entry["mode"]} if entry.get("mode") in DECISION_MODES else {}
            )
    lines = (f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    sys.stdout.write(
        f"{TARGET.name}: {len(entries) - 1} models of litellm {about['litellm']}, {TARGET.stat().st_size:,} bytes"
        + "\n"
    )


if __name__ == "__main__":
    main()
