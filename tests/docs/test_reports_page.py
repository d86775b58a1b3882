"""The example of docs/reports.md makes the page that it says."""

import re
from pathlib import Path

from paths import ROOT


def test_the_example_writes_a_page_with_its_charts_and_tables(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/reports.md", "exec"), {})
    page = Path("sweep.html").read_text(encoding="utf-8")
    assert "Accuracy against cost" in page
    assert page.count("<canvas") == 2
    assert "jury" in page
