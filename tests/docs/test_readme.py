"""The README's graph, the links of all pages, the endpoints of the server."""

import re
import shlex
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


def test_the_first_pipeline_prints_what_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = ROOT / "README.md"
    (tmp_path / "grounded.yaml").write_text(blocks(readme, "yaml")[0], encoding="utf-8")
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    monkeypatch.chdir(tmp_path)
    command = shlex.split(blocks(readme, "sh")[0])
    assert command[0] == "verdict"
    ran = CliRunner().invoke(app, command[1:])
    assert ran.exit_code == 0, ran.output

    def plain(text: str) -> str:
        return " ".join(re.sub(r"time [\d.]+ s", "time", text).split())

    shown = [plain(line) for line in blocks(readme, "text")[0].splitlines() if line.strip() != "…"]
    assert [line for line in shown if line not in plain(ran.stdout)] == []


def test_every_make_command_of_the_readme_is_a_target() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(r"^make (\w+)", "\n".join(blocks(ROOT / "README.md", "sh")), re.MULTILINE)
    assert named == ["demo", "test"]
    assert set(named) <= set(targets)


def test_the_picture_of_the_report_is_small() -> None:
    assert (ROOT / "docs" / "images" / "report.png").stat().st_size < 200_000


PEERS = {
    "The judge stands in a file": "Judge itself declared in a file",
    "Judges of several stages": "Multi-stage judge graph",
    "Pairs judged in both orders": "Built-in order swap",
    "Scores weighted by log-probabilities": "Logprob-weighted score",
    "An unreadable reply is no score": "Parse failure is its own status",
    "Intervals of figures": "Stderr / CI of mean",
    "Two runs compared by a paired test": "Paired test of two runs",
    "A killed run goes on": "Resume after kill",
    "Calls and cost told before": "Pre-run call/cost estimate",
    "A spend cap for the whole run": "Whole-run spend cap",
    "A threshold decides": "Threshold → exit code",
    "A web viewer": "Local web viewer",
    "Providers' batch prices": "Provider batch API",
    "A pytest plugin": "pytest plugin",
    "An extension for VS Code": "VS Code extension",
}


def test_what_is_said_of_others_is_what_was_read_of_them(shared: Path) -> None:
    def rows(path: Path) -> list[list[str]]:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [
            [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")
        ]

    read = {row[0]: row for row in rows(shared / "spec" / "peers.md")}
    words = {"Y": "yes", "P": "partly", "N": "no", "?": "?"}
    table = rows(ROOT / "README.md")
    for ours, theirs in PEERS.items():
        (said,) = [row for row in table if row[0].startswith(ours)]
        (known,) = [row for name, row in read.items() if name.startswith(theirs)]
        assert said[2:] == [words[cell[0]] for cell in known[1:5]], ours
    timed = {row[0]: row for row in rows(shared / "bench" / "README.md")}
    names = ["verdict 0.2.7", "promptfoo", "inspect_ai", "deepeval"]
    found = [next(row for name, row in timed.items() if name.startswith(each)) for each in names]
    seconds = [row[2:] for row in table if row[0].endswith(": s")]
    assert seconds == [[row[1] for row in found], [row[3] for row in found]]
