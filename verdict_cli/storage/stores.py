"""Stores, by the schemes of their URLs, and what the core needs of one: the folder at a URL, and a run's directory in it with its copy on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from verdict_cli.errors import UsageError
from verdict_cli.registry import feature_part


class StoreFolder(Protocol):
    """A folder of whole objects, whose names are relative, with slashes. Every method raises OutputError if the store refuses
    or cannot be reached."""

    @property
    def url(self) -> str: ...

    def names(self, folder: str = "") -> list[str]:
        """The names of all objects in a folder and below it, sorted."""

    def read(self, name: str) -> bytes | None:
        """The object's content, None if it does not exist."""

    def get(self, name: str, path: Path) -> None:
        """Download the object to the file."""


class RunStore(Protocol):
    """A run's directory in a store, which is authoritative, and its copy on this machine."""

    @property
    def folder(self) -> StoreFolder: ...

    @property
    def copy(self) -> Path:
        """The path of the copy."""

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes out, with the store's files in the copy. JournalError while another process writes."""

    async def confirm_lease(self) -> None:
        """Return once this process certainly has the directory. JournalError where another has taken it over."""

    def put(self, name: str) -> None:
        """Send a file of the copy to the store. OutputError, or JournalError where another process has taken it over."""

    def get(self, names: Iterable[str]) -> None:
        """Fetch files that the copy lacks."""

    def remove(self, names: Iterable[str]) -> None:
        """Remove files from the store. Raises as `put`."""


def open_folder(url: str) -> StoreFolder:
    """The folder at a URL. UsageError where it cannot be used."""
    folder: StoreFolder = _part("RemoteFolder", url).at(url)
    return folder


def open_run(url: str) -> RunStore:
    """The directory of a run at a URL. UsageError where it cannot be used."""
    run: RunStore = _part("RemoteRunDirectory", url)(open_folder(url))
    return run


def _part(name: str, url: str) -> Any:
    part = feature_part("object_store", f"run_store.{name}")
    if part is None:
        raise UsageError(
            f"{url} is in an object store, and this verdict is without its feature `object_store`",
            hint="give a path, or install verdict with all of its features",
        )
    return part
