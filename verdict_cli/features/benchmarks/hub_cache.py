"""Splits of the Hugging Face hub as datasets of a command, `hf:OWNER/NAME[:SPLIT]`: fetched once, then read from disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson

from verdict_cli.features.benchmarks.data_dir import data_directory

HUB_PREFIX = "hf:"
DOWNLOAD_LIMIT = 1 << 30
"""Bytes of a split that a command fetches without being asked for more."""


def hub_dataset(data: str, tell: Callable[[str], None]) -> Path:
    """The folder with the split's files. Only the first use needs the network; `tell` says what was fetched.

    Raises:
        UsageError: the name or the split is unknown.
        FetchError: the hub cannot be reached, or does not have the files.
    """
    from verdict_cli.features.benchmarks.fetch import fetch_split

    reference = data.removeprefix(HUB_PREFIX)
    kept = _kept(reference)
    if kept is not None:
        return kept
    fetched = fetch_split(reference, None, DOWNLOAD_LIMIT)
    for note in fetched.notes:
        tell(f"{data}: {note}; kept in {fetched.path}")
    return fetched.path


def keep_split(reference: str, folder: Path, sizes: dict[str, int]) -> None:
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
