"""docs/tools/wording.py finds the words that docs/tools/style.md retires, in prose and only there."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
from paths import ROOT

PHRASES = {"mend": "fix", "told apart": "distinguish", "figure": "metric"}


@pytest.fixture(scope="module")
def wording() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wording", ROOT / "docs" / "tools" / "wording.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_list_is_read_from_the_style_page(wording):
    phrases = wording.retired((ROOT / "docs" / "tools" / "style.md").read_text(encoding="utf-8"))
    assert phrases["mend"] == "fix"
    assert {
        "goes on",
        "told apart",
        "made anew",
        "no resample differs",
        "is no number",
        "cures",
    } <= set(phrases)


@pytest.mark.parametrize(
    ("suffix", "text", "lines"),
    [
        (".md", "Fine.\nMend the file.\n", [2]),
        (".md", "They are told\napart here.\n", [1]),
        (".py", "x = 1  # mend it\n", [1]),
        (".py", 'raise ValueError("rows are told "\n    "apart")\n', [1]),
        (".py", 'def f():\n    """Mend a\n    row."""\n', [2]),
        (".py", 'mend = figure("mend", other.mend)\n', []),
        (".py", 'x = f"a {figure} here"\n', []),
        (".py", 'x = "they are told", "apart from that"\n', []),
        (".js", "const mend = 1; // mend it\nmake('figure', 'a figure');\n", [1, 2]),
        (".js", "const x = `a ${figure} here`;\n", []),
        (".html", '<figure class="mend">\n<p>a figure</p></figure>\n', [2]),
        (".yaml", "# figure 3 of the paper\n", []),
        (".yaml", "holds: figure\nfigure: 3\ntext: the figure\n", [3]),
        (".json", '{"figure": "a figure", "enum": ["figure"]}\n', [1]),
        (".md", "Recommended, amended, mend-free.\n", []),
    ],
)
def test_only_prose_is_checked(wording, suffix, text, lines):
    assert [line for line, _, _ in wording.findings(text, suffix, PHRASES)] == lines


def test_a_finding_says_what_to_write_and_fails(
    wording,
    tmp_path,
    monkeypatch,
    capsys,
):
    page = tmp_path / "page.md"
    page.write_text("One line.\nMend it.\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["wording.py", str(page)])
    assert wording.main() == 1
    assert f"{page}:2: Mend -> fix" in capsys.readouterr().out
    page.write_text("Fix it.\n", encoding="utf-8")
    assert wording.main() == 0
