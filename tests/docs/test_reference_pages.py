"""The pages of docs/reference are what the program says of itself; making them runs every example."""

import runpy
import sys

from paths import ROOT

SCRIPT = ROOT / "docs" / "tools" / "reference.py"
EXAMPLES = sorted((ROOT / "configs" / "examples").glob("*.yaml"))


def test_the_pages_are_not_older_than_the_program(monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--check"])
    monkeypatch.setenv("COLUMNS", "100")
    runpy.run_path(str(SCRIPT), run_name="__main__")


def test_every_example_is_on_a_page():
    pages = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md")
    )
    for path in EXAMPLES:
        assert path.read_text(encoding="utf-8").partition("\n")[2].rstrip() in pages, path.name
