"""Standard input, kept as a file."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO

from verdict_cli.errors import OutputError


def spool(stream: IO[bytes], directory: Path) -> Path:
    """The path of ``input.jsonl`` in ``directory``, a copy of the JSON lines in ``stream``.

    A dataset is read twice, by `scan` and by the run, which a pipe does not allow.
    """
    path = directory / "input.jsonl"
    part = path.with_name("input.jsonl.part")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise OutputError(
            f"{path}: standard input cannot be kept: {error.strerror or error}",
            hint="free some space, or choose another --out",
        ) from error
    return path
