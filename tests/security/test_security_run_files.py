"""Any file of a run's directory truncated, zeroed, flipped, deleted or replaced by a link: told, or it changes no number."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from small_run import CONFIG, RUN, Command, measured_by, number_of, reply_to

pytestmark = pytest.mark.slow  # `make test-all`

GATES = "gates:\n- {metric: score.mae, max: 3}\n"
FINISHED = (
    "run.db", "run.json", "spec.yaml", "results.parquet", "calls.parquet",
    "report.json", "report.md", "report.html", "junit.xml",
)  # fmt: skip
KILLED = ("run.db", "run.db-wal", "run.db-shm", "run.json", "spec.yaml", "run.lock")


@pytest.fixture
def command(command: Command, tmp_path: Path, scripted_model: Any) -> Command:
    """`verdict` with these words: the exit code, and what the JSON document measures.

    The folder `killed` has what a process that is killed in the middle of the run leaves.
    """
    (tmp_path / "p.yaml").write_text(CONFIG + GATES)

    def answer(request: Any) -> str:
        if number_of(request) == 30 and not Path("killed").exists():
            time.sleep(0.2)  # the thread that writes commits what there is
            shutil.copytree("out", "killed")
        return reply_to(request)

    scripted_model.answer = answer

    return measured_by(command)


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for place in range(len(content) // 3, len(content), 500):
        content[place] ^= 4
    path.write_bytes(content)


def replace_by_link(path: Path) -> None:
    other = path.resolve().parent.parent / "elsewhere"
    path.rename(other)
    path.symlink_to(other)


@pytest.mark.parametrize("damage", [cut, empty, zero, flip, Path.unlink, replace_by_link])
@pytest.mark.parametrize(
    ("state", "names", "commands"),
    [
        ("whole", FINISHED, [RUN, ("report", "out"), ("gate", "out")]),
        ("killed", KILLED, [("report", "out"), RUN]),
    ],
    ids=["finished", "killed"],
)
def test_a_damaged_file_is_reported_or_changes_no_number(state, names, commands, damage, command):
    code, judged = command(*RUN)
    assert (code, len(judged)) == (0, 2)
    expected = {words[0]: command(*words)[1] for words in (RUN, ("report", "out"), ("gate", "out"))}
    Path("out").rename("whole")
    assert {*names} - {"run.lock"} <= {path.name for path in Path(state).iterdir()}
    for name in names:
        if not (Path(state) / name).is_file():
            continue
        for words in commands:
            shutil.rmtree("out", ignore_errors=True)
            shutil.copytree(state, "out")
            damage(Path("out") / name)
            code, output = command(*words)
            where = name, words[0], code
            if state == "killed" and words[0] == "report":  # a gate on part of the rows fails
                assert code in (0, 1, 2), where
            else:
                assert (code, output) in ((0, expected[words[0]]), (2, {})), where
