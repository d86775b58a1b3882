"""Where the files that a pipeline file or a dataset names may stand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class OutsideError(ValueError):
    """A path that leaves the folder by `..`, as an absolute path, or by a link, or to a pipe or a device."""


@dataclass(frozen=True, slots=True)
class PathPolicy:
    """Files may stand in ``root`` and below it, links followed; anywhere where it is None.

    ``given`` are values that the user wrote himself, on the command line: they may name any file.
    """

    root: Path | None = None
    given: frozenset[str] = frozenset()

    def path(self, folder: Path, file: str) -> Path:
        """The path of a file that is named relative to ``folder``. OutsideError where it stands outside."""
        path = folder / file
        if self.root is not None and file not in self.given:
            try:
                inside = path.resolve().is_relative_to(self.root.resolve())
                special = path.exists() and not (path.is_file() or path.is_dir())
            except (OSError, RuntimeError, ValueError):  # no path at all: whoever opens it says so
                return path
            if not inside:
                raise OutsideError(f"{file!r:.200} stands outside {str(self.root)!r}")
            if special:
                raise OutsideError(f"{file!r:.200} is a pipe or a device, not a file")
        return path

    def of(self, root: Path) -> PathPolicy:
        """The fence around another folder; where there is none, none."""
        return PathPolicy(None if self.root is None else root, self.given)


ANYWHERE = PathPolicy()
ALLOW_OUTSIDE = "copy it into that folder, or give --allow-outside"
