"""Stores, by the schemes of their URLs, and what the core needs of one: the folder at a URL, and a run's directory in it with its copy on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from verdict_cli.errors import UsageError
from verdict_cli.registry import feature_part


class StoreFolder(Protocol):
    """A folder of whole objects, whose names are relative, with slashes. Every method raises OutputError if the store refuses
    or cannot be reached."""

    @property
    def url(self) -> str: ...

    def below(self, name: str) -> StoreFolder:
        """A folder in it."""

    def names(self, folder: str = "") -> list[str]:
        """The names of all objects in a folder and below it, sorted."""

    def read(self, name: str) -> bytes | None:
        """The object's content, None if it does not exist."""

    def put(self, path: Path, name: str) -> None:
        """Upload the file as the object."""

    def get(self, name: str, path: Path) -> None:
        """Download the object to the file."""

    def get_all(self, names: Sequence[str], folder: Path) -> None:
        """Download the objects to files of their names below a folder."""

    def remove(self, names: Iterable[str]) -> None:
        """Remove the objects that exist."""


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


class Store(Protocol):
    """A kind of store."""

    def folder(self, url: str) -> StoreFolder:
        """The folder at a URL. UsageError where it cannot be used."""

    def run(self, url: str) -> RunStore:
        """The directory of a run at a URL. UsageError where it cannot be used."""


def store_of(url: str) -> Store:
    """The store of a URL. UsageError where the feature is not installed."""
    store: type[Store] | None = feature_part("object_store", "run_store.ObjectStore")
    if store is None:
        raise UsageError(
            f"{url} is in an object store, and this verdict is without its feature `object_store`",
            hint="give a path, or install verdict with all of its features",
        )
    return store()


def open_folder(url: str) -> StoreFolder:
    """The folder at a URL. UsageError where it cannot be used."""
    return store_of(url).folder(url)
