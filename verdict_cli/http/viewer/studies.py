"""The histories of `verdict watch` below the viewer's directory, and their pages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.http.viewer.runs import DEEPEST, MOST_RUNS

_PAGE, _DATA, _HISTORY = "watch.html", "watch.json", "history.jsonl"
_MOST_BYTES = 20_000_000


def watch_folders(root: Path) -> dict[str, Path]:
    """The folders with a history by their relative name, never through links."""
    found: dict[str, Path] = {}
    for folder, subfolders, files in os.walk(root):
        current = Path(folder)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if _HISTORY in files and _PAGE in files:
            found[root.name if current == root else current.relative_to(root).as_posix()] = current
        # The runs of the looks are below a history, but no other history is.
        if (
            {"run.json", _HISTORY} & {*files}
            or len(current.relative_to(root).parts) >= DEEPEST
            or len(found) >= MOST_RUNS
        ):
            subfolders.clear()
    return found


def watch_page(root: Path, name: str) -> Path | None:
    """The page of the history of that name; None where there is none. The name is compared, never used as a path."""
    folder = watch_folders(root).get(name)
    page = None if folder is None else folder / _PAGE
    return None if page is None or page.is_symlink() or not page.is_file() else page


def watch_states(root: Path) -> list[dict[str, Any]]:
    """Each history's name, number of looks, and whether the judge has drifted (null where the file does not say)."""
    states = []
    for name, folder in watch_folders(root).items():
        file = folder / _DATA
        looks, drifted = None, None
        try:
            if file.stat().st_size <= _MOST_BYTES:
                content = orjson.loads(file.read_bytes())
                looks, drifted = int(content["looks"]), bool(content["drifted"])
        except (OSError, ValueError, LookupError, TypeError):
            pass
        states.append({"history": name, "looks": looks, "drifted": drifted})
    return states
