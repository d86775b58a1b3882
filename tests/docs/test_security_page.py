"""The table of guards in docs/security.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| .* \| `([^`]*\.py)` \| (.*) \|$", re.M)


def test_every_guard_names_a_test_that_exists() -> None:
    table = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").partition("## Guards and their tests")[2]
    rows = ROW.findall(table)
    assert len(rows) > 80
    for file, names in rows:
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        for name in re.findall(r"`([^`]+)`", names):
            assert f"def test_{name}(" in text, (file, name)
