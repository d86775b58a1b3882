"""Folders of stores, here of the memory that fsspec offers as one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.errors import OutputError, UsageError
from verdict_cli.features.object_store.run_store import RemoteFolder
from verdict_cli.storage.paths import is_remote_url, path_of

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def place() -> Iterator[RemoteFolder]:
    yield RemoteFolder.at("memory://places/run/")
    fsspec.filesystem("memory").store.clear()


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("s3://bucket/run", True),
        ("memory://a", True),
        ("file:///a/b", False),
        ("runs/a", False),
        ("s3:/bucket", False),
        ("-", False),
    ],
)
def test_urls_and_paths_are_distinguished(name, url):
    assert is_remote_url(name) == url


def test_a_file_url_means_its_path():
    assert path_of("file:///some/a%20b") == str(Path("/some/a b"))
    assert path_of("runs/a") == "runs/a"


def test_objects_are_found_by_their_names_in_the_folder(place):
    for name in ("b", "a/2", "a/1", "ab/1"):
        place.write(name, name.encode())
    assert place.url == "memory://places/run"
    assert place.names() == ["a/1", "a/2", "ab/1", "b"]
    assert place.names("a") == ["a/1", "a/2"]
    assert place.names("none") == []
    assert (place.read("b"), place.read("none")) == (b"b", None)
    place.remove(["b", "gone", "a/1"])
    assert place.names() == ["a/2", "ab/1"]
    place.remove([])


def test_only_the_first_creates_an_object(place):
    assert place.create("one", b"first")
    assert not place.create("one", b"second")
    assert place.read("one") == b"first"


def test_a_store_is_tested_for_conditional_writes_beforehand(place, monkeypatch):
    files = type(fsspec.filesystem("memory"))
    whole = files.pipe_file

    def unconditional(
        self: Any, path: str, value: bytes, mode: str = "overwrite", **more: Any
    ) -> None:
        if mode == "create":
            raise NotImplementedError
        whole(self, path, value, **more)

    monkeypatch.setattr(files, "pipe_file", unconditional)
    assert place.create("one", b"first")
    assert not place.create("one", b"second")


def test_whatever_a_store_raises_is_reported_with_the_url(place, monkeypatch):
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such luck\nmore of it")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "pipe_file", broken)
    with pytest.raises(
        OutputError, match=r"memory://places/run/one: the store refuses.*no such luck\n"
    ) as caught:
        place.write("one", b"")
    assert "more of it" not in str(caught.value)


def test_files_go_there_and_come_back(place, tmp_path):
    (tmp_path / "here").write_bytes(b"content")
    place.put(tmp_path / "here", "there/it")
    place.get("there/it", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"content"


@pytest.mark.parametrize("url", ["nowhere://a", "s3://a/[b]", "memory://a/*"])
def test_what_is_no_place_is_refused(url):
    with pytest.raises(UsageError):
        RemoteFolder.at(url)


def test_what_a_broken_connection_leaves_behind_is_no_message(s3, caplog):
    loop = RemoteFolder.at("s3://bucket")._files.loop
    loop.call_soon_threadsafe(
        loop.call_exception_handler, {"message": "Task exception was never retrieved"}
    )
    assert (
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "after it"), loop).result(10)
        == "after it"
    )
    assert not [record for record in caplog.records if record.name == "asyncio"]
