"""Some rows of a split on the Hugging Face hub: only the parts of its Parquet files that hold them are transferred."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from verdict_cli.errors import FetchError
from verdict_cli.features.benchmarks.download import ATTEMPTS, SILENCE_S, DownloadTarget, open_response
from verdict_cli.features.benchmarks.hub import HubSplit, Shard, split_of
from verdict_cli.llm.backoff import delay_s
from verdict_cli.llm.http_client import HttpClients
from verdict_cli.report.study_files import write_rows

BLOCK = 1 << 16
"""Bytes of the smallest request."""


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
        place = file.schema_arrow.get_field_index(column)
        for group in range(file.num_row_groups):
            known = file.metadata.row_group(group).column(place).statistics
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
