"""The README's graph, the links of all pages, the endpoints of the server."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from verdict_cli.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_graph_of_the_readme_is_the_one_that_it_describes(tmp_path: Path) -> None:
    (tmp_path / "grounded.yaml").write_text(blocks(ROOT / "README.md", "yaml")[0], encoding="utf-8")
    shown = CliRunner().invoke(app, ["graph", str(tmp_path / "grounded.yaml")])
    assert shown.exit_code == 0
    assert "7 units, 6 model calls a row" in shown.output


def test_the_endpoints_of_the_page_are_those_of_the_server() -> None:
    pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
    source = (ROOT / "verdict_cli" / "serve" / "app.py").read_text(encoding="utf-8")
    served = set(re.findall(r'@app\.(?:get|post|delete)\(\s*"([^"]+)"', source))
    table = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8").split("\n\n")
    (endpoints,) = [part for part in table if part.startswith("| endpoint")]
    named = set(re.findall(r"`(?:GET |POST |DELETE )?(/[^`?]*)[^`]*`", endpoints))
    assert named - {"/openapi.json"} == served
