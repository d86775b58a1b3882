"""Sign a finished run's files with an Ed25519 key, and check the signature: `run.sig` in the run's directory."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson

from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.run.digests import changed_in_part, evidence, file_digest
from verdict_cli.run.part_files import MARK
from verdict_cli.run.run_directory import SIGNATURE, RunDirectory
from verdict_cli.run.validate_run import facts_of
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.journal.journal import JOURNAL
from verdict_cli.storage.tables.human_labels import FILE as LABELS

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_INPUTS = (JOURNAL, "results.parquet", "calls.parquet", "spec.yaml", LABELS)
"""The files from which metrics and gates are computed, besides `published/` and those of parts. The others are rewritten from
these."""
_PURPOSE = b"verdict run 1\n"
"""In front of the signed text, so that a signature for another purpose does not fit."""


def signing_key(path: Path) -> Ed25519PrivateKey:
    """The private key in a PEM file. Raises UsageError."""
    serialization, kinds = _cryptography()
    try:
        key = serialization.load_pem_private_key(_read_key(path), password=None)
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"{path} is not a private key without a password: {error}",
            hint="create one: openssl genpkey -algorithm ed25519 -out verdict.key",
        ) from None
    if not isinstance(key, kinds.Ed25519PrivateKey):
        raise _wrong_kind(path)
    return cast("Ed25519PrivateKey", key)


def sign_run(directory: RunDirectory, key: Ed25519PrivateKey) -> None:
    """Write `run.sig` with the digests of all files of the run, and the key's signature of them."""
    facts = directory.facts()
    assert facts is not None
    names = {*_input_names(directory), *(name for name in facts.digests if name != "run.json")}
    files = {name: file_digest(directory.path / name) for name in sorted(names) if (directory.path / name).is_file()}
    signed = {"facts": _digest_of_facts(facts), "files": files}
    content = {**signed, "signature": b64encode(key.sign(_text(signed))).decode()}
    directory.write(SIGNATURE, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")


def check_signature(
    directory: RunDirectory, facts: RunFacts, key_file: Path, *, inputs_only: bool = False
) -> list[str]:
    """What differs from the run as it was signed, a message for each file; with ``inputs_only`` not those of the report.

    Raises DataError for a run that is not signed or not with this key, UsageError for a file without a public key.
    """
    signed = _verified(directory, key_file)
    files = signed["files"]
    present = set(_input_names(directory))
    names = (set(_INPUTS) & files.keys()) | {name for name in files if "/" in name} if inputs_only else files.keys()
    found = (
        [] if _digest_of_facts(facts) == signed["facts"] else ["run.json: the content has changed since it was signed"]
    )
    for name in sorted(names | present):
        path = directory.path / name
        if name not in files:
            found.append(f"{name}: was added after the run was signed")
        elif not path.is_file():
            found.append(f"{name}: the file is missing")
        elif file_digest(path) != files[name]:
            found.append(f"{name}: the content has changed since it was signed")
        elif path.name == MARK:
            found += changed_in_part(directory, name)
    return found


def _verified(directory: RunDirectory, key_file: Path) -> dict[str, Any]:
    """The signed digests. Raises DataError unless the signature is this key's."""
    serialization, kinds = _cryptography()
    try:
        key = serialization.load_pem_public_key(_read_key(key_file))
    except ValueError as error:
        raise UsageError(
            f"{key_file} is not a public key: {error}",
            hint="extract it: openssl pkey -in verdict.key -pubout -out verdict.pub",
        ) from None
    if not isinstance(key, kinds.Ed25519PublicKey):
        raise _wrong_kind(key_file)
    from cryptography.exceptions import InvalidSignature

    path = directory.path / SIGNATURE
    try:
        content = orjson.loads(path.read_bytes())
        signed = {"facts": content["facts"], "files": content["files"]}
        key.verify(b64decode(content["signature"]), _text(signed))
    except FileNotFoundError:
        raise _refused(path, "the run is not signed") from None
    except (InvalidSignature, ValueError, KeyError, TypeError, OSError):
        raise _refused(path, "the signature is not valid for this key") from None
    return signed


def _input_names(directory: RunDirectory) -> Iterator[str]:
    yield from (name for name in (*evidence(directory), "spec.yaml", LABELS) if (directory.path / name).exists())
    yield from (f"published/{path.name}" for path in (directory.path / "published").glob("*.yaml"))


def _digest_of_facts(facts: RunFacts) -> str:
    read = facts_of(orjson.dumps(asdict(replace(facts, digests={}))))  # as a reader gets them: 0 becomes 0.0
    return hashlib.sha256(orjson.dumps(asdict(read), option=orjson.OPT_SORT_KEYS)).hexdigest()


def _text(signed: dict[str, Any]) -> bytes:
    return _PURPOSE + orjson.dumps(signed, option=orjson.OPT_SORT_KEYS)


def _read_key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="name the PEM file of a key") from None


def _cryptography() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise UsageError(
            "signatures need the package cryptography", hint="in a checkout of verdict: pip install '.[sign]'"
        ) from None
    return serialization, ed25519


def _wrong_kind(path: Path) -> UsageError:
    return UsageError(
        f"{path} is not an Ed25519 key", hint="create one: openssl genpkey -algorithm ed25519 -out verdict.key"
    )


def _refused(path: Path, message: str) -> DataError:
    hint = "`verdict run … --sign KEYFILE` signs a run, and `verdict report RUN --sign KEYFILE` one that has ended"
    return DataError(Problem("bad-signature", message, hint, str(path)))
