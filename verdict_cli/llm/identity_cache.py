"""Values that are made once for an object, found by its identity: most calls are of the same few models and schemas."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_MAX_ENTRIES = 1000


class IdentityCache(Generic[T]):
    """Values by the identity of the objects that they are made from, such as the schema that all requests of a unit share.

    The objects are kept with their value: no other object may get their ids.
    """

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[T, tuple[object, ...]]] = {}

    def get(
        self,
        objects: tuple[object, ...],
        key_part: Hashable,
        make: Callable[..., T],
        *arguments: Any,
    ) -> T:
        """The value of the objects and ``key_part``, which is compared as usual; ``make(*arguments)`` gives it at the first call."""
        key = (*map(id, objects), key_part)
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= _MAX_ENTRIES:
                self._entries.clear()
            entry = self._entries[key] = make(*arguments), objects
        return entry[0]
