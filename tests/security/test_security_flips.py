"""One flipped bit anywhere in a run's database or tables is told, or changes nothing that is reported."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow  # `make test-all`


FLIPS = int(os.environ.get("VERDICT_FLIPS", "50"))
CONFIG = """\
verdict: 1
name: flips
model: {name: openai/m, api_base: 'http://127.0.0.1:9/v1'}
pipeline:
- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}', explanation: true}
evaluate:
  score: {prediction: output.score, target: source.label, metrics: [mae, spearman]}
"""
Command = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scripted_model: Any,
) -> Command:
    """`verdict` with these words in a folder with a judged dataset: the exit code, and the JSON document."""
    from verdict_cli.cli.app import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(CONFIG)
    rows = [{"text": f"text {number}", "label": 1 + number % 5} for number in range(40)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def answer(request: Any) -> str:
        number = int(request.row.source["text"].split()[1])
        return json.dumps({"explanation": f"because of {number}", "score": 1 + number * 7 % 5})

    scripted_model.answer = answer

    def call(*words: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["verdict", *words, "--json"])
        with pytest.raises(SystemExit) as left:
            main()
        out = capsys.readouterr().out
        return int(left.value.code or 0), json.loads(out) if out.startswith("{") else {}

    return call


def flip(
    path: Path, draw: random.Random, places: Sequence[int] = (), bits: Sequence[int] = range(8)
) -> tuple[int, int]:
    """Flips one of the bits at one of the places, of the whole file where none are given."""
    content = bytearray(path.read_bytes())
    place, bit = draw.choice(places or range(len(content))), draw.choice(bits)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    return place, bit


def pages(path: Path, names: set[str]) -> list[int]:
    """The places of the columns' pages in a table."""
    found: list[int] = []
    group = pq.ParquetFile(path).metadata.row_group(0)
    for column in map(group.column, range(group.num_columns)):
        if column.path_in_schema in names:
            start = column.dictionary_page_offset or column.data_page_offset
            found += range(start, start + column.total_compressed_size)
    return found


RUN = ("run", "p.yaml", "d.jsonl", "--out", "out", "--no-cache", "--quiet")


def test_a_flipped_bit_of_a_table_is_told_or_changes_no_figure(
    command: Command, tmp_path: Path
) -> None:
    code, whole = command(*RUN)
    assert code == 0 and whole["evaluations"]
    shutil.copytree("out", "kept")
    measured = pages(tmp_path / "out" / "results.parquet", {"output.score", "source.label"})
    assert len(measured) > 50
    told = 0
    for number in range(FLIPS):
        shutil.rmtree("out")
        shutil.copytree("kept", "out")
        name = ("results.parquet", "calls.parquet")[number % 2]
        where = flip(
            tmp_path / "out" / name,
            random.Random(f"tables {number}"),
            () if number % 2 else measured,
        )
        code, report = command("report", "out")
        assert (code == 2 and not report) or report["evaluations"] == whole["evaluations"], (
            name,
            where,
        )
        told += code == 2
    assert told > FLIPS / 4


def test_a_flipped_bit_of_the_database_is_told_or_changes_no_figure(
    command: Command, tmp_path: Path, scripted_model: Any
) -> None:
    code, whole = command(*RUN)
    assert code == 0
    facts = json.loads((tmp_path / "out" / "run.json").read_text())
    (tmp_path / "out" / "run.json").write_text(
        json.dumps(facts | {"status": "interrupted", "digests": {}})
    )
    shutil.copytree("out", "kept")
    database = tmp_path / "out" / "run.db"
    again = 0
    for number in range(FLIPS):
        shutil.rmtree("out")
        shutil.copytree("kept", "out")
        where = flip(database, random.Random(f"database {number}"))
        scripted_model.requests.clear()
        code, report = command(*RUN)
        assert (code == 2 and not report) or report["evaluations"] == whole["evaluations"], where
        again += len(scripted_model.requests)
    assert again
