import math
import sqlite3
import stat
import sys

import pytest
from msgspec.structs import replace

from verdict_cli.errors import OutputError
from verdict_cli.llm.middleware import cache_store
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.messages import Alternative, Reply, Usage
from verdict_cli.storage.database.schema import database_files

REPLY = Reply(
    "é4",
    "stop",
    ((Alternative("4", -0.1), Alternative("5", -math.inf)),),
    Usage(3, 1),
    0.25,
    "judge-1",
    1.5,
    sent='{"temperature":0.7}',
)


def test_a_reply_comes_back_as_it_was_before_and_after_it_is_on_the_disk(tmp_path):
    path = tmp_path / "new" / "replies.sqlite3"
    store = CacheStore.open(path)
    store.put(b"k", "m", REPLY)
    assert store.get(b"k") == REPLY
    assert store.get(b"other") is None
    store.close()
    store = CacheStore.open(path)
    assert store.get(b"k") == REPLY
    assert store.contents().models == {"m": 1}
    store.close()


def test_what_is_dropped_disappears_at_once_and_for_good(tmp_path):
    path = tmp_path / "replies.sqlite3"
    store = CacheStore.open(path)
    store.put(b"k", "m", REPLY)
    store.close()
    store = CacheStore.open(path)
    store.remove(b"k")
    assert store.get(b"k") is None
    store.close()
    store = CacheStore.open(path)
    assert store.get(b"k") is None
    store.close()


def test_two_runs_share_one_store(tmp_path):
    path = tmp_path / "replies.sqlite3"
    first, second = CacheStore.open(path), CacheStore.open(path)
    for number in range(50):
        (first if number % 2 else second).put(b"%d" % number, "m", REPLY)
    first.close()
    second.close()
    store = CacheStore.open(path)
    assert store.contents().replies == 50
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are POSIX's")
def test_only_the_owner_can_read_it(tmp_path):
    path = tmp_path / "new" / "replies.sqlite3"
    store = CacheStore.open(path)
    store.put(b"k", "m", REPLY)
    store.close()
    store = CacheStore.open(path)
    store.get(b"k")
    for file in database_files(path):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    store.close()


def test_a_file_that_is_no_store_is_reported_with_the_way_out(tmp_path):
    path = tmp_path / "replies.sqlite3"
    path.write_bytes(b"something else" * 100)
    with pytest.raises(OutputError, match="--no-cache"):
        CacheStore.open(path)


def test_a_damaged_entry_is_as_good_as_none(tmp_path):
    path = tmp_path / "replies.sqlite3"
    store = CacheStore.open(path)
    store.put(b"k", "m", REPLY)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE calls SET record = x'93'")
    connection.close()
    store = CacheStore.open(path)
    assert store.get(b"k") is None
    store.close()


def test_a_disk_that_refuses_later_ends_the_keeping_and_says_why(tmp_path):
    path = tmp_path / "replies.sqlite3"
    store = CacheStore.open(path)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE calls")
    connection.close()
    store.put(b"k", "m", REPLY)
    store.close()
    assert "calls" in store.error


def test_the_oldest_replies_are_removed_beyond_the_bound(tmp_path, monkeypatch):
    path = tmp_path / "replies.sqlite3"
    store = CacheStore.open(path)
    for number in range(400):
        store.put(b"%d" % number, "m", replace(REPLY, text=f"{number} " * 200))
    store.close()
    size = path.stat().st_size
    monkeypatch.setattr(cache_store, "MOST_BYTES", size // 2)
    CacheStore.open(path).close()
    store = CacheStore.open(path)
    assert store.get(b"0") is None
    assert store.get(b"399") is not None
    assert 100 < store.contents().replies < 250
    store.close()


def test_below_the_bound_no_reply_is_removed(tmp_path, monkeypatch):
    path = tmp_path / "replies.sqlite3"
    store = CacheStore.open(path)
    store.put(b"k", "m", REPLY)
    store.close()
    monkeypatch.setattr(cache_store, "MOST_BYTES", path.stat().st_size)
    CacheStore.open(path).close()
    store = CacheStore.open(path)
    assert store.get(b"k") == REPLY
    store.close()
