"""The table of guards in README.md of this folder names tests that exist."""

import re
from pathlib import Path

HERE = Path(__file__).parent
ROW = re.compile(r"^\| .* \| `([^`]*\.py)` \| (.*) \|$", re.M)


def test_every_guard_names_a_test_that_exists():
    rows = ROW.findall((HERE / "README.md").read_text(encoding="utf-8"))
    assert len(rows) > 80
    for file, names in rows:
        text = (HERE.parent / file).read_text(encoding="utf-8")
        for name in re.findall(r"`([^`]+)`", names):
            assert f"def test_{name}(" in text, (file, name)
