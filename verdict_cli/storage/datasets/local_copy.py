"""Keep a dataset that comes from a URL or standard input as a local file."""

from __future__ import annotations

import glob
import shutil
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from verdict_cli.errors import DataError, OutputError, Problem
from verdict_cli.storage.datasets.files import ENDINGS, format_of
from verdict_cli.storage.paths import replacing
from verdict_cli.storage.stores import open_folder


def local_copy_of_url(url: str, directory: Path) -> tuple[Path, ...]:
    """Copy what the URL names to ``directory``: a file, the files of a folder (not below it), or those whose names match a
    pattern in the URL's last part. Files that were copied before are not copied again.

    Sorted by name. Raises DataError if no file matches, OutputError if the store cannot be reached.
    """
    parent, _, last = url.rstrip("/").rpartition("/")
    if glob.has_magic(last):
        folder, pattern = open_folder(parent), last
        available = folder.names()
    else:
        folder, pattern = open_folder(url), "*"
        available = folder.names()
        if not available or available == [""]:
            folder = open_folder(parent)
            available = folder.names(last)
            pattern = last
    names = [
        name
        for name in available
        if "/" not in name and fnmatchcase(name, pattern) and format_of(Path(name))
    ]
    if not names:
        endings = f"known endings: {', '.join(ENDINGS)}"
        raise DataError(Problem("file-not-found", "there is no dataset at this URL", endings, url))
    copies = []
    for name in names:
        copy = directory / "fetched" / name
        if not copy.exists():
            with replacing(copy) as part:
                folder.get(name, part)
        copies.append(copy)
    return tuple(copies)


def copy_stdin(stream: IO[bytes], directory: Path) -> Path:
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
            f"{path}: standard input cannot be saved: {error.strerror or error}",
            hint="free some space, or choose another --out",
        ) from error
    return path
