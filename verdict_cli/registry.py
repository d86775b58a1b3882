"""Doors: the registries by which features, and packages of other people, add parts to the core; and parts of one feature.

A registry has the parts of the core. To those it adds what the folders of `verdict_cli/features` bring, and what installed
packages offer under the registry's entry-point group. All three are named the same way and imported on first use. The core
imports no feature: a folder that is deleted takes its parts with it, and nothing else.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Generic, NamedTuple, TypeVar, cast

from verdict_cli.errors import UsageError

Part = TypeVar("Part")

UNTRUSTED = "VERDICT_ONLY_HOSTS"
"""Set in the process of a stranger's pipeline, which may use no installed package."""

GROUP_PREFIX = "verdict_cli."


class PartSpec(NamedTuple):
    """A part that is not imported yet, and what must be known of it before it is."""

    path: str
    """`MODULE.OBJECT` within the package of the registry, or of the feature."""
    help: str = ""
    """One line for `verdict --help`."""
    heading: str = ""
    """The group of commands in `verdict --help`."""
    before: str = ""
    """The part that it comes before, in a registry whose order matters; by default it comes last."""


class Registry(Generic[Part]):
    """Parts by the names under which a file or a command line uses them.

    ``built_in`` has for each name the part itself, or where it is: `MODULE.OBJECT` within ``package``, or an `PartSpec`. Features
    bring parts under the last word of ``group``, installed packages as entry points of ``group``; ``check(name, loaded)`` turns
    what these hold into a part, or raises TypeError with what it should be.

    `registry[name]` and `get` cover all three. Iteration, `in` and `len` cover the names of the core only: they look at no
    folder and no package, so a file without other parts starts as fast as if there were none.
    """

    def __init__(
        self,
        package: str,
        built_in: Mapping[str, str | PartSpec | Part],
        group: str = "",
        check: Callable[[str, Any], Part] = lambda _, loaded: loaded,
    ) -> None:
        self.group = group
        self.plugins: dict[str, Part] = {}
        """The parts of features and installed packages that were looked up so far."""
        self._package = package
        self._built_in = built_in
        self._check = check

    def __getitem__(self, name: str) -> Part:
        """The part of that name.

        Raises:
            KeyError: neither the core, a feature nor an installed package has it.
            UsageError: an installed package offers it, but it cannot be imported or is something else.
        """
        if name not in self._built_in:
            return self._plugin(name)
        part = self._built_in[name]
        if isinstance(part, PartSpec):
            part = part.path
        return cast("Part", _load(self._package, part) if isinstance(part, str) else part)

    def get(self, name: object) -> Part | None:
        """The part of that name, None where there is none."""
        try:
            return self[name] if isinstance(name, str) else None
        except KeyError:
            return None

    def __contains__(self, name: object) -> bool:
        return name in self._built_in

    def __iter__(self) -> Iterator[str]:
        return iter(self._built_in)

    def __len__(self) -> int:
        return len(self._built_in)

    def plugin(self, name: object) -> Part | None:
        """The part of that name of a feature or an installed package, None for a name of the core."""
        return None if name in self._built_in else self.get(name)

    def shipped(self) -> tuple[str, ...]:
        """The names of the core, in their order, and those of features, which stand where their entry says."""
        names = list(self._built_in)
        for name, (_, entry) in self._brought().items():
            names.insert(names.index(entry.before) if entry.before in names else len(names), name)
        return tuple(names)

    def names(self) -> tuple[str, ...]:
        """All names: those of installed packages come last. Imports none of the parts."""
        names = self.shipped()
        return (*names, *sorted({point.name for point in self._entry_points()} - set(names)))

    def entry(self, name: str) -> PartSpec:
        """What is known of a part without importing it; an empty entry for a part of an installed package."""
        part = self._built_in.get(name) or self._brought().get(name, ("", PartSpec("")))[1]
        return part if isinstance(part, PartSpec) else PartSpec(str(part))

    def title(self, name: str) -> str:
        """The name of a built-in class itself. Several names can mean one class."""
        return str(self._built_in[name]).rpartition(".")[2]

    def choices(self, tag: Callable[[str], str]) -> dict[str, Callable[[], Part]]:
        """A function that looks up each part of the core, by the tag of its name."""
        return {tag(name): partial(self.__getitem__, name) for name in self._built_in}

    def _brought(self) -> Mapping[str, tuple[str, PartSpec]]:
        """The parts of features by name: the feature's package, and where the part is in it."""
        return feature_parts().get(self.group.removeprefix(GROUP_PREFIX), {}) if self.group else {}

    def _entry_points(self, **filters: Any) -> Any:
        if not self.group or not is_extended():
            return ()
        return _installed(tuple(sys.path)).select(group=self.group, **filters)

    def _plugin(self, name: str) -> Part:
        if name not in self.plugins:
            if (brought := self._brought().get(name)) is not None:
                self.plugins[name] = self._check(name, _load(brought[0], brought[1].path))
                return self.plugins[name]
            for point in self._entry_points(name=name):
                try:
                    loaded = point.load()
                except Exception as error:
                    raise UsageError(
                        f"{name!r} of the installed package at {point.value} cannot be imported: {error}",
                        hint="fix or remove that package",
                    ) from None
                try:
                    self.plugins[name] = self._check(name, loaded)
                except TypeError as error:
                    raise UsageError(
                        f"the entry point {point.value} {error}", hint="report it to its author"
                    ) from None
        return self.plugins[name]


def _load(package: str, path: str) -> Any:
    module, _, attribute = path.rpartition(".")
    return getattr(import_module(f"{package}.{module}" if module else package), attribute)


def feature_part(feature: str, path: str) -> Any:
    """`MODULE.OBJECT` of a feature, imported now; None where its folder was deleted."""
    package = f"verdict_cli.features.{feature}"
    try:
        is_installed = find_spec(package) is not None
    except ModuleNotFoundError:  # there is no feature at all
        is_installed = False
    return _load(package, path) if is_installed else None


@lru_cache(maxsize=1)
def feature_parts() -> Mapping[str, Mapping[str, tuple[str, PartSpec]]]:
    """What the folders of `verdict_cli/features` bring: by door, then by name, the feature's package and the entry.

    A feature says it in `PARTS` of its `__init__`, which imports nothing heavy: `PARTS = {"commands": {"audit": PartSpec(…)}}`.
    """
    brought: dict[str, dict[str, tuple[str, PartSpec]]] = defaultdict(dict)
    try:
        features = import_module("verdict_cli.features")
    except ModuleNotFoundError:
        return {}
    for folder in iter_modules(features.__path__):
        package = f"{features.__name__}.{folder.name}"
        for door, parts in getattr(import_module(package), "PARTS", {}).items():
            brought[door].update({name: (package, entry) for name, entry in parts.items()})
    return brought


def is_extended() -> bool:
    """Whether installed packages may bring parts."""
    return UNTRUSTED not in os.environ and _is_extended(tuple(sys.path))


@lru_cache(maxsize=4)
def _is_extended(paths: tuple[str, ...]) -> bool:
    """Whether an installed package may have parts for verdict: to look takes a tenth of the time of `importlib.metadata`."""
    header = f"[{GROUP_PREFIX}".encode()
    for path in map(Path, paths):
        if not path.is_dir():
            if path.exists():  # an archive: only `importlib.metadata` looks into it
                return True
            continue
        with suppress(OSError):
            for points in path.glob("*-info/entry_points.txt"):
                if header in points.read_bytes():
                    return True
    return False


@lru_cache(maxsize=4)
def _installed(paths: tuple[str, ...]) -> Any:
    """The entry points of installed packages. A scan takes 10 ms, and a file may have many unknown names."""
    from importlib.metadata import entry_points  # only for a name that is not built in

    return entry_points()
