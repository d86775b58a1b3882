"""The index finds what was put."""

from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.storage.journal.digest_index import DigestIndex, digest_bytes


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5) | st.integers(0, 2**64 - 1), st.integers(0, 2**40))))
def test_the_last_offset_of_a_digest_is_found(puts: list[tuple[int, int]]) -> None:
    index = DigestIndex()
    for one, offset in puts:
        index.put(one, offset)
    expected = dict(puts)
    assert len(index) == len(expected)
    assert all(index.get(one) == offset for one, offset in expected.items())
    assert index.get(2**63 + 12345) == expected.get(2**63 + 12345)


def test_it_grows_without_losing_anything() -> None:
    index = DigestIndex()
    keys = [digest_bytes((str(row), "judge", "", 0, 0)) for row in range(5000)]
    for offset, key in enumerate(keys):
        index.put(key, offset)
    assert [index.get(key) for key in keys] == list(range(5000))


@settings(deadline=None)
@given(st.lists(st.integers(0, 5) | st.integers(0, 2**64 - 1)), st.integers(0, 3000))
def test_each_digest_is_counted_by_itself(counted: list[int], others: int) -> None:
    index = DigestIndex("I")
    for other in range(others):
        assert index.count(2**62 + other) == 0
    assert [index.count(one) for one in counted] == [
        counted[:place].count(one) + (2**62 <= one < 2**62 + others) for place, one in enumerate(counted)
    ]


def test_an_entry_takes_at_most_48_bytes() -> None:
    index = DigestIndex()
    for row in range(20_000):
        index.put(digest_bytes((str(row), "judge", "", 0, 0)), row)
    size = index._digests.itemsize * len(index._digests) + index._numbers.itemsize * len(index._numbers)
    assert size <= 48 * len(index)


def test_every_part_of_a_key_counts() -> None:
    keys = [
        ("0", "a", "f", 0, 0),
        ("1", "a", "f", 0, 0),
        ("0", "b", "f", 0, 0),
        ("0", "a", "g", 0, 0),
        ("0", "a", "f", 1, 0),
        ("0", "a", "f", 0, 1),
        ("0", "\ud800", "f", 0, 0),
    ]
    assert len({digest_bytes(key) for key in keys}) == len(keys)
