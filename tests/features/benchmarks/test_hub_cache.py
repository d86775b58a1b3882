"""`hf:OWNER/NAME[:SPLIT]` as the dataset of a command, from a hub on this machine."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loopback_site import Site, whole
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.errors import FetchError, UsageError

pytest.importorskip("huggingface_hub")

CONFIG = (
    "verdict: 1\nname: p\nmodel: baseline/lexical\npipeline:\n"
    "  - {unit: JudgeUnit, prompt: 'Good?\\n{source.text}'}\nevaluate: {e: {value: output.score}}\n"
)


def split(*rows: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), buffer)
    return buffer.getvalue()


FILE = split({"text": "one", "label": True}, {"text": "two", "label": False})


def listing(*paths: str, content: bytes = FILE) -> Any:
    files = [
        {"type": "file", "path": path, "oid": "0" * 40, "size": len(content)} for path in paths
    ]
    return whole(json.dumps(files).encode(), Content_Type="application/json")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Site) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    (tmp_path / "p.yaml").write_text(CONFIG, encoding="utf-8")
    return tmp_path / "p.yaml"


def command(*words: str) -> Any:
    return CliRunner().invoke(app, [*words])


def refused(*words: str) -> None:
    """Raise what the command raises, from which the program makes a message and an exit code."""
    error = command(*words).exception
    assert error is not None
    raise error


def test_every_command_reads_a_split_that_is_fetched_once(config, site):
    site.answers = [listing("default/test/0000.parquet"), whole(FILE)]
    ran = command("run", "p.yaml", "hf:them/things:test", "--out", "out", "--json", "--quiet")
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["rows"] == 2
    assert "hf:them/things:test: 1 Parquet file" in ran.stderr
    requests = len(site.requests)
    for words in (
        ("run", "p.yaml", "hf:them/things:test", "--out", "out", "--json", "--quiet"),
        ("validate", "p.yaml", "hf:them/things:test"),
        ("estimate", "p.yaml", "hf:them/things:test"),
        (
            "init",
            "hf:them/things:test",
            "--question",
            "Good?",
            "--columns",
            "text",
            "--target",
            "label",
            "--no-try",
        ),
    ):
        again = command(*words)
        assert again.exit_code == 0, again.output
    assert "target: source.label" in Path("judge.yaml").read_text(encoding="utf-8")
    assert len(site.requests) == requests


def test_a_file_that_was_cut_after_the_download_is_fetched_again(config, site, tmp_path):
    site.answers = [
        listing("default/test/0000.parquet"),
        whole(FILE),
        listing("default/test/0000.parquet"),
        whole(FILE),
    ]
    assert command("validate", "p.yaml", "hf:them/things").exit_code == 0
    (cached,) = (tmp_path / "home").glob("*/*.parquet")
    cached.write_bytes(FILE[:100])
    assert command("validate", "p.yaml", "hf:them/things").exit_code == 0
    assert cached.read_bytes() == FILE


def test_an_unknown_split_names_those_that_there_are(config, site):
    site.answers = [listing("default/test/0000.parquet", "default/train/0000.parquet")]
    with pytest.raises(UsageError, match="them/things has no split dev") as caught:
        refused("run", "p.yaml", "hf:them/things:dev")
    assert "default/test, default/train" in caught.value.hint
    with pytest.raises(UsageError, match="'things' is not a dataset of the hub"):
        refused("run", "p.yaml", "hf:things")


def test_without_the_network_the_hub_is_named(config, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(FetchError, match=r"http://127\.0\.0\.1:1 does not list them/things"):
        refused("run", "p.yaml", "hf:them/things")
