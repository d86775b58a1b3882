"""The process is checked before a call is paid: standard descriptors, open files, disk."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from jsonl import jsonl

from verdict_cli.cli.show_report import to_terminal
from verdict_cli.errors import OutputError, UsageError
from verdict_cli.run.process import FILES_BESIDE_CALLS, calls_at_once, check_space

PIPELINE = """verdict: 1
name: case
model: baseline/lexical
pipeline:
  - {unit: JudgeUnit, name: judge, scale: boolean, prompt: "Is this right? {source.q}"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "data.jsonl").write_text(jsonl({"id": i, "q": f"question {i}"} for i in range(4)))
    return tmp_path


def run(folder: Path, shell: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = f"'{sys.executable}' -m verdict_cli run pipeline.yaml data.jsonl --out o -q {' '.join(more)} {shell}"
    return subprocess.run(
        ["bash", "-c", command], check=False, cwd=folder, capture_output=True, text=True
    )


@pytest.mark.parametrize("closed", ["<&-", "2>&-", ">&-", "<&- >&- 2>&-"])
def test_closed_descriptors_change_nothing(folder, closed):
    done = run(folder, closed)
    assert done.returncode == 0, done.stderr
    assert (folder / "o" / "report.md").exists()
    assert (folder / "o" / "run.db").read_bytes().count(b"Files") == 0


@pytest.mark.parametrize("where", [">/dev/full", "2>/dev/full"])
def test_a_full_disk_behind_a_stream_is_no_internal_error(folder, where):
    done = run(folder, where)
    assert done.returncode == (2 if where.startswith(">") else 0)
    if where.startswith(">"):
        assert "standard output: No space left on device" in done.stderr
    assert (folder / "o" / "report.md").exists()


@pytest.mark.parametrize("columns", ["0", "1", "-3", "x", "999999999"])
def test_a_width_that_nothing_fits_counts_as_unset(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", columns)
    to_terminal("word " * 20)
    assert capsys.readouterr().out.splitlines()[0] == "word " * 15 + "word"


def test_few_open_files_lower_the_calls_at_once_with_a_word(folder):
    (folder / "pipeline.yaml").write_text(PIPELINE.replace("baseline/lexical", "openai/m"))
    command = (
        f"ulimit -n 256; OPENAI_BASE_URL=http://127.0.0.1:9/v1 OPENAI_API_KEY=k '{sys.executable}' -m verdict_cli run "
        "pipeline.yaml data.jsonl --out o --concurrency 256"
    )
    done = subprocess.run(
        ["bash", "-c", command], check=False, cwd=folder, capture_output=True, text=True
    )
    assert f"{256 - FILES_BESIDE_CALLS} calls run at once, not 256" in done.stderr
    assert "ulimit -n" in done.stderr and done.returncode == 4


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be(
    monkeypatch,
):
    limits = [(256, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    assert calls_at_once(64) == 64 and limits == [(256, 4096)]
    assert calls_at_once(512) == 512 and limits[-1] == (512 + FILES_BESIDE_CALLS, 4096)
    assert calls_at_once(9000) == 4096 - FILES_BESIDE_CALLS and limits[-1] == (4096, 4096)
    limits[:] = [(40, 40)]
    with pytest.raises(UsageError, match="may open 40 files"):
        calls_at_once(64)


def test_a_disk_without_room_is_reported_before_a_call(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 2**20))
    with pytest.raises(OutputError, match=r"1\.0 MB left") as caught:
        check_space(tmp_path)
    assert str(tmp_path) in caught.value.message and "--out" in caught.value.hint
