"""Stores by the schemes of their URLs."""

from __future__ import annotations

from verdict_cli.errors import UsageError
from verdict_cli.language.registry import Registry
from verdict_cli.run.hooks import is_absent_feature
from verdict_cli.storage.stores import Store, StoreFolder

ANY = "*"
"""The store for the schemes that no other takes."""
STORES: Registry[type[Store]] = Registry(
    "verdict_cli.features", {ANY: "object_store.run_store.ObjectStore"}, group="verdict_cli.stores"
)


def store_of(url: str) -> Store:
    """The store of a URL. UsageError where none is installed that takes it."""
    try:
        store = STORES.get(url.partition(":")[0].lower()) or STORES[ANY]
    except ModuleNotFoundError as error:
        if not is_absent_feature(error):
            raise
        raise UsageError(
            f"{url} is in an object store, and this verdict is without its feature `object_store`",
            hint="give a path, or install verdict with all of its features",
        ) from None
    return store()


def open_folder(url: str) -> StoreFolder:
    """The folder at a URL. UsageError where it cannot be used."""
    return store_of(url).folder(url)
