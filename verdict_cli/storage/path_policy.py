"""Restrict the files that a pipeline file or a dataset may name to a folder."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class OutsideError(ValueError):
    """A path that leaves the folder (by `..`, a link or as an absolute path), or is a pipe or a device."""


class PathPolicy(Struct, frozen=True):
    """Files must be in ``root`` or below it, after following links; None: no restriction.

    ``given`` are values that the user wrote on the command line, which may name any file. Without ``hidden``, names that
    begin with a dot are refused: a checkout's `.git/config` may hold a token.
    """

    root: Path | None = None
    given: frozenset[str] = frozenset()
    hidden: bool = True

    def path(self, folder: Path, file: str) -> Path:
        """The path of a file that is named relative to ``folder``. Raises OutsideError if it is not allowed."""
        path = folder / file
        if self.root is not None and file not in self.given:
            try:
                inside = path.resolve().is_relative_to(self.root.resolve())
                special = path.exists() and not (path.is_file() or path.is_dir())
            except (
                OSError,
                RuntimeError,
                ValueError,
            ):  # not a valid path: opening it raises the error
                return path
            if not inside:
                raise OutsideError(f"{file!r:.200} is outside {str(self.root)!r}")
            parts = path.resolve().relative_to(self.root.resolve()).parts
            if not self.hidden and any(part.startswith(".") for part in parts):
                raise OutsideError(f"{file!r:.200} is a hidden file")
            if special:
                raise OutsideError(f"{file!r:.200} is a pipe or a device, not a file")
        return path

    def for_folder(self, root: Path) -> PathPolicy:
        """The same policy for another folder."""
        return PathPolicy(None if self.root is None else root, self.given, self.hidden)


ANYWHERE = PathPolicy()
ALLOW_OUTSIDE = "copy it into that folder, or give --allow-outside"
