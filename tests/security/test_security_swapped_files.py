"""Files of another run in a run's directory, and files that are missing beside: told, or they change no number."""

from __future__ import annotations

import shutil
from itertools import combinations, product
from pathlib import Path

import pytest
from jsonl import jsonl
from small_run import CONFIG, RUN, Command, measured_by, reply_to

pytestmark = pytest.mark.slow  # `make test-all`

GATES = "gates:\n- {metric: score.mae, max: 3}\n"
FILES = ("run.db", "run.json", "spec.yaml", "results.parquet", "calls.parquet")
ABSENT = ((), ("run.json",), ("results.parquet",), ("results.parquet", "calls.parquet"))
COMMANDS: tuple[tuple[str, ...], ...] = (("report", "out"), ("gate", "out"), RUN)


@pytest.fixture
def command(command: Command, tmp_path: Path) -> Command:
    """`verdict` with these words: the exit code, and what the JSON document measures."""
    (tmp_path / "p.yaml").write_text(CONFIG + GATES)

    return measured_by(command)


def another_prompt() -> None:
    Path("p.yaml").write_text((CONFIG + GATES).replace("Rate", "Judge"), encoding="utf-8")


def other_labels() -> None:
    rows = [{"text": f"text {number}", "label": 1 + number % 3} for number in range(40)]
    Path("d.jsonl").write_text(jsonl(rows), encoding="utf-8")


def belongs_to_the_other(names: tuple[str, ...], absent: tuple[str, ...]) -> bool:
    """Whether both files that say which run it is are the other run's; a database alone is enough."""
    return "run.db" in names and "run.json" in names + absent


@pytest.mark.parametrize("change", [another_prompt, other_labels])
def test_files_of_another_run_are_reported_or_change_no_number(change, command, scripted_model):
    code, judged = command(*RUN)
    assert (code, len(judged)) == (0, 2)
    expected = {words[0]: command(*words)[1] for words in COMMANDS}
    shutil.copytree("out", "whole")
    for name in ("p.yaml", "d.jsonl"):
        shutil.copy(name, f"first-{name}")
    change()
    scripted_model.answer = lambda request: reply_to(request).replace("5", "1")
    code, other = command(*RUN, "--fresh")
    assert code == 0
    assert other != judged
    Path("out").rename("other")
    for name in ("p.yaml", "d.jsonl"):
        shutil.copy(f"first-{name}", name)
    scripted_model.answer = reply_to
    swapped = [*combinations(FILES, 1), *product(("run.db",), FILES[1:])]
    for names, absent, words in product(swapped, ABSENT, COMMANDS):
        shutil.rmtree("out", ignore_errors=True)
        shutil.copytree("whole", "out")
        for name in names:
            shutil.copy(Path("other") / name, Path("out") / name)
        for name in absent:
            (Path("out") / name).unlink()
        outcome = command(*words)
        if outcome == (0, other) and belongs_to_the_other(names, absent):
            continue
        assert outcome in ((0, expected[words[0]]), (2, {})), (names, absent, words)
