"""`verdict run` with several parts, and every command that reads such a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROWS = 1_200
PIPELINE = """verdict: 1
name: t
model: {name: baseline/lexical}
dataset: {id: id}
pipeline:
- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}
evaluate:
  main: {target: source.label, prediction: output.score}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the same run in one part and in two."""
    from typer.testing import CliRunner

    from verdict_cli.cli.app import app

    folder = tmp_path_factory.mktemp("parts")
    (folder / "p.yaml").write_text(PIPELINE)
    lines = [{"id": f"r{n}", "text": f"text {n % 900}", "label": n % 5 + 1} for n in range(ROWS)]
    (folder / "d.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, flags in (("one", ()), ("two", ("--part-rows", "1000"))):
        command = [
            "run",
            str(folder / "p.yaml"),
            str(folder / "d.jsonl"),
            "--out",
            str(folder / name),
            "--quiet",
            *flags,
        ]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def told(runs: Path, shell: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command in the folder, and returns its exit code and what it printed."""
    monkeypatch.chdir(runs)

    def run(*arguments: str) -> tuple[int, str]:
        result = shell(*arguments)
        return result.code, " ".join(f"{result.out} {result.err}".split())

    return run


def test_a_run_in_parts_has_folders_for_tables_and_says_so_in_run_json(runs: Path) -> None:
    names = sorted(path.relative_to(runs / "two").as_posix() for path in (runs / "two").rglob("*.parquet"))
    assert names == [
        "calls.parquet",
        "calls.parquet/000000.parquet",
        "calls.parquet/000001.parquet",
        "results.parquet",
        "results.parquet/000000.parquet",
        "results.parquet/000001.parquet",
    ]
    assert json.loads((runs / "two" / "run.json").read_bytes())["part_rows"] == 1_000
    assert json.loads((runs / "one" / "run.json").read_bytes())["part_rows"] == 0
    assert (runs / "one" / "results.parquet").is_file()


def test_other_programs_read_the_folder_as_one_table(runs: Path) -> None:
    import pandas
    import pyarrow.dataset

    one, two = (pandas.read_parquet(runs / name / "results.parquet") for name in ("one", "two"))
    pandas.testing.assert_frame_equal(one, two)
    folder = pyarrow.dataset.dataset(runs / "two" / "results.parquet")
    assert folder.schema.equals(pyarrow.dataset.dataset(runs / "one" / "results.parquet").schema, check_metadata=True)


def test_the_metrics_are_those_of_the_run_in_one_part(runs: Path) -> None:
    one, two = (json.loads((runs / name / "report.json").read_bytes()) for name in ("one", "two"))
    assert one["evaluations"] == two["evaluations"]


@pytest.mark.parametrize(
    "command",
    [
        ("report", "two"),
        ("verify", "two"),
        ("compare", "one", "two"),
        ("gate", "two"),
        ("run", "p.yaml", "d.jsonl", "--replay", "two/calls.parquet", "--out", "again-two", "--quiet"),
        ("run", "p.yaml", "d.jsonl", "--out", "two", "--quiet"),
    ],
    ids=" ".join,
)
def test_every_command_reads_a_run_in_parts(command: Sequence[str], told: Any) -> None:
    code, printed = told(*command)
    if command[0] == "compare":  # a run is not compared with itself
        assert code == 0, printed
        return
    same = told(*(word.replace("two", "one") for word in command))
    assert code == same[0], printed


def test_exported_rows_are_those_of_one_part(told: Any, runs: Path) -> None:
    for name in ("one", "two"):
        assert told("run", "p.yaml", "d.jsonl", "--out", name, "--format", "csv,jsonl", "--quiet")[0] == 0
    for table in ("results.csv", "results.jsonl"):
        assert (runs / "one" / table).read_bytes() == (runs / "two" / table).read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: (run / "parts/000000/journal.jsonl").write_bytes(b"x\n"), "parts/000000/journal.jsonl"),
        (lambda run: (run / "results.parquet/000001.parquet").unlink(), "results.parquet/000001.parquet"),
        (lambda run: (run / "calls.parquet/000002.parquet").write_bytes(b""), "calls.parquet/000002.parquet"),
        (lambda run: (run / "parts/000001/done.json").write_bytes(b"{}"), "parts/000001/done.json"),
        (lambda run: (run / "parts/000001/done.json").unlink(), "parts/000001/done.json"),
    ],
    ids=["journal", "lost", "added", "mark", "lost mark"],
)
def test_verify_names_the_changed_file_of_a_part(
    change: Any, message: str, runs: Path, told: Any, tmp_path: Path
) -> None:
    import shutil

    run = tmp_path / "run"
    shutil.copytree(runs / "two", run)
    change(run)
    code, printed = told("verify", str(run))
    assert code == 2
    assert message in printed


def test_the_parts_of_a_run_cannot_be_changed_when_it_is_resumed(told: Any) -> None:
    code, printed = told("run", "p.yaml", "d.jsonl", "--out", "two", "--part-rows", "1100")
    assert code == 2
    assert "holds a run in parts of 1,000 rows, which --part-rows cannot change" in printed
    code, printed = told("run", "p.yaml", "d.jsonl", "--out", "one", "--part-rows", "1000")
    assert "holds a run in one part" in printed


def test_a_resumed_run_does_not_check_the_same_data_again(
    runs: Path, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from verdict_cli.cli import open_dataset

    checked: list[str] = []
    check = open_dataset.preflight

    def note(plan: Any, *given: Any, **more: Any) -> Any:
        checked.append(plan.name)
        return check(plan, *given, **more)

    monkeypatch.setattr(open_dataset, "preflight", note)
    assert told("run", "p.yaml", "d.jsonl", "--out", "two", "--quiet")[0] == 0
    assert checked == []
    assert told("run", "p.yaml", "d.jsonl", "--out", "one", "--quiet")[0] == 0
    assert checked == ["t"]
    (runs / "q.yaml").write_text(PIPELINE.replace("source.label,", "source.text,"))
    assert told("run", "q.yaml", "d.jsonl", "--out", "two", "--quiet")[0] == 2
    (runs / "e.jsonl").write_text((runs / "d.jsonl").read_text() + "{\n")
    code, printed = told("run", "p.yaml", "e.jsonl", "--out", "two", "--quiet")
    assert code == 2
    assert "not valid JSON" in printed
