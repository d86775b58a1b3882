"""`verdict verify`: a run's files against the digests in its run.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FILES = (
    "journal.jsonl",
    "results.parquet",
    "calls.parquet",
    "spec.yaml",
    "report.json",
    "report.md",
    "report.html",
    "junit.xml",
)


@pytest.fixture
def run(shell: Any) -> Any:
    config = shell.config("- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}")
    assert shell("run", config, shell.rows(5), "--out", "out").code == 0
    return shell


def test_a_run_as_it_ended_is_verified(run: Any) -> None:
    done = run("verify", "out")
    assert done.code == 0
    assert "9 files" in done.err
    assert run("report", "out").code == 0
    assert run("verify", "out").code == 0


@pytest.mark.parametrize("name", FILES)
def test_any_changed_file_is_named(run: Any, name: str) -> None:
    path = run.folder / "out" / name
    path.write_bytes(path.read_bytes() + b" ")
    done = run("verify", "out")
    assert done.code == 2
    assert f"{name}: the content has changed" in done.err
    path.unlink()
    assert f"{name}: the file is missing" in run("verify", "out").err


def test_a_changed_fact_or_digest_is_named(run: Any) -> None:
    path = run.folder / "out" / "run.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps(facts | {"calls": facts["calls"] + 1}))
    assert "run.json: the content has changed" in run("verify", "out").err
    facts["digests"].pop("results.parquet")
    path.write_text(json.dumps(facts))
    done = run("verify", "out")
    assert done.code == 2
    assert "run.json has no digest" in done.err


def test_a_rewritten_report_does_not_vouch_for_a_changed_journal(run: Any) -> None:
    path = run.folder / "out" / "journal.jsonl"
    path.write_bytes(path.read_bytes() + b" ")
    assert run("report", "out").code == 0
    assert run("verify", "out").code == 2


def test_a_run_without_digests_is_an_error_with_a_fix(run: Any) -> None:
    path = run.folder / "out" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"digests": {}}))
    done = run("verify", "out")
    assert done.code == 2
    assert "the run has no digests" in done.err
    assert run("verify", "elsewhere").code == 2


def test_a_file_that_the_run_did_not_write_is_listed(run: Any) -> None:
    (run.folder / "out" / "notes.txt").write_text("mine")
    done = run("verify", "out")
    assert (done.code, "notes.txt: not a file of the run" in done.err) == (0, True)


GATES = "gates: [{metric: run.coverage, min: 0.5}]\n"


def keys(folder: Path, name: str) -> tuple[Path, Path]:
    """A new key pair in two PEM files."""
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    pem = serialization.Encoding.PEM
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture
def signed(run: Any) -> Any:
    """A signed run in `out`, its public key `own.pub`, another key pair, and gates that pass."""
    private, _ = keys(run.folder, "own")
    keys(run.folder, "other")
    run.write("gates.yaml", GATES)
    done = run("run", "pipeline.yaml", "data.jsonl", "--out", "out", "--fresh", "--sign", private)
    assert done.code == 0, done.err
    return run


def gate(shell: Any, key: str = "own.pub") -> Any:
    return shell("gate", "out", "--gates", "gates.yaml", "--key", key)


def test_a_signed_run_is_trusted_with_its_key_and_after_a_gate_too(signed: Any) -> None:
    assert signed("verify", "out", "--key", "own.pub").code == 0
    assert gate(signed).code == gate(signed).code == 0
    done = signed("verify", "out", "--key", "own.pub")
    assert (done.code, "report.html: the content has changed since it was signed" in done.err) == (2, True)
    assert signed("report", "out", "--sign", "own.key").code == 0
    assert signed("verify", "out", "--key", "own.pub").code == 0


def test_a_gate_with_a_key_refuses_a_run_that_is_not_signed_with_it(signed: Any) -> None:
    done = gate(signed, "other.pub")
    assert (done.code, "the signature is not valid for this key" in done.err) == (2, True)
    (signed.folder / "out" / "run.sig").unlink()
    done = gate(signed)
    assert (done.code, "the run is not signed" in done.err) == (2, True)


@pytest.mark.parametrize("name", ["journal.jsonl", "results.parquet", "calls.parquet", "spec.yaml", "labels.jsonl"])
def test_a_gate_with_a_key_refuses_a_run_that_was_changed_with_its_digests(signed: Any, name: str) -> None:
    path = signed.folder / "out" / name
    path.write_bytes((path.read_bytes() if path.exists() else b"") + b"\n")
    facts = json.loads((signed.folder / "out" / "run.json").read_text())
    facts["digests"] = {}
    (signed.folder / "out" / "run.json").write_text(json.dumps(facts))
    signed("report", "out")  # makes digests of the files as they are now
    done = gate(signed)
    assert done.code == 2 and f"{name}: " in done.err, done.err


def test_a_gate_with_a_key_refuses_changed_facts_and_changed_digests(signed: Any) -> None:
    path = signed.folder / "out" / "run.json"
    text = path.read_text()
    path.write_text(json.dumps(json.loads(text) | {"cost_usd": 7.0}))
    assert "run.json: the content has changed since it was signed" in gate(signed).err
    path.write_text(text)
    assert gate(signed).code == 0
    path = signed.folder / "out" / "run.sig"
    content = json.loads(path.read_text())
    content["files"]["results.parquet"] = "0" * 64
    path.write_text(json.dumps(content))
    assert "the signature is not valid" in gate(signed).err
    for nonsense in ("", "[]", '{"facts": 1}', json.dumps(content | {"signature": 5})):
        path.write_text(nonsense)
        assert (gate(signed).code, "the signature is not valid" in gate(signed).err) == (2, True)


def test_a_file_that_is_not_a_key_is_told_before_the_run(signed: Any) -> None:
    for wrong in ("gates.yaml", "own.pub", "none.key"):
        done = signed("run", "pipeline.yaml", "data.jsonl", "--out", "new", "--sign", wrong)
        assert (done.code, wrong in done.err) == (2, True)
        assert not (signed.folder / "new").exists()
    for wrong in ("gates.yaml", "own.key", "none.pub"):
        assert gate(signed, wrong).code == 2
