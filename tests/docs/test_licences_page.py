"""docs/licences.md: every package of core and extras, its pinned version, its licence."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("packaging", reason="packaging is not installed")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def made() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences", ROOT / "docs" / "tools" / "licences.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_dependency_of_core_and_extras_has_its_line() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = project["dependencies"] + [
        one for name, group in extras.items() if name not in ("all", "dev", "docs") for one in group
    ]
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    listed = {re.sub("[-_.]+", "-", name.lower()) for name in re.findall(r"^\| ([\w.-]+) \|", page, re.M)}
    assert {re.sub("[-_.]+", "-", re.split(r"[^\w.-]", one)[0].lower()) for one in needed} <= listed
    assert "unknown" not in page and "://" not in page


def test_every_version_is_the_pinned_one() -> None:
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-").split()
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    for name, version in re.findall(r"^\| ([\w.-]+) \| (\d[\w.+]*) \|", page, re.M):
        assert f"{name.lower().replace('_', '-')}=={version}" in pinned


@pytest.mark.parametrize(
    ("line", "complete", "stale"),
    [
        ("| protobuf | 7.1 | BSD | otel, ray |", True, []),
        ("| protobuf | 7.1 | BSD | otel |", True, ["protobuf"]),
        ("| protobuf | 7.1 | BSD | otel |", False, []),
        ("| protobuf | 7.1 | BSD | otel, s3 |", False, ["protobuf"]),
        ("| protobuf | 7.2 | BSD | otel |", False, ["protobuf"]),
        ("| protobuf | 7.1 | MIT | otel |", False, ["protobuf"]),
        ("| protobuf | 7.1 | BSD | core |", False, ["protobuf"]),
    ],
)
def test_a_page_may_name_extras_that_are_not_installed_here(
    made: ModuleType, line: str, complete: bool, stale: list[str]
) -> None:
    page = "| protobuf | 7.1 | BSD | otel, ray |\n"
    assert made.stale({"protobuf": line}, page, complete=complete) == stale


@pytest.mark.parametrize(
    ("expression", "known"),
    [
        ("MIT", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("GPL-3.0-only", False),
        ("MIT AND LGPL-2.1", False),
        ("GPL-3.0-only AND (Apache-2.0 OR MIT)", False),
        ("unknown", False),
        ("Proprietary", False),
    ],
)
def test_a_licence_that_is_not_known_is_told(made: ModuleType, expression: str, known: bool) -> None:
    assert made.known(expression) is known


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("     Apache License\n   Version 2.0, January 2004\n", "Apache-2.0"),
        ("MIT License\n\nCopyright", "MIT"),
        ("Do what you want.", "unknown"),
    ],
)
def test_a_package_that_says_nothing_is_asked_for_its_licence_file(
    made: ModuleType, tmp_path: Path, text: str, said: str
) -> None:
    info = tmp_path / "quiet-1.0.dist-info"
    (info / "licenses").mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: quiet\nVersion: 1.0\n", encoding="utf-8")
    (info / "licenses" / "LICENSE").write_text(text, encoding="utf-8")
    (info / "RECORD").write_text("quiet-1.0.dist-info/licenses/LICENSE,,\n", encoding="utf-8")
    assert made.licence(PathDistribution(info)) == said


def test_every_vendored_file_is_on_the_page_with_its_licence():
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    folder = ROOT / "verdict_cli" / "report" / "page" / "vendor"
    names = {file.name for file in folder.iterdir()}
    assert names == {"chart.umd.min.js", "LICENSE-chart.js.md", "LICENSE-kurkle-color.md"}
    assert all(name in page for name in names)
    version = (folder / "chart.umd.min.js").read_text(encoding="utf-8").split("Chart.js v", 1)[1].split("\n", 1)[0]
    assert f"| {version} " in page
    for name in names - {"chart.umd.min.js"}:
        assert "The MIT License" in (folder / name).read_text(encoding="utf-8")
