"""Logs of Inspect (`.eval`, and `.json` of `--log-format json`): one row a sample and epoch."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verdict_cli.features.imports.tool_logs import (
    LogRow,
    conversation_or_text,
    known_shape,
    log_row,
    not_in_format,
    required,
)
from verdict_cli.features.imports.tool_logs.json_stream import items_at

LARGEST_SAMPLE = 1 << 30
"""Bytes of a sample, decompressed: a small archive can hold a huge one."""
_ZSTANDARD = 93
_LOCAL_HEADER = 30
_ATTACHMENT = "attachment://"


def inspect_samples(path: Path) -> Iterator[LogRow]:
    """The samples, of a `.eval` archive in the order of its summaries. A log without samples, because its evaluation failed
    at once, has no rows.

    Raises:
        DataError: the file is neither form, is truncated, or a sample has no id or messages.
    """
    if zipfile.is_zipfile(path):
        yield from _archive(path)
        return
    if path.suffix == ".eval":
        raise not_in_format(path, "not an Inspect log: the archive is damaged or truncated", "copy it again")
    (model,) = [item for _, item in items_at(path, "eval")]
    name = required(path, "eval", model, "model", str)
    for index, sample in items_at(path, "samples"):
        with known_shape(path, f"samples[{index}]"):
            yield _row(path, f"samples[{index}]", sample, name)


def _archive(path: Path) -> Iterator[LogRow]:
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        head = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
        if head is None:
            raise not_in_format(path, "not an Inspect log: the archive has no header.json")
        model = required(path, f"{head}: eval", _member(path, archive, head).get("eval"), "model", str)
        for info in archive.infolist():
            if info.filename.startswith("samples/") and info.filename.endswith(".json"):
                sample = _member(path, archive, info.filename)
                with known_shape(path, info.filename):
                    yield _row(path, info.filename, sample, model)


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    try:
        value = json.loads(_content(path, archive, archive.getinfo(name)))
    except (ValueError, RecursionError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise not_in_format(path, f"{name}: not a valid part of an Inspect log: {error!s:.100}") from None
    if not isinstance(value, dict):
        raise not_in_format(path, f"{name} is not an object")
    return value


def _content(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.file_size > LARGEST_SAMPLE:
        raise not_in_format(path, f"{info.filename} is larger than {LARGEST_SAMPLE >> 20} MiB")
    if info.compress_type != _ZSTANDARD:
        return archive.read(info)
    # zipfile reads Zstandard from Python 3.14 on. The data follow the local header, whose names can differ in length.
    import pyarrow

    with path.open("rb") as stream:
        stream.seek(info.header_offset)
        header = stream.read(_LOCAL_HEADER)
        if len(header) < _LOCAL_HEADER:
            raise EOFError("it is cut off")
        name, extra = struct.unpack("<HH", header[26:30])
        stream.seek(name + extra, 1)
        packed = stream.read(info.compress_size)
    try:
        content: bytes = pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), "zstd").read(info.file_size + 1)
    except OSError as error:
        raise EOFError(str(error)) from None
    if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
        raise EOFError("its checksum is wrong")
    return content


def _row(path: Path, place: str, sample: Any, model: str) -> LogRow:
    identity, epoch = required(path, place, sample, "id", (int, str)), sample.get("epoch") or 1
    sample = _with_attachments(sample, sample.get("attachments") or {})
    scores = sample.get("scores") or {}
    messages = sample.get("messages") or []
    asked, text = conversation_or_text(sample.get("input"))
    output = sample.get("output") or {}
    error = sample.get("error") or {}
    return log_row(
        path,
        place,
        identity=identity if epoch == 1 else f"{identity}/{epoch}",
        input=text,
        output=output.get("completion"),
        messages=messages or asked,
        target=sample.get("target"),
        scores={name: each.get("value") if isinstance(each, dict) else each for name, each in scores.items()},
        model=output.get("model") or model,
        metadata=sample.get("metadata"),
        epoch=epoch,
        explanations={name: each.get("explanation") for name, each in scores.items() if isinstance(each, dict)},
        error=error.get("message"),
    )


def _with_attachments(value: Any, attachments: dict[str, str]) -> Any:
    """The value with long texts and images, which the log keeps once, in their places."""
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    if isinstance(value, list):
        return [_with_attachments(item, attachments) for item in value]
    if isinstance(value, dict):
        # Events repeat every message; no row has them.
        return {
            key: _with_attachments(item, attachments)
            for key, item in value.items()
            if key not in ("events", "attachments")
        }
    return value
