"""A dataset that a URL names, kept as files."""

from __future__ import annotations

import glob
from fnmatch import fnmatchcase
from pathlib import Path

from verdict_cli.data.files import ENDINGS, format_of
from verdict_cli.errors import DataError, Problem
from verdict_cli.places import Place


def fetched(url: str, directory: Path) -> tuple[Path, ...]:
    """Copies in ``directory`` of the file that the URL names, of those in a folder (not below it), or of those whose name
    fits its last part, a pattern; what was copied before is not copied again.

    Sorted by name. Raises DataError when nothing is there, OutputError when the store cannot be reached.
    """
    above, _, last = url.rstrip("/").rpartition("/")
    if glob.has_magic(last):
        place, pattern = Place.at(above), last
        found = place.names()
    else:
        place, pattern = Place.at(url), "*"
        found = place.names()
        if not found or found == [""]:
            place = Place.at(above)
            found = place.names(last)
            pattern = last
    names = [
        name for name in found if "/" not in name and fnmatchcase(name, pattern) and format_of(Path(name))
    ]
    if not names:
        endings = f"known endings: {', '.join(ENDINGS)}"
        raise DataError(Problem("file-not-found", "there is no dataset at this URL", endings, url))
    copies = []
    for name in names:
        copy = directory / "fetched" / name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            part = copy.with_name(f"{name}.part")
            place.fetch(name, part)
            part.replace(copy)
        copies.append(copy)
    return tuple(copies)
