"""`benchmarks/rebuild_recordings.py`: recordings made from repositories by commit and checksum. The repositories are made here."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from paths import ROOT, SHARED
from typer.testing import CliRunner, Result

sys.path.insert(0, str(ROOT / "benchmarks"))

import rebuild_recordings as module
from rebuild_recordings import (
    RULES,
    Rebuilt,
    RecordedFile,
    RecordedSet,
    rebuild_sets,
    recorded_sets,
)

SHARED = SHARED / "data"

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(place: Path, *words: str) -> str:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org"}
    who |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org"}
    done = subprocess.run(
        ["git", "-C", str(place), *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **who},
    )
    return done.stdout.strip()


def repository(place: Path, files: Mapping[str, bytes]) -> str:
    """A repository with these files, and one later commit that changes them all; the first commit's name."""
    place.mkdir(parents=True)
    git(place, "init", "--quiet")
    for path, content in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content)
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message", "first")
    commit = git(place, "rev-parse", "HEAD")
    for path in files:
        (place / path).write_bytes(b"changed later")
    git(place, "commit", "--quiet", "--all", "--message", "second")
    return commit


def recorded(
    name: str, content: bytes, rule: str | None, *paths: str, missing: str | None = None
) -> RecordedFile:
    sha256 = hashlib.sha256(content).hexdigest()
    return RecordedFile(
        name=name, sha256=sha256, bytes=len(content), paths=paths, rule=rule, missing=missing
    )


def of(commit: str, *files: RecordedFile, repository: str = "owner/name") -> RecordedSet:
    return RecordedSet(
        folder="set", repository=repository, commit=commit, licence="MIT", files=files
    )


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


@pytest.fixture
def commit(mirror: Path) -> str:
    return repository(
        mirror / "owner+name" / "repo",
        {"data/a b.jsonl": b'{"n": 1}\n', "list.json": b'[{"n": 1}, {"n": "\\u00e9"}]'},
    )


def outcomes(rebuilt: list[Rebuilt]) -> dict[str, str]:
    return {file.file: file.outcome for file in rebuilt}


def test_files_are_read_at_their_commit_and_not_at_the_newest(tmp_path, mirror, commit):
    listed = '{"n": 1}\n{"n": "é"}\n'.encode()
    sets = [
        of(
            commit,
            recorded("a.jsonl", b'{"n": 1}\n', "copy", "data/a b.jsonl"),
            recorded("list.jsonl.gz", listed, "json_list", "list.json"),
        )
    ]
    rebuilt = list(rebuild_sets(tmp_path / "out", sets, mirror))
    assert outcomes(rebuilt) == {"set/a.jsonl": "made", "set/list.jsonl.gz": "made"}
    assert (tmp_path / "out" / "set" / "a.jsonl").read_bytes() == b'{"n": 1}\n'
    assert gzip.decompress((tmp_path / "out" / "set" / "list.jsonl.gz").read_bytes()) == listed
    again = list(rebuild_sets(tmp_path / "out", sets, tmp_path / "no mirror is read"))
    assert outcomes(again) == {"set/a.jsonl": "kept", "set/list.jsonl.gz": "kept"}


def test_a_file_with_another_checksum_is_not_written(tmp_path, mirror, commit):
    (rebuilt,) = rebuild_sets(
        tmp_path / "out", [of(commit, recorded("a", b"other", "copy", "data/a b.jsonl"))], mirror
    )
    assert rebuilt.outcome == "failed"
    assert (
        hashlib.sha256(b'{"n": 1}\n').hexdigest() in rebuilt.reason
        and "expected 5 bytes" in rebuilt.reason
    )
    assert not (tmp_path / "out").exists()


def test_a_damaged_file_is_made_again(tmp_path, mirror, commit):
    place = tmp_path / "out" / "set" / "a.gz"
    place.parent.mkdir(parents=True)
    place.write_bytes(gzip.compress(b'{"n": 1}\n')[:-9])
    (rebuilt,) = rebuild_sets(
        tmp_path / "out",
        [of(commit, recorded("a.gz", b'{"n": 1}\n', "copy", "data/a b.jsonl"))],
        mirror,
    )
    assert (rebuilt.outcome, gzip.decompress(place.read_bytes())) == ("made", b'{"n": 1}\n')


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("clone", "there is no clone"),
        ("commit", "does not have the commit"),
        ("path", "owner/name has no file nowhere.jsonl"),
        ("form", "the repository's file has another form: KeyError: 'judgments'"),
        ("json", "the repository's file has another form: JSONDecodeError"),
    ],
)
def test_what_cannot_be_made_says_why(case, reason, tmp_path, mirror, commit):
    where = {"repository": "other/name"} if case == "clone" else {}
    rule = {"form": "judgebench_games", "json": "every_second_line"}.get(case, "copy")
    content = b'{"pair_id": 1}' if case == "form" else b"{"
    if case in {"form", "json"}:
        commit = repository(mirror / "other+form" / "repo", {"x": content})
        where = {"repository": "other/form"}
    path = "nowhere.jsonl" if case == "path" else "x" if case in {"form", "json"} else "list.json"
    at = "0" * 40 if case == "commit" else commit
    (rebuilt,) = rebuild_sets(
        tmp_path / "out", [of(at, recorded("a", b"", rule, path), **where)], mirror
    )
    assert rebuilt.outcome == "failed" and reason in rebuilt.reason


def test_a_file_without_a_rule_is_named_with_the_reason(tmp_path, mirror, commit):
    (rebuilt,) = rebuild_sets(
        tmp_path / "out",
        [of(commit, recorded("a", b"", None, missing="the seed is not said"))],
        mirror,
    )
    assert (rebuilt.outcome, rebuilt.reason) == ("no-rule", "the seed is not said")


def test_without_a_mirror_the_commit_is_fetched_from_the_site(
    tmp_path, mirror, commit, monkeypatch
):
    place = mirror / "owner" / "name"
    place.parent.mkdir()
    shutil.copytree(mirror / "owner+name" / "repo", place)
    for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        git(place, "config", key, "true")
    monkeypatch.setattr(module, "SITE", mirror.as_uri())
    rebuilt = list(
        rebuild_sets(
            tmp_path / "out", [of(commit, recorded("a", b'{"n": 1}\n', "copy", "data/a b.jsonl"))]
        )
    )
    assert outcomes(rebuilt) == {"set/a": "made"}, rebuilt


def test_a_site_that_does_not_answer_is_reported_once_for_each_file(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SITE", (tmp_path / "nowhere").as_uri())
    files = [recorded(name, b"", "copy", name) for name in ("a", "b")]
    rebuilt = list(rebuild_sets(tmp_path / "out", [of("0" * 40, *files)]))
    assert [file.outcome for file in rebuilt] == ["failed", "failed"]
    assert all(
        "owner/name cannot be fetched" in file.reason and "--mirror DIR" in file.reason
        for file in rebuilt
    )


def command(*words: str | Path) -> Result:
    app = typer.Typer()
    app.command()(module.rebuild)
    return CliRunner().invoke(app, list(map(str, words)))


def test_the_command_names_every_file_and_fails_where_one_with_a_rule_is_missing(
    tmp_path, mirror, commit, monkeypatch
):
    good = recorded("a.jsonl", b'{"n": 1}\n', "copy", "data/a b.jsonl")
    unknown = recorded("b", b"", None, missing="the seed is not said")
    monkeypatch.setattr(module, "recorded_sets", lambda: [of(commit, good, unknown)])
    result = command(tmp_path / "out", "--mirror", mirror)
    assert result.exit_code == 0, (result.output, result.exception)
    assert (
        "✓ set/a.jsonl: made\n" in result.stdout
        and "– set/b: no-rule: the seed is not said\n" in result.stdout
    )
    bad = recorded("c", b"", "copy", "list.json")
    monkeypatch.setattr(module, "recorded_sets", lambda: [of(commit, good, bad)])
    failed = command(tmp_path / "out", "--mirror", mirror, "--json")
    document = json.loads(failed.stdout)
    assert (failed.exit_code, document["kept"], document["failed"]) == (2, 1, 1)
    assert "there is no folder nowhere" in str(command(tmp_path, "--mirror", "nowhere").exception)


def test_every_file_of_the_data_file_has_a_rule_or_a_reason():
    for recorded_set in recorded_sets():
        for file in recorded_set.files:
            assert (file.rule is None) is (file.missing is not None), file.name
            assert file.rule is None or (file.rule in RULES and file.paths), file.name


def test_a_set_is_made_whole_or_not_at_all():
    for recorded_set in recorded_sets():
        assert len({file.rule is None for file in recorded_set.files}) == 1, recorded_set.folder


def test_the_data_file_has_the_commits_and_checksums_of_the_recordings():
    if not (SHARED / "sources.json").exists():
        pytest.skip("the recordings are not there: set VERDICT_SHARED to the folder that has data/")
    sources = json.loads((SHARED / "sources.json").read_text(encoding="utf-8"))
    ours = {
        recorded_set.folder: {
            "repositories": {recorded_set.repository: recorded_set.commit},
            "files": {
                file.name: {"sha256": file.sha256, "bytes": file.bytes}
                for file in recorded_set.files
            },
        }
        for recorded_set in recorded_sets()
    }
    assert ours == sources


def rows(name: str) -> list[dict[str, Any]]:
    place = SHARED / name
    content = place.read_bytes()
    text = (gzip.decompress(content) if place.suffix == ".gz" else content).decode("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def dumped(records: list[Any]) -> bytes:
    """JSON lines as the repositories have them: escaped, so that a rule which copied bytes would fail."""
    return "\n".join(map(json.dumps, records)).encode()


def _judgebench() -> dict[str, bytes]:
    records = [
        {
            "question": "q",
            "pair_id": row["pair_id"],
            "judgments": [
                {
                    "judgment": {"prompt": "p", "response": game["response"]},
                    "decision": game["decision"],
                }
                for game in row["games"]
            ],
        }
        for row in rows("judgebench/outputs_gpt-4o__arena_hard__o1-mini-2024-09-12.jsonl")
    ]
    return {"x": dumped(records)}


def _wice(*, replies: bool) -> dict[str, bytes]:
    chunks = [
        {"label": row["label"], "claim": row["claim"], "evidence": row["evidence"]}
        | {"meta": {"id": row["id"], "chunk_idx": row["line_index"], "oracle_idx": []}}
        for row in rows("wice/claims.jsonl")
    ]
    files = {"chunks": dumped([*chunks, chunks[0]])}
    if replies:
        outputs = rows("wice/outputs_claim_gpt-4-0613.jsonl")
        files["replies"] = dumped([{"prompt": "p", "response": row["response"]} for row in outputs])
    return files


def _realmistake(name: str) -> dict[str, bytes]:
    files: dict[str, list[dict[str, Any]]] = {}
    for row in rows(f"realmistake/{name}__answerability_classification.jsonl.gz"):
        if name == "majority":
            path = f"out/{row['responder']}/{row['judges']}/majority_vote.jsonl"
        else:
            path = f"out/{row['responder']}/{row['judge']}/baseline_errordetection_{row['prompt']}.jsonl"
        record = {
            key: row[key]
            for key in ("label", "prediction", "predictions_list", "votes_count")
            if key in row
        }
        if "responses" in row:
            record["response"] = [{"prompt": "p", "response": text} for text in row["responses"]]
        elif "response" in row:
            record["response"] = row["response"]
        files.setdefault(path, []).append({**record, "metadata": {"id": row["id"]}})
    return {path: dumped(records) for path, records in files.items()}


def _task(name: str) -> dict[str, bytes]:
    values = json.loads(
        (SHARED / f"realmistake/published_{name}_performance.json").read_text(encoding="utf-8")
    )
    return {"x": json.dumps({"another_task": {}, **values}, indent=4).encode()}


def _listed(name: str) -> dict[str, bytes]:
    return {
        "x": json.dumps(
            [{key: value for key, value in row.items() if key != "index"} for row in rows(name)],
            indent=4,
        ).encode()
    }


def _every_second() -> dict[str, bytes]:
    return {
        "x": dumped(
            [
                record
                for row in rows("halueval_general/general_even.jsonl.gz")
                for record in (row, {"ID": "odd"})
            ]
        )
    }


def _xstest() -> dict[str, bytes]:
    text = (SHARED / "xstest/completions_llama2orig.csv").read_bytes().decode("utf-8")
    table = list(csv.reader(io.StringIO(text, newline="")))
    files = {}
    for name, parts in (
        ("gpteval", [row[:-1] for row in table]),
        ("streval", [[*row[:-2], row[-1]] for row in table]),
    ):
        out = io.StringIO(newline="")
        csv.writer(out, lineterminator="\n").writerows(parts)
        files[name] = out.getvalue().encode()
    return files


SOURCES: dict[str, Callable[[], dict[str, bytes]]] = {
    "judgebench/outputs_gpt-4o__arena_hard__o1-mini-2024-09-12.jsonl": _judgebench,
    "wice/claims.jsonl": lambda: _wice(replies=False),
    "wice/outputs_claim_gpt-4-0613.jsonl": lambda: _wice(replies=True),
    "realmistake/simple__answerability_classification.jsonl.gz": lambda: _realmistake("simple"),
    "realmistake/selfcons__answerability_classification.jsonl.gz": lambda: _realmistake("selfcons"),
    "realmistake/majority__answerability_classification.jsonl.gz": lambda: _realmistake("majority"),
    "realmistake/published_simple_performance.json": lambda: _task("simple"),
    "realmistake/published_selfcons_performance.json": lambda: _task("selfcons"),
    "realmistake/published_majority_performance.json": lambda: _task("majority"),
    "unieval/topical_chat.jsonl.gz": lambda: _listed("unieval/topical_chat.jsonl.gz"),
    "halueval_general/general_even.jsonl.gz": _every_second,
    "xstest/completions_llama2orig.csv": _xstest,
}
"""Files of the repositories' form, made from the recordings."""


@pytest.mark.parametrize("name", SOURCES)
def test_a_rule_gives_the_recorded_bytes_from_files_of_the_repositorys_form(name):
    if not (SHARED / name).exists():
        pytest.skip("the recordings are not there: set VERDICT_SHARED to the folder that has data/")
    folder, _, file = name.partition("/")
    (recorded_file,) = [
        rebuilt_file
        for of in recorded_sets()
        if of.folder == folder
        for rebuilt_file in of.files
        if rebuilt_file.name == file
    ]
    assert recorded_file.rule is not None
    sources = SOURCES[name]()
    content = RULES[recorded_file.rule](sources)
    assert (hashlib.sha256(content).hexdigest(), len(content)) == (
        recorded_file.sha256,
        recorded_file.bytes,
    )
    if recorded_file.rule.startswith("realmistake"):
        expected = [path.split("/")[-3:] for path in module._paths(recorded_file.paths)]
        assert [path.split("/")[-3:] for path in sources] == expected


def test_every_rule_but_copying_is_tried_on_recordings():
    tried = {
        file.rule
        for of in recorded_sets()
        for file in of.files
        if f"{of.folder}/{file.name}" in SOURCES
    }
    assert tried | {"copy"} == set(RULES)
