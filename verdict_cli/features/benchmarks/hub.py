"""Datasets of the Hugging Face hub, as the Parquet files that the hub generates for each (extra `hf`)."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from verdict_cli.errors import FetchError, UsageError
from verdict_cli.features.benchmarks.download import ATTEMPTS, SILENCE_S, DownloadTarget, open_response
from verdict_cli.llm.backoff import delay_s
from verdict_cli.llm.http_client import HttpClients
from verdict_cli.report.study_files import write_rows

BLOCK = 1 << 16


def fetch_rows(reference: str, subset: tuple[str, str], columns: Sequence[str], target: Path) -> int:
    """Write the rows whose column has the value, with these columns, as a JSONL file. Returns their number.

    A row group is skipped by its statistics, or by its one column. The hub's checksum is that of the whole file, so nothing
    proves that these are its rows. Raises FetchError where the hub does not provide them.
    """
    split = split_of(reference)
    count = write_rows(target, (row for shard in split.shards for row in _rows_of(split, shard, subset, columns)))
    if not count:
        target.unlink()
        raise FetchError(f"hf:{reference} has no row with {subset[0]} {subset[1]!r}", hint="was the dataset changed?")
    return count


def _rows_of(
    split: HubSplit, shard: Shard, subset: tuple[str, str], columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    column, value = subset
    with RemoteFile(split, shard) as remote:
        file = pq.ParquetFile(io.BufferedReader(remote, BLOCK))
        index = file.schema_arrow.get_field_index(column)
        for group in range(file.num_row_groups):
            known = file.metadata.row_group(group).column(index).statistics
            if known is not None and known.has_min_max and not known.min <= value <= known.max:
                continue
            wanted = pc.equal(file.read_row_group(group, columns=[column])[column], value)
            if pc.any(wanted).as_py():
                yield from file.read_row_group(group, columns=list(columns)).filter(wanted).to_pylist()


class RemoteFile(io.RawIOBase):
    """A file on a server, read by ranges."""

    def __init__(self, split: HubSplit, shard: Shard) -> None:
        super().__init__()
        self._target = DownloadTarget(shard.url, Path(shard.name), headers=split.headers)
        self._size, self._position = shard.size, 0
        self._runner = asyncio.Runner()
        # A range of a compressed transfer is not a range of the file.
        self._clients = HttpClients(decode=False)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        found = self._runner.run(self._range(self._position, length))
        buffer[: len(found)] = found
        self._position += len(found)
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._runner.run(self._clients.close())
            self._runner.close()
        super().close()

    async def _range(self, start: int, length: int) -> bytes:
        """The bytes, with retries. Raises FetchError."""
        from pyreqwest.exceptions import PyreqwestError

        random, reason = Random(0), ""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                found = await self._requested(start, length)
            except (PyreqwestError, TimeoutError) as error:
                reason = str(error) or "no reply"
            else:
                if isinstance(found, bytes):
                    return found
                reason = found
            if attempt < ATTEMPTS:
                await asyncio.sleep(delay_s(attempt, None, random))
        raise FetchError(
            f"{self._target.url} could not be read in {ATTEMPTS} attempts: {reason}", hint="try again later"
        )

    async def _requested(self, start: int, length: int) -> bytes | str:
        """The bytes, or why the server did not send them. FetchError where it never will."""
        headers = {"Range": f"bytes={start}-{start + length - 1}"}
        async with open_response(self._clients, self._target, headers) as (url, response):
            async with asyncio.timeout(SILENCE_S):
                found = bytes(await response.body_reader.bytes())
            if response.status == 206 and len(found) == length:
                return found
            if response.status == 200 and len(found) == self._size:
                return found[start : start + length]
            if response.status < 400 or response.status in (408, 429) or response.status >= 500:
                return f"status {response.status}, {len(found):,} bytes"
            raise FetchError(
                f"{url}: the server refuses (status {response.status})",
                hint="a gated dataset needs HF_TOKEN, and its terms accepted on its page",
            )


REVISION = "refs/convert/parquet"
_NAME = re.compile(r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)(?::(?P<split>[\w./-]+))?")


@dataclass(frozen=True, slots=True)
class Shard:
    """One Parquet file of a split: its address, and the SHA-256 that the hub states, empty if it states none."""

    name: str
    url: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class HubSplit:
    """A split of a dataset: `folder` is a name for its files on disk; `headers` carry the token, if there is one."""

    folder: str
    shards: tuple[Shard, ...]
    headers: Mapping[str, str] = field(default_factory=dict)


def split_of(reference: str) -> HubSplit:
    """The files of `OWNER/NAME[:SPLIT]`, where SPLIT is `split` or `config/split`; optional if there is only one.

    `HF_ENDPOINT` names another hub, `HF_TOKEN` a token for gated datasets. Raises UsageError for an
    unknown name or split, FetchError if the hub does not provide the files.
    """
    match = _NAME.fullmatch(reference)
    if match is None:
        raise UsageError(
            f"{reference!r} is not a dataset of the hub", hint="write hf:OWNER/NAME or hf:OWNER/NAME:SPLIT"
        )
    repository = f"{match['owner']}/{match['name']}"
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    splits: dict[str, list[Any]] = {}
    for entry in _listed(repository, endpoint):
        path = str(entry.path)
        if path.endswith(".parquet") and path.count("/") == 2:
            splits.setdefault(path.rpartition("/")[0], []).append(entry)
    chosen = _chosen(repository, match["split"], splits)
    shards = []
    for entry in sorted(splits[chosen], key=lambda name: str(name.path)):
        revision = REVISION.replace("/", "%2F")
        url = f"{endpoint}/datasets/{repository}/resolve/{revision}/{entry.path}"
        sha256 = entry.lfs.sha256 if entry.lfs is not None else ""
        shards.append(Shard(str(entry.path).rpartition("/")[2], url, sha256, entry.size))
    return HubSplit(f"{repository}/{chosen}".replace("/", "--"), tuple(shards), _headers())


def _listed(repository: str, endpoint: str) -> list[Any]:
    """The dataset's Parquet files, as the hub lists them."""
    try:
        from huggingface_hub import HfApi, constants
        from huggingface_hub.errors import (
            GatedRepoError,
            HfHubHTTPError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )
    except ImportError:
        raise UsageError(
            "datasets of the hub need the package huggingface_hub", hint="in a checkout of verdict: pip install '.[hf]'"
        ) from None
    constants.HF_HUB_DISABLE_TELEMETRY = True  # verdict sends no telemetry
    try:
        tree = HfApi(endpoint=endpoint).list_repo_tree(
            repository, recursive=True, revision=REVISION, repo_type="dataset"
        )
        return list(tree)
    except GatedRepoError:
        raise FetchError(
            f"{repository} is gated: its terms must be accepted at {endpoint}/datasets/{repository}",
            hint="then set HF_TOKEN to a token of that account",
        ) from None
    except RevisionNotFoundError:
        raise FetchError(
            f"the hub has no Parquet files of {repository}", hint="fetch its own files by their addresses"
        ) from None
    except RepositoryNotFoundError:
        raise FetchError(
            f"there is no dataset {repository} at {endpoint}, or it is private",
            hint="check its name; a private one needs HF_TOKEN",
        ) from None
    except (HfHubHTTPError, OSError, _transport_error()) as error:
        raise FetchError(f"{endpoint} does not list {repository}: {error}", hint="try again later") from None


def _transport_error() -> type[Exception]:
    """The error of huggingface_hub's HTTP client."""
    from httpx import HTTPError

    return HTTPError


def _headers() -> dict[str, str]:
    from huggingface_hub import get_token

    token = get_token()
    return {"Authorization": f"Bearer {token}"} if token else {}


def _chosen(repository: str, split: str | None, splits: Mapping[str, Any]) -> str:
    fitting = [name for name in splits if split in (None, name, name.rpartition("/")[2])]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(splits) or "none"
    if not fitting:
        raise UsageError(f"{repository} has no split {split or ''}".rstrip(), hint=f"its splits are {names}")
    raise UsageError(
        f"{repository} has several splits: {', '.join(fitting)}", hint=f"write hf:{repository}:{fitting[0]}"
    )
