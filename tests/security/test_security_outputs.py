"""What a run writes for people does nothing but be read."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from verdict_cli.cli.app import app

HOSTILE = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "  =1",
    "\uff1d1",
    "harmless = 1",
    "a,b\n=1",
]


@pytest.mark.parametrize("inert", [False, True])
def test_no_cell_of_inert_csv_is_a_formula(
    inert: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(
        "verdict: 1\nname: p\nmodel: baseline/echo\npipeline: [{unit: JudgeUnit, prompt: '{source.q}', scale: boolean}]\n",
        encoding="utf-8",
    )
    Path("d.jsonl").write_text(
        "".join(json.dumps({"q": text, "=c": -1.5}) + "\n" for text in HOSTILE), encoding="utf-8"
    )
    with pytest.raises(SystemExit):
        app(
            [
                "run",
                "p.yaml",
                "d.jsonl",
                "--out",
                "out",
                "--quiet",
                "--format",
                "csv-inert" if inert else "csv",
            ]
        )
    with Path("out/results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    told = [row["source.q"] for row in rows]
    assert told == ([f"'{text}" for text in HOSTILE[:8]] + HOSTILE[8:] if inert else HOSTILE)
    assert {row["source.=c"] for row in rows} == {"-1.5"}  # a number is no formula
