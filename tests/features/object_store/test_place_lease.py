"""One writer a place: who has it, who takes it over."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic, sleep

import pytest

from verdict_cli.errors import JournalError
from verdict_cli.features.object_store import run_store
from verdict_cli.features.object_store.run_store import Lease, RemoteFolder

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteFolder]:
    monkeypatch.setattr(run_store, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(run_store, "LAPSE_S", 0.4)
    yield RemoteFolder.at("memory://leases/run")
    fsspec.filesystem("memory").store.clear()


def dead(lease: Lease) -> None:
    """The process that had it is gone without a word."""
    lease._released.set()


def taken_over(lease: Lease) -> JournalError:
    end = monotonic() + 10
    while monotonic() < end:
        try:
            lease.check()
        except JournalError as error:
            return error
        sleep(0.01)
    raise AssertionError("the lease was not lost")


def test_a_place_in_use_is_refused_with_its_holder_and_free_when_released(
    place,
):
    lease = Lease.take(place, "one")
    with pytest.raises(
        JournalError, match=r"another run is writing to memory://leases/run \(process \d+ of "
    ):
        Lease.take(place, "two")
    lease.check()
    lease.release()
    assert place.names() == []
    Lease.take(place, "two").release()


def test_an_abandoned_lease_is_taken_over_after_a_while(place):
    dead(Lease.take(place, "one"))
    before = monotonic()
    second = Lease.take(place, "two")
    assert monotonic() - before >= run_store.LAPSE_S
    assert place.names() == [second.name]
    second.release()


def test_who_has_the_same_copy_takes_over_at_once(place, monkeypatch):
    dead(Lease.take(place, "one"))
    monkeypatch.setattr(run_store, "sleep", lambda _: pytest.fail("it waited"))
    Lease.take(place, "one").release()


def test_who_was_taken_for_dead_learns_it_and_leaves_the_others_lease_alone(
    place,
):
    first = Lease.take(place, "one")
    second = Lease.take(place, "one")
    assert "another run has taken over" in str(taken_over(first))
    first.release()
    second.check()
    assert place.names() == [second.name]
    second.release()


def test_of_two_who_take_over_one_has_it(place, monkeypatch):
    dead(Lease.take(place, "one"))
    names = place.names("lease")
    quicker = Lease.take(place, "one")
    monkeypatch.setattr(RemoteFolder, "names", lambda *_: names)
    with pytest.raises(JournalError, match="another run is writing"):
        Lease.take(place, "one")
    monkeypatch.undo()
    dead(quicker)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_lease_that_cannot_be_read_lapses_like_any_other(content, place):
    place.write("lease/00000007", content)
    lease = Lease.take(place, "one")
    assert lease.name == "lease/00000008"
    lease.release()


def stopped(lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the lease was stopped for a while: it renewed nothing, and the clock went on."""
    dead(lease)
    lease._released.clear()
    now = run_store._clock()
    monkeypatch.setattr(run_store, "_clock", lambda: now + 10)


def test_who_was_stopped_and_taken_over_knows_it_before_anything_else(place, monkeypatch):
    first = Lease.take(place, "one")
    assert first.check() == 1 and not first.expired
    stopped(first, monkeypatch)
    second = Lease.take(place, "one")
    assert first.expired
    with pytest.raises(JournalError, match="another run has taken over"):
        first.check()
    first.release()
    assert place.names() == [second.name]
    second.release()


def test_who_was_stopped_and_not_taken_over_has_a_new_token(place, monkeypatch):
    first = Lease.take(place, "one")
    stopped(first, monkeypatch)
    assert first.expired
    assert first.check() == 2 and not first.expired
    assert place.names() == ["lease/00000002"]


def test_of_a_stopped_writer_and_one_that_takes_over_at_that_moment_one_has_it(place, monkeypatch):
    first = Lease.take(place, "one")
    stopped(first, monkeypatch)
    create = RemoteFolder.create

    def second_is_first(self: RemoteFolder, name: str, content: bytes) -> bool:
        create(self, name, b'{"mark": "of the other"}')
        return create(self, name, content)

    monkeypatch.setattr(RemoteFolder, "create", second_is_first)
    with pytest.raises(JournalError, match="another run has taken over"):
        first.check()
    assert place.names() == ["lease/00000002"]
    assert place.read("lease/00000002") == b'{"mark": "of the other"}'
