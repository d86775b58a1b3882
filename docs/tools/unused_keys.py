"""Print the keys of the language that no shipped configuration and no page of docs/ uses."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from verdict_cli.language.json_schema import pipeline_schema

ROOT = Path(__file__).resolve().parents[2]


def keys(schema: Any) -> set[str]:
    """The names of the keys that a schema has anywhere, but for those of files that `verdict calibrate` writes."""
    if isinstance(schema, list):
        return set().union(*map(keys, schema))
    if not isinstance(schema, dict):
        return set()
    properties = schema.get("properties")
    if isinstance(properties, dict) and "verdict_calibration" in properties:
        return set()
    names = set(properties) if isinstance(properties, dict) else set()
    return names.union(*map(keys, schema.values()))


def main() -> None:
    pages = (
        page
        for page in (ROOT / "docs").glob("*.md")
        if page.name not in ("errors.md", "licences.md")
    )
    configs = (ROOT / "configs").rglob("*.yaml")
    text = "\n".join(path.read_text(encoding="utf-8") for path in (*pages, *configs))
    written = set(re.findall(r"([A-Za-z_]\w*):", text))
    unused = sorted(keys(pipeline_schema()) - written)
    sys.stdout.write("".join(f"{name}\n" for name in unused))


if __name__ == "__main__":
    main()
