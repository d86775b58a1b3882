"""Fetch a card's file, or a split of a dataset of the Hugging Face hub, and check files against their cards.

A split as a command's dataset, `hf:OWNER/NAME[:SPLIT]`, is fetched once, then read from disk.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from verdict_cli.errors import DataError, FetchError, UsageError
from verdict_cli.features.benchmarks.card import UNKNOWN, Card, CardFile, data_directory, local_path
from verdict_cli.features.benchmarks.download import DownloadTarget, HubSplit, Pause, download, split_of
from verdict_cli.plural import plural
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import stream_rows


@dataclass(frozen=True, slots=True)
class Finding:
    """One property of a file, compared with its card; `unknown`: the card does not state it."""

    what: str
    verdict: Literal["same", "differs", "unknown"]
    detail: str


def card_file_of(card: Card, path: Path) -> CardFile:
    """The card's entry for a path: by its name, else by its columns. Raises UsageError if there is none."""
    named = next((file for file in card.files if file.name == path.name), None)
    if named is not None:
        return named
    columns = set(_first(path))
    fitting = [file for file in card.files if file.columns and set(file.columns) <= columns]
    if not fitting:
        raise UsageError(
            f"{path} is not a file of {card.name}: its columns are {', '.join(sorted(columns)) or 'missing'}",
            hint=f"its files are {', '.join(file.name for file in card.files)}",
        )
    return fitting[0]


def findings(file: CardFile, path: Path) -> list[Finding]:
    """The properties of the file, compared with the card. Raises DataError for a file that cannot be read."""
    checked = [_checksum(file, path)]
    if file.holds == "results":
        return checked
    columns, count = set(_first(path)), 0
    counted: dict[str, Counter[str]] = {column: Counter() for column in file.labels}
    for row in stream_rows(Dataset((path,))):
        count += 1
        for column, counter in counted.items():
            counter[str(row.source.get(column))] += 1
    checked.append(_columns(file, columns))
    checked.append(_number("rows", file.rows, count))
    for column, labels in file.labels.items():
        same = counted[column] == Counter(labels)
        checked.append(
            Finding(
                f"labels of {column}",
                "same" if same else "differs",
                _counts(labels) if same else f"{_counts(counted[column])}; the card says {_counts(labels)}",
            )
        )
    return checked


def _checksum(file: CardFile, path: Path) -> Finding:
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="give the benchmark's own file") from None
    if file.sha256 == UNKNOWN:
        return Finding("SHA-256", "unknown", f"{digest}; the card does not state it")
    if digest == file.sha256:
        return Finding("SHA-256", "same", digest)
    return Finding("SHA-256", "differs", f"{digest}; the card says {file.sha256}")


def _first(path: Path) -> Mapping[str, Any]:
    first = next(stream_rows(Dataset((path,))), None)
    return {} if first is None else first.source


def _columns(file: CardFile, columns: set[str]) -> Finding:
    if not file.columns:
        return Finding("columns", "unknown", ", ".join(sorted(columns)))
    lacking = [column for column in file.columns if column not in columns]
    if lacking:
        return Finding("columns", "differs", f"{', '.join(lacking)} missing")
    return Finding("columns", "same", ", ".join(file.columns))


def _number(what: str, stated: int | None, count: int) -> Finding:
    if stated is None:
        return Finding(what, "unknown", f"{count:,}; the card does not state it")
    if stated == count:
        return Finding(what, "same", f"{count:,}")
    return Finding(what, "differs", f"{count:,}; the card says {stated:,}")


def _counts(labels: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {label}" for label, count in sorted(labels.items()))


HUB_PREFIX = "hf:"
DOWNLOAD_LIMIT = 1 << 30
"""Bytes of a split that a command fetches without being asked for more."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The fetched file, or folder of Parquet files, with notes for the user."""

    path: Path
    notes: tuple[str, ...]


def fetchable(card: Card, name: str | None) -> CardFile:
    """The file of that name, else the first that has an address. Raises UsageError if it has none."""
    target = card.file(name) if name is not None else None
    if target is not None and target.derived is None:
        return target
    if target is None:
        first = next((file for file in card.files if file.derived is None), None)
        if first is not None:
            return first
    raise UsageError(
        f"{target.name if target else card.name} has no address to fetch it from"
        + (f": it is {target.derived}" if target else ""),
        hint=f"its authors' page is {card.source}; a copy of yours is read by `verdict datasets import {card.name} PATH`",
    )


def fetch_file(
    card: Card, file: CardFile, out: Path | None, sha256: str, limit: int, *, pause: Pause = asyncio.sleep
) -> Fetched:
    """Download a file of a card to `out`, by default to where `verdict bench` finds it. Raises as `download` does."""
    if sha256 and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise UsageError(f"--sha256 {sha256!r} is not a SHA-256", hint="it has 64 hexadecimal digits")
    if file.hub is not None:
        if sha256:
            raise UsageError("a dataset of the hub takes no --sha256", hint="the hub states its checksums")
        return fetch_split(file.hub, out or local_path(card, file), limit, pause=pause)
    known_sha256 = "" if file.sha256 == UNKNOWN else file.sha256
    if known_sha256 and sha256 not in ("", known_sha256):
        raise UsageError(f"the card gives {file.name} another SHA-256: {known_sha256}", hint="leave --sha256 out")
    target = (out / file.name) if out else local_path(card, file)
    assert file.url is not None
    download_target = DownloadTarget(file.url, target, known_sha256 or sha256, file.bytes, limit)
    digest = download(
        download_target, None if known_sha256 else lambda path: _check_against_card(file, path), pause=pause
    )
    if download_target.sha256:
        return Fetched(target, (f"SHA-256 as expected: {digest}",))
    return Fetched(target, (f"the checksum is not known, so nothing proves that this is the file; SHA-256 {digest}",))


def fetch_split(reference: str, out: Path | None, limit: int, *, pause: Pause = asyncio.sleep) -> Fetched:
    """Download a split to a folder of its own, each file checked by the checksum that the hub states."""
    split = split_of(reference)
    if sum(shard.size for shard in split.shards) > limit:
        raise FetchError(
            f"hf:{reference} has {sum(shard.size for shard in split.shards):,} bytes, more than {limit:,}",
            hint=f"verdict datasets fetch hf:{reference} --max-size MIB, with a larger size in MiB",
        )
    folder = out or data_directory() / split.folder
    for shard in split.shards:
        target = DownloadTarget(shard.url, folder / shard.name, shard.sha256, shard.size, limit, split.headers)
        download(target, pause=pause)
    if out is None:
        _keep_split(reference, folder, {shard.name: shard.size for shard in split.shards})
    unproven = sum(not shard.sha256 for shard in split.shards)
    proof = "SHA-256 as the hub states" if not unproven else f"the hub states no checksum of {unproven} of them"
    return Fetched(folder, (f"{_count(split)}: {proof}",))


def _count(split: HubSplit) -> str:
    count = len(split.shards)
    return f"{plural(count, 'Parquet file')}"


def _check_against_card(file: CardFile, path: Path) -> None:
    """Refuse a file without a known checksum that cannot be read, or does not have the card's columns, rows or labels."""
    try:
        wrong = [finding for finding in findings(file, path) if finding.verdict == "differs"]
    except DataError as error:
        raise FetchError(
            f"{file.url} is not a readable {file.name}: {error.problem.message}",
            hint="it was changed at its source or on its way, and was deleted",
        ) from None
    if wrong:
        raise FetchError(
            f"{file.url} is not the file that the card describes: "
            + "; ".join(f"{finding.what}: {finding.detail}" for finding in wrong),
            hint="it was changed at its source or on its way, and was deleted",
        )


def hub_dataset(data: str, tell: Callable[[str], None]) -> Path:
    """The folder with the split's files. Only the first use needs the network; `tell` says what was fetched.

    Raises:
        UsageError: the name or the split is unknown.
        FetchError: the hub cannot be reached, or does not have the files.
    """
    reference = data.removeprefix(HUB_PREFIX)
    kept = _kept(reference)
    if kept is not None:
        return kept
    fetched = fetch_split(reference, None, DOWNLOAD_LIMIT)
    for note in fetched.notes:
        tell(f"{data}: {note}; kept in {fetched.path}")
    return fetched.path


def _keep_split(reference: str, folder: Path, sizes: dict[str, int]) -> None:
    """Record that the folder has the split, with the size of each file."""
    path = _record(reference)
    part = path.with_suffix(".part")
    part.write_bytes(orjson.dumps({"folder": folder.name, "files": sizes}))
    part.replace(path)


def _kept(reference: str) -> Path | None:
    try:
        record = orjson.loads(_record(reference).read_bytes())
        folder = data_directory() / record["folder"]
        whole = all((folder / name).stat().st_size == size for name, size in record["files"].items())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return folder if whole else None


def _record(reference: str) -> Path:
    return data_directory() / f"{reference.replace('/', '--').replace(':', '---')}.hub.json"
