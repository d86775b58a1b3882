"""Any file of a run's directory truncated, zeroed, flipped, deleted or replaced by a link: told, or it changes no number."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # `make test-all`

CONFIG = """\
verdict: 1
name: damaged
model: {name: openai/m, api_base: 'http://127.0.0.1:9/v1'}
pipeline:
- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}', explanation: true}
evaluate:
  score: {prediction: output.score, target: source.label, metrics: [mae, spearman]}
gates:
- {metric: score.mae, max: 3}
"""
RUN = ("run", "p.yaml", "d.jsonl", "--out", "out", "--no-cache", "--quiet")
FINISHED = (
    "run.db", "run.json", "spec.yaml", "results.parquet", "calls.parquet",
    "report.json", "report.md", "report.html", "junit.xml",
)  # fmt: skip
KILLED = ("run.db", "run.db-wal", "run.db-shm", "run.json", "spec.yaml", "run.lock")
Command = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scripted_model: Any,
) -> Command:
    """`verdict` with these words, after a run into `out`: the exit code, and what the JSON document measures.

    The folder `killed` has what a process that is killed in the middle of the run leaves.
    """
    from verdict_cli.cli.app import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(CONFIG)
    rows = [{"text": f"text {number}", "label": 1 + number % 5} for number in range(40)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def answer(request: Any) -> str:
        number = int(request.row.source["text"].split()[1])
        if number == 30 and not Path("killed").exists():
            time.sleep(0.2)  # the thread that writes commits what there is
            shutil.copytree("out", "killed")
        return json.dumps({"explanation": f"because of {number}", "score": 1 + number * 7 % 5})

    scripted_model.answer = answer

    def call(*words: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["verdict", *words, "--json"])
        with pytest.raises(SystemExit) as left:
            main()
        out = capsys.readouterr().out
        document = json.loads(out) if out.startswith("{") else {}
        return int(left.value.code or 0), {
            name: document[name] for name in ("evaluations", "gates") if name in document
        }

    return call


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
def test_a_damaged_file_is_told_or_changes_no_number(
    state: str, names: tuple[str, ...], commands: list[Any], damage: Any, command: Command
) -> None:
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
            code, found = command(*words)
            where = name, words[0], code
            if state == "killed" and words[0] == "report":  # a gate on part of the rows fails
                assert code in (0, 1, 2), where
            else:
                assert (code, found) in ((0, expected[words[0]]), (2, {})), where
