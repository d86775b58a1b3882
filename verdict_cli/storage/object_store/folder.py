"""A folder of an object store: whole objects, and the paths and URLs that name them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from verdict_cli.errors import OutputError, UsageError

_AT_ONCE = 32
"""Objects that are read together."""
_FLAT = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"})
"""Stores without folders: to make one would make the bucket, which a mistyped name should not."""


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """The folder at ``url``, through fsspec's filesystem for it. Names are relative, with slashes.

    Every method raises OutputError when the store cannot be reached, or refuses.
    """

    url: str
    _files: Any
    _root: str

    @classmethod
    def at(cls, url: str) -> RemoteFolder:
        """The place. UsageError where nothing installed knows its kind of URL."""
        scheme = url.partition(":")[0]
        if any(letter in url for letter in "*?["):
            raise UsageError(f"{url} has one of * ? [, which stand for several names", hint="name one folder")
        try:
            import fsspec

            files, root = fsspec.url_to_fs(url, use_listings_cache=False)
        except ImportError as error:
            hint = (
                "in a checkout of verdict: pip install '.[s3]'"
                if scheme in {"s3", "s3a"}
                else "install the package in which fsspec finds it"
            )
            raise UsageError(f"{url} cannot be reached: {error}", hint=hint) from None
        except ValueError as error:
            raise UsageError(
                f"{url} is no place that fsspec knows: {error}", hint="give a path, or a URL such as s3://bucket/folder"
            ) from None
        if (
            getattr(files, "loop", None) is not None
        ):  # what a broken connection leaves behind is told by who waits for it
            files.loop.call_soon_threadsafe(files.loop.set_exception_handler, lambda *_: None)
        return cls(url.rstrip("/"), files, root.rstrip("/"))

    def below(self, name: str) -> RemoteFolder:
        """A folder in it."""
        return replace(self, url=f"{self.url}/{name}", _root=f"{self._root}/{name}")

    def names(self, folder: str = "") -> list[str]:
        """The names of all objects in the folder and below it, sorted."""
        with self._told(folder):
            self._files.invalidate_cache()
            try:
                found = self._files.find(f"{self._root}/{folder}".rstrip("/"))
            except FileNotFoundError:
                return []
            return sorted(str(name)[len(self._root) + 1 :] for name in found)

    def read(self, name: str) -> bytes | None:
        """The object's content, None where there is none."""
        with self._told(name):
            try:
                return bytes(self._files.cat_file(f"{self._root}/{name}"))
            except FileNotFoundError:
                return None

    def read_all(self, names: Iterable[str]) -> Iterator[bytes]:
        """The contents of the objects, in order; of one that is gone meanwhile, nothing."""
        waiting = list(names)
        while waiting:
            some, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            with self._told(some[0]):
                paths = [f"{self._root}/{name}" for name in some]
                found = self._files.cat(paths, on_error="return")
            for path in paths:
                content = found[path]
                with self._told(path):
                    if isinstance(content, FileNotFoundError):
                        continue
                    if isinstance(content, Exception):
                        raise content
                yield bytes(content)

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes] | None]:
        """The object's bytes as a stream, None where there is none."""
        with self._told(name):
            try:
                stream = self._files.open(f"{self._root}/{name}", "rb")
            except FileNotFoundError:
                yield None
                return
            with stream:
                yield stream

    def write(self, name: str, content: bytes) -> None:
        """Puts an object in the place of whatever has the name."""
        with self._told(name):
            self._folder_of(name)
            self._files.pipe_file(f"{self._root}/{name}", content)

    def create(self, name: str, content: bytes) -> bool:
        """Whether the object is now there as the first of its name. A store without conditional writes is asked
        beforehand, which two can do at the same moment."""
        path = f"{self._root}/{name}"
        with self._told(name):
            self._folder_of(name)
            try:
                self._files.pipe_file(path, content, mode="create")
            except FileExistsError:
                return False
            except (NotImplementedError, TypeError, ValueError):
                if self._files.exists(path):
                    return False
                self._files.pipe_file(path, content)
        return True

    def send(self, path: Path, name: str) -> None:
        """Puts the file there as the object."""
        with self._told(name):
            self._folder_of(name)
            self._files.put_file(str(path), f"{self._root}/{name}")

    def fetch(self, name: str, path: Path) -> None:
        """Makes the file of the object."""
        with self._told(name):
            self._files.get_file(f"{self._root}/{name}", str(path))

    def remove(self, names: Iterable[str]) -> None:
        """Removes the objects; those that are not there are passed over."""
        paths = [f"{self._root}/{name}" for name in names]
        with self._told():
            try:
                if paths:
                    self._files.rm(paths)
            except FileNotFoundError:
                for path in filter(self._files.exists, paths):
                    self._files.rm(path)

    def _folder_of(self, name: str) -> None:
        """Makes the folder in which the file is to stand, where there are folders."""
        known = self._files.protocol
        if _FLAT.isdisjoint((known,) if isinstance(known, str) else known):
            self._files.makedirs(f"{self._root}/{name}".rpartition("/")[0], exist_ok=True)

    @contextmanager
    def _told(self, name: str = "") -> Iterator[None]:
        """Turns whatever the filesystem's library raises, which may be anything, into an OutputError with the URL."""
        try:
            yield
        except (OutputError, UsageError):
            raise
        except Exception as error:
            what = f"{self.url}/{name}" if name else self.url
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise OutputError(
                f"{what}: the store refuses, or cannot be reached: {said[0]}",
                hint="check the URL, the keys (for S3: AWS_ACCESS_KEY_ID … or a profile) and the network",
            ) from error


_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")
_CUT = re.compile(r"[a-z][a-z0-9+]+:/")


def is_remote_url(name: str) -> bool:
    """Whether the name is a URL of something other than this machine's files."""
    found = _URL.match(name)
    return found is not None and found[1].lower() != "file"


def was_url(path: Path) -> bool:
    """Whether the path is what becomes of a URL that is taken for one."""
    return _CUT.match(str(path)) is not None


def path_of(name: str) -> str:
    """The path that a ``file:`` URL stands for; any other name as it is."""
    return url2pathname(urlsplit(name).path) if name[:7].lower() == "file://" else name
