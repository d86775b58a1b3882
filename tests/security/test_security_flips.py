"""One flipped bit anywhere in a run's database or tables is told, or changes nothing that is reported."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from small_run import RUN

pytestmark = pytest.mark.slow  # `make test-all`


FLIPS = int(os.environ.get("VERDICT_FLIPS", "50"))


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
    bytes_of_data: list[int] = []
    group = pq.ParquetFile(path).metadata.row_group(0)
    for column in map(group.column, range(group.num_columns)):
        if column.path_in_schema in names:
            start = column.dictionary_page_offset or column.data_page_offset
            bytes_of_data += range(start, start + column.total_compressed_size)
    return bytes_of_data


def test_a_flipped_bit_of_a_table_is_reported_or_changes_no_value(command, tmp_path):
    code, whole = command(*RUN)
    assert code == 0 and whole["evaluations"]
    shutil.copytree("out", "kept")
    measured = pages(tmp_path / "out" / "results.parquet", {"output.score", "source.label"})
    assert len(measured) > 50
    reported = 0
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
        reported += code == 2
    assert reported > FLIPS / 4


def test_a_flipped_bit_of_the_database_is_reported_or_changes_no_value(
    command, tmp_path, scripted_model
):
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
