"""A folder of an object store: whole objects, and the paths and URLs that name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from verdict_cli.errors import OutputError, UsageError

_BATCH = 32
"""Objects that are read concurrently."""
_FLAT = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"})
"""Stores without folders. Creating one there creates the bucket, which a mistyped name must not."""


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """The folder at ``url``, through fsspec's filesystem for it. Names are relative, with slashes.

    Every method raises OutputError if the store refuses or cannot be reached.
    """

    url: str
    _files: Any
    _root: str

    @classmethod
    def at(cls, url: str) -> RemoteFolder:
        """The folder at a URL. Raises UsageError if no installed package supports the URL."""
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
                f"{url} is not a URL that fsspec supports: {error}",
                hint="give a path, or a URL such as s3://bucket/folder",
            ) from None
        # Errors of broken connections reach their callers; the loop would print them a second time.
        if getattr(files, "loop", None) is not None:
            files.loop.call_soon_threadsafe(files.loop.set_exception_handler, lambda *_: None)
        return cls(url.rstrip("/"), files, root.rstrip("/"))

    def below(self, name: str) -> RemoteFolder:
        return replace(self, url=f"{self.url}/{name}", _root=f"{self._root}/{name}")

    def names(self, folder: str = "") -> list[str]:
        """The names of all objects in the folder and below it, sorted."""
        with self._translated_errors(folder):
            self._files.invalidate_cache()
            try:
                listed = self._files.find(f"{self._root}/{folder}".rstrip("/"))
            except FileNotFoundError:
                return []
            return sorted(str(name)[len(self._root) + 1 :] for name in listed)

    def read(self, name: str) -> bytes | None:
        """The object's content, None if it does not exist."""
        with self._translated_errors(name):
            try:
                return bytes(self._files.cat_file(f"{self._root}/{name}"))
            except FileNotFoundError:
                return None

    def read_all(self, names: Iterable[str]) -> Iterator[bytes]:
        """The contents of the objects, in order, without those that have been removed."""
        remaining = list(names)
        while remaining:
            some, remaining = remaining[:_BATCH], remaining[_BATCH:]
            with self._translated_errors(some[0]):
                paths = [f"{self._root}/{name}" for name in some]
                contents = self._files.cat(paths, on_error="return")
            for path in paths:
                content = contents[path]
                with self._translated_errors(path):
                    if isinstance(content, FileNotFoundError):
                        continue
                    if isinstance(content, Exception):
                        raise content
                yield bytes(content)

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes] | None]:
        """The object's bytes as a stream, None if it does not exist."""
        with self._translated_errors(name):
            try:
                stream = self._files.open(f"{self._root}/{name}", "rb")
            except FileNotFoundError:
                yield None
                return
            with stream:
                yield stream

    def write(self, name: str, content: bytes) -> None:
        """Write an object, replacing any of that name."""
        with self._translated_errors(name):
            self._create_parent(name)
            self._files.pipe_file(f"{self._root}/{name}", content)

    def create(self, name: str, content: bytes) -> bool:
        """Create the object; False if it exists. In a store without conditional writes two processes can race here."""
        path = f"{self._root}/{name}"
        with self._translated_errors(name):
            self._create_parent(name)
            try:
                self._files.pipe_file(path, content, mode="create")
            except FileExistsError:
                return False
            except (NotImplementedError, TypeError, ValueError):
                if self._files.exists(path):
                    return False
                self._files.pipe_file(path, content)
        return True

    def put(self, path: Path, name: str) -> None:
        """Upload the file as the object."""
        with self._translated_errors(name):
            self._create_parent(name)
            self._files.put_file(str(path), f"{self._root}/{name}")

    def get(self, name: str, path: Path) -> None:
        """Download the object to the file."""
        with self._translated_errors(name):
            self._files.get_file(f"{self._root}/{name}", str(path))

    def get_all(self, names: Sequence[str], folder: Path) -> None:
        """Download the objects, several at a time, to files of their names below a folder."""
        for parent in {(folder / name).parent for name in names}:
            parent.mkdir(parents=True, exist_ok=True)
        with self._translated_errors():
            if names:
                self._files.get([f"{self._root}/{name}" for name in names], [str(folder / name) for name in names])

    def remove(self, names: Iterable[str]) -> None:
        """Remove the objects that exist."""
        paths = [f"{self._root}/{name}" for name in names]
        with self._translated_errors():
            try:
                if paths:
                    self._files.rm(paths)
            except FileNotFoundError:
                for path in filter(self._files.exists, paths):
                    self._files.rm(path)

    def remove_folder(self, name: str) -> None:
        """Remove the objects in a folder, and the folder in stores that have folders."""
        path = f"{self._root}/{name}"
        with self._translated_errors(name):
            self._files.invalidate_cache()
            if self._files.isdir(path):
                self._files.rm(path, recursive=True)

    def _create_parent(self, name: str) -> None:
        """Create the object's folder, in stores that have folders."""
        protocols = self._files.protocol
        if _FLAT.isdisjoint((protocols,) if isinstance(protocols, str) else protocols):
            self._files.makedirs(f"{self._root}/{name}".rpartition("/")[0], exist_ok=True)

    @contextmanager
    def _translated_errors(self, name: str = "") -> Iterator[None]:
        """Turn errors of the filesystem's library, which may be of any class, into an OutputError with the URL."""
        try:
            yield
        except (OutputError, UsageError):
            raise
        except Exception as error:
            url = f"{self.url}/{name}" if name else self.url
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise OutputError(
                f"{url}: the store refuses, or cannot be reached: {lines[0]}",
                hint="check the URL, the keys (for S3: AWS_ACCESS_KEY_ID … or a profile) and the network",
            ) from error
