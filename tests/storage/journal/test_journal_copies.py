"""Rows keep their names wherever they stand."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.messages import Row
from verdict_cli.storage.journal.digest_index import number_duplicates

KEYS = tuple(digit * 32 for digit in "1a7f")


def named(keys: list[str]) -> list[str]:
    return [row.key for row in number_duplicates(Row(place, place, {}, key) for place, key in enumerate(keys))]


def test_copies_are_numbered_from_the_second_on() -> None:
    one, other = KEYS[:2]
    assert named([one, other, one, one, other]) == [one, other, f"{one}.1", f"{one}.2", f"{other}.1"]


@given(st.lists(st.sampled_from(KEYS)), st.randoms())
def test_another_order_of_the_same_rows_has_the_same_names(keys: list[str], draw: object) -> None:
    before = named(keys)
    draw.shuffle(keys)  # type: ignore[attr-defined]
    assert Counter(named(keys)) == Counter(before)
    assert len(set(before)) == len(before)


@given(st.lists(st.sampled_from(KEYS)), st.sampled_from(KEYS), st.integers(0, 100))
def test_one_more_row_adds_one_name(keys: list[str], more: str, at: int) -> None:
    grown = [*keys]
    grown.insert(at, more)
    assert len(set(named(grown)) - set(named(keys))) == 1
