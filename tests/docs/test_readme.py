"""The README's graph, the links of all pages, the endpoints of the server."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from paths import ROOT
from typer.testing import CliRunner

from verdict_cli.cli.app import app

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "llms.txt",
    ROOT / "docs" / "skill" / "SKILL.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@cache
def anchors(page: Path) -> set[str]:
    """The ids of a page: its headings', as GitHub and the site make them, and those that are set."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [
        re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).strip()
        for heading in headings
    ]
    return {re.sub(r"[ -]+", "-", heading) for heading in plain} | set(
        re.findall(r'id="([\w-]+)"', text)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page):
    for target, anchor in re.findall(
        r"\]\(([^)#:\s]*)(?:#([\w-]+))?\)", page.read_text(encoding="utf-8")
    ):
        led = page.parent / target if target else page
        assert led.exists(), f"{page.name}: {target}"
        assert not anchor or re.sub("-+", "-", anchor) in anchors(led), (
            f"{page.name}: {target}#{anchor}"
        )


def test_the_graph_of_the_readme_is_the_one_that_it_describes(tmp_path):
    (tmp_path / "grounded.yaml").write_text(blocks(ROOT / "README.md", "yaml")[0], encoding="utf-8")
    result = CliRunner().invoke(app, ["graph", str(tmp_path / "grounded.yaml")])
    assert result.exit_code == 0
    assert "7 units, 6 model calls a row" in result.output


def test_the_endpoints_of_the_page_are_those_of_the_server():
    folder = ROOT / "verdict_cli" / "features" / "server"
    source = "".join(
        (folder / name).read_text(encoding="utf-8")
        for name in ("app.py", "chat_api.py", "decision_api.py")
    )
    served = set(re.findall(r'@app\.(?:get|post|delete)\(\s*"([^"]+)"', source))
    table = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8").split("\n\n")
    (endpoints,) = [part for part in table if part.startswith("| endpoint")]
    endpoints_on_page = set(re.findall(r"`(?:GET |POST |DELETE )?(/[^`?]*)[^`]*`", endpoints))
    assert endpoints_on_page - {"/openapi.json"} == served


def test_the_commands_of_the_readme_print_what_it_shows_in_an_empty_folder(tmp_path, monkeypatch):
    readme = ROOT / "README.md"
    (tmp_path / "grounded.yaml").write_text(blocks(readme, "yaml")[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks(readme, "sh") for line in block.splitlines()]
    commands = [shlex.split(line) for line in lines if line.startswith("verdict ")]
    assert [words[1] for words in commands] == ["demo", "run"]

    def plain(text: str) -> str:
        return " ".join(re.sub(r"time [\d.]+ s", "time", text).split())

    for words, text in zip(commands, blocks(readme, "text"), strict=True):
        ran = CliRunner().invoke(app, words[1:])
        assert ran.exit_code == 0, ran.output
        displayed = [plain(line) for line in text.splitlines() if line.strip() != "…"]
        assert [line for line in displayed if line not in plain(ran.stdout)] == []


def test_the_first_command_of_the_readme_installs_from_the_checkout():
    assert blocks(ROOT / "README.md", "sh")[0].splitlines()[0] == "pip install ."
    assert "pip install verdict-cli" not in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_make_command_of_the_readme_is_a_target():
    targets = re.findall(
        r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    targets_on_page = re.findall(
        r"^make (\w+)", "\n".join(blocks(ROOT / "README.md", "sh")), re.MULTILINE
    )
    assert targets_on_page == ["demo", "test"]
    assert set(targets_on_page) <= set(targets)


def test_the_pictures_are_small_and_on_a_page():
    pictures = sorted((ROOT / "docs" / "images").glob("*.png"))
    pictures_on_pages = {
        name
        for page in PAGES
        for name in re.findall(r"images/([\w-]+\.png)", page.read_text(encoding="utf-8"))
    }
    assert pictures_on_pages == {picture.name for picture in pictures}
    assert max(picture.stat().st_size for picture in pictures) < 200_000


PEERS = {
    "Judge defined in a config file": "Judge itself declared in a file",
    "Multi-stage judges": "Multi-stage judge graph",
    "Pairs judged in both orders": "Built-in order swap",
    "Scores weighted by log-probabilities": "Logprob-weighted score",
    "Unreadable replies are never scored": "Parse failure is its own status",
    "Confidence intervals": "Stderr / CI of mean",
    "Paired test of two runs": "Paired test of two runs",
    "Resumes a killed run": "Resume after kill",
    "Estimate of calls and cost": "Pre-run call/cost estimate",
    "Spend cap": "Whole-run spend cap",
    "Thresholds set": "Threshold → exit code",
    "Providers' batch prices": "Provider batch API",
    "pytest plugin": "pytest plugin",
    "VS Code extension": "VS Code extension",
    "Lifecycle hooks": "Lifecycle hooks",
    "Pause or retune": "Pause / retune a live run",
    "k-of-n repeats": "k-of-n repeat gate",
}


READ_LATER = {
    ("Judge defined in a config file", 3): "partly",
    ("Pairs judged in both orders", 1): "no",
    ("Confidence intervals", 1): "no",
    ("Paired test of two runs", 1): "no",
    ("Estimate of calls and cost", 1): "no",
    ("Providers' batch prices", 1): "no",
    ("VS Code extension", 1): "partly",
}
"""Cells (row, tool) that were open, or wrong, in the survey and were read again since (findings on features, part D)."""


def test_what_is_claimed_of_other_tools_is_what_was_read_of_them(shared):
    def rows(path: Path) -> list[list[str]]:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in lines
            if line.startswith("| ")
        ]

    read = {row[0]: row for row in rows(shared / "spec" / "peers.md")}
    words = {"Y": "yes", "P": "partly", "N": "no", "?": "?"}
    table = rows(ROOT / "README.md")
    for ours, theirs in PEERS.items():
        (row_of_page,) = [row for row in table if row[0].startswith(ours)]
        (row_read,) = [row for name, row in read.items() if name.startswith(theirs)]
        expected = [
            READ_LATER.get((ours, tool), words[cell[0]]) for tool, cell in enumerate(row_read[1:5])
        ]
        assert row_of_page[2:] == expected, ours
