"""A run's directory from a stranger: what no run writes there is an error that says so, and nothing is written elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl

from verdict_cli.cli.app import main
from verdict_cli.errors import JournalError
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.tables.run_columns import later_columns

PIPELINE = """verdict: 1
name: p
model: baseline/lexical
dataset: {id: id}
pipeline: [{unit: JudgeUnit, name: judge, prompt: '{source.q}'}]
evaluate: {e: {prediction: output.score, target: source.label, metrics: [accuracy]}}
"""
ODD: tuple[Any, ...] = (
    None,
    -1.5,
    "x",
    [1],
    {"a": 1},
    {"a": {"b": []}},
    10**400,
    2**64 - 1,
    1e300,
    True,
)


def ran(*arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patched, pytest.raises(SystemExit) as caught:
        patched.setattr(sys, "argv", ["verdict", *arguments])
        main()
    return int(caught.value.code or 0)


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers")
    (folder / "p.yaml").write_text(PIPELINE, encoding="utf-8")
    rows = jsonl({"id": place, "q": "a", "label": 3} for place in range(5))
    (folder / "d.jsonl").write_text(rows, encoding="utf-8")
    arguments = [
        "run",
        folder / "p.yaml",
        folder / "d.jsonl",
        "--out",
        folder / "run",
        "--no-cache",
        "-q",
    ]
    assert ran(*map(str, arguments)) == 0
    return folder


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of a run, to be broken."""
    shutil.copytree(finished_run / "run", tmp_path / "run")
    return tmp_path / "run"


def test_run_json_of_any_values_is_read_or_refused(run):
    facts = json.loads((run / "run.json").read_bytes())
    for name in facts:
        for value in ODD:
            (run / "run.json").write_text(json.dumps({**facts, name: value}), encoding="utf-8")
            try:
                run_facts = RunDirectory(run).facts()
            except JournalError as error:
                assert "is not that of a run" in str(error) or "cannot be read" in str(error)
            else:
                assert type(getattr(run_facts, name)) is type(value) or isinstance(
                    value, dict | int
                )
                assert (
                    not isinstance(getattr(run_facts, name), int)
                    or abs(getattr(run_facts, name)) < 2**63
                ), name


@pytest.mark.parametrize("name", ["rows", "models", "cost_usd", "floors", "stages", "started"])
def test_run_json_of_a_wrong_type_is_reported(run, name, capsys):
    facts = json.loads((run / "run.json").read_bytes())
    (run / "run.json").write_text(
        json.dumps({**facts, name: "\x1b[31m" if name != "started" else 5}), "utf-8"
    )
    assert ran("report", str(run)) == 2
    stderr = capsys.readouterr().err
    assert f"run.json is not that of a run: {name}" in stderr and "\x1b" not in stderr


@pytest.mark.parametrize("table", ["results", "calls"])
@pytest.mark.parametrize("kind", ["missing", "texts", "lists", "nothing"])
def test_tables_of_other_columns_are_errors_and_never_a_mistake_of_the_program(run, table, kind):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = run / f"{table}.parquet"
    whole = pq.read_table(path)
    values: dict[str, Any] = {
        "texts": pa.array(["x\x1b"] * 5),
        "lists": pa.array([[1]] * 5),
        "nothing": pa.nulls(5),
    }
    for place, name in enumerate(whole.schema.names):
        changed = whole.remove_column(place)
        if kind != "missing":
            changed = whole.set_column(place, name, values[kind])
        pq.write_table(changed, path)
        codes = [ran("report", str(run))]
        assert 70 not in codes
        needed = not name.startswith("source.") and (table, name) != ("calls", "id")
        needed = needed and not (kind == "missing" and name in later_columns())
        if kind in ("missing", "lists") and needed:
            assert codes[0] == 2, name


@pytest.mark.parametrize(
    "name", ["run.db", "run.json.part", "results.parquet.part", "report.html.part"]
)
@pytest.mark.parametrize("command", ["run", "report"])
def test_nothing_is_written_through_a_link(finished_run, run, name, command, capsys):
    target = run.parent / "own"
    target.write_text("mine\n", encoding="utf-8")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(target)
    arguments = {
        "run": (
            "run",
            str(finished_run / "p.yaml"),
            str(finished_run / "d.jsonl"),
            "--out",
            str(run),
            "--fresh",
            "-q",
        ),
        "report": ("report", str(run)),
    }[command]
    assert ran(*arguments) == 2
    assert f"{name} is a link" in capsys.readouterr().err
    assert target.read_text(encoding="utf-8") == "mine\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
@pytest.mark.parametrize("name", ["run.json", "results.parquet", "run.db"])
@pytest.mark.parametrize("command", ["report", "gate", "verify"])
def test_a_pipe_is_refused_and_not_waited_for(run, name, command, capsys):
    (run / name).unlink()
    os.mkfifo(run / name)
    assert ran(command, str(run)) == 2
    assert f"{name} is a pipe" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
def test_a_pipe_in_place_of_the_database_is_not_waited_for(run, finished_run, capsys):
    (run / "run.db").unlink()
    os.mkfifo(run / "run.db")
    words = [str(finished_run / name) for name in ("p.yaml", "d.jsonl")]
    assert ran("run", *words, "--out", str(run), "-q") == 2
    assert "is a pipe" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="O_NOFOLLOW is POSIX's")
def test_a_label_is_not_written_through_a_link(run):
    from verdict_cli.errors import OutputError
    from verdict_cli.storage.tables.human_labels import add_label

    target = run.parent / "own"
    target.write_text("mine\n", encoding="utf-8")
    (run / "labels.jsonl").symlink_to(target)
    with pytest.raises(OutputError):
        add_label(run / "labels.jsonl", 1, "x", None, "now")
    assert target.read_text(encoding="utf-8") == "mine\n"


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"\xff\xfe{", b'{"a": 1e999}', b"", b"[]", b"null"]
)
def test_files_that_are_not_json_are_reported(run, content):
    for name in ("run.json", "report.json", "labels.jsonl", "run.db"):
        original = (run / name).read_bytes() if (run / name).exists() else None
        (run / name).write_bytes(content)
        assert ran("report", str(run)) == (2 if name == "run.json" else 0)
        (run / name).unlink() if original is None else (run / name).write_bytes(original)


def test_a_table_of_a_stranger_s_pipeline_names_no_file_elsewhere(run):
    (run / "spec.yaml").write_text(
        PIPELINE.replace("'{source.q}'", "{file: ../own}"), encoding="utf-8"
    )
    (run.parent / "own").write_text("mine {source.q}", encoding="utf-8")
    assert ran("report", str(run)) == 2


def test_two_processes_do_not_write_to_one_directory(finished_run, tmp_path, loopback):
    url = loopback.start("--latency-ms", "1500")
    slow = PIPELINE.replace("baseline/lexical", f"{{name: openai/m, api_base: '{url}'}}")
    (tmp_path / "p.yaml").write_text(slow, encoding="utf-8")
    words = [
        sys.executable,
        "-m",
        "verdict_cli",
        "run",
        "p.yaml",
        str(finished_run / "d.jsonl"),
        "--out",
        "out",
        "-q",
    ]
    both = [
        subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, encoding="utf-8")
        for _ in "ab"
    ]
    errors = [process.communicate(timeout=100)[1] for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes[1] == 2 and codes[0] in (0, 1, 3), errors
    assert sum("another run is writing to" in error for error in errors) == 1
