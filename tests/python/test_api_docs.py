"""The page about the Python API is run from top to bottom."""

from __future__ import annotations

import re

from paths import ROOT

PAGE = ROOT / "docs" / "python.md"


def test_every_block_of_the_page_runs(capsys):
    blocks = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) >= 7
    space: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), space)
    output = capsys.readouterr().out
    assert "Rate it (1, 2, 3, 4, 5)." in output
    assert "did you mean `explanation`" in output
    assert (
        "pipeline[0].prompt {previous.thinking}: no unit before this one gives 'thinking'" in output
    )
