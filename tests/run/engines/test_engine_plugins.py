"""An engine and a store from another package: one file and one entry point each."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.errors import UsageError
from verdict_cli.run.hooks import ENGINES
from verdict_cli.storage.stores import STORES

PACKAGE = '''
from pathlib import Path

from verdict_cli.errors import UsageError
from verdict_cli.run.local import LocalEngine


class QuietEngine(LocalEngine):
    """The local engine, of which only one row at a time is shown."""

    def check(self, options, directory):
        if options.data.rows > 3:
            raise UsageError("the quiet engine takes three rows", hint="give --limit 3")


class BoxStore:
    """Boxes in this process's memory."""

    def folder(self, url):
        from verdict_cli.features.object_store.run_store import RemoteFolder

        return RemoteFolder.at(url.replace("box:", "memory:"))

    def run(self, url):
        from verdict_cli.features.object_store.run_store import RemoteRunDirectory

        return RemoteRunDirectory(self.folder(url))
'''
POINTS = """[verdict_cli.engines]
quiet = quiet_box:QuietEngine

[verdict_cli.stores]
box = quiet_box:BoxStore
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    site = tmp_path / "site"
    info = site / "quiet_box-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "quiet_box.py").write_text(PACKAGE, encoding="utf-8")
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: quiet-box\nVersion: 1.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.chdir(tmp_path)
    for registry in (ENGINES, STORES):
        monkeypatch.setattr(registry, "plugins", {})
    yield
    sys.modules.pop("quiet_box", None)


def verdict(*words: str) -> Any:
    return CliRunner().invoke(app, ["run", "xstest", "--model", "baseline/lexical", *words])


@pytest.mark.usefixtures("package")
def test_an_engine_of_another_package_runs_and_refuses_what_it_cannot_run() -> None:
    done = verdict("xstest_sample", "--limit", "3", "--engine", "quiet", "--json", "--out", "out")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == 3
    refused = verdict("xstest_sample", "--limit", "4", "--engine", "quiet", "--out", "other")
    assert isinstance(refused.exception, UsageError)
    assert "the quiet engine takes three rows" in str(refused.exception)


@pytest.mark.usefixtures("package")
def test_a_store_of_another_package_has_the_dataset_and_the_run(tmp_path: Path) -> None:
    folders = pytest.importorskip("verdict_cli.features.object_store.run_store").RemoteFolder
    folder = Path(__file__).parents[3] / "datasets"
    data = next(folder.glob("xstest_sample*"))
    folders.at("memory://box").put(data, f"data/{data.name}")
    done = verdict(
        f"box://box/data/{data.name}", "--limit", "2", "--out", "box://box/run", "--json"
    )
    assert done.exit_code == 0, done.output
    stored = folders.at("memory://box/run").names()
    assert {"run.json", "results.parquet", "report.json"} <= set(stored)


@pytest.mark.usefixtures("package")
def test_an_unknown_engine_is_an_error_that_names_those_there_are() -> None:
    done = verdict("xstest_sample", "--engine", "qiet")
    assert isinstance(done.exception, UsageError)
    assert f"engines are {', '.join(ENGINES.names())}" in str(done.exception)
    assert {"local", "quiet"} <= {*ENGINES.names()}
