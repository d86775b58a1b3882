"""The line of a call gives back the call."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.messages import Alternative, Call, Message, Reply, Request, Row, Usage
from verdict_cli.model import Model
from verdict_cli.storage.journal.entry import JournalEntry, decode_entry, encode_entry, keys_of

texts = st.text(st.characters(codec=None), max_size=20)
numbers = st.floats(allow_nan=False)
counts = st.integers(0, 10**9)
replies = st.builds(
    Reply,
    text=texts,
    finish_reason=texts,
    logprobs=st.none()
    | st.lists(st.lists(st.builds(Alternative, texts, numbers), max_size=3).map(tuple), max_size=3).map(tuple),
    usage=st.builds(Usage, counts, counts),
    cost_usd=st.none() | st.floats(0, 1e6),
    model=texts,
    latency_s=st.floats(0, 1e6),
    recalled=st.booleans(),
)
entries = st.builds(
    JournalEntry,
    row=texts,
    node=texts,
    call=counts,
    attempt=counts,
    reply=st.none() | replies,
    failure=texts,
    error=texts,
    retryable=st.booleans(),
    latency_s=st.floats(0, 1e6),
    fingerprint=texts,
)


@settings(deadline=None)
@given(entries)
def test_an_entry_comes_back_as_it_was(entry: JournalEntry) -> None:
    line = encode_entry(entry)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_entry(line) == entry
    assert keys_of(line) == (entry.key,)


def test_no_flipped_bit_of_a_line_changes_the_entry() -> None:
    entry = JournalEntry("c0ffee", "judge", 0, 1, Reply('{"score": 3}', usage=Usage(10, 5), cost_usd=0.25))
    line = encode_entry(entry)
    for bit in range(8 * len(line.rstrip())):
        damaged = bytearray(line)
        damaged[bit // 8] ^= 1 << bit % 8
        for read in (decode_entry, keys_of):
            with pytest.raises(ValueError):
                read(bytes(damaged))


def test_a_line_without_a_checksum_is_still_read() -> None:
    entry = JournalEntry("c0ffee", "judge", 0, 1, Reply("3", cost_usd=0.25))
    old = encode_entry(entry)[:-19] + b"}\n"
    assert b"crc" not in old
    assert decode_entry(old) == entry
    assert keys_of(old) == (entry.key,)


def test_infinite_logprobs_stay_infinite() -> None:
    entry = JournalEntry("0", "judge", 0, 0, Reply("a", logprobs=((Alternative("a", -math.inf),),)))
    assert decode_entry(encode_entry(entry)) == entry


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]\n", b"1\n", b"null\n", b"{}\n", b'{"row":1}\n', b"\x00" * 20 + b"\n", b"\xff\n", b'"\\udfff"\n'],
)
def test_other_bytes_are_no_entry(line: bytes) -> None:
    for read in (decode_entry, keys_of):
        with pytest.raises(ValueError):
            read(line)


def test_an_entry_is_named_by_its_request() -> None:
    request = Request(
        Row(7, "x", {}, "c0ffee.1"), "judge[1]", Model(name="m"), (Message("user", "q"),), call=1, attempt=2
    )
    call = Call(request, None, failure="timeout", error="60 s are over", latency_s=60.0)
    entry = JournalEntry.of(call, retryable=True)
    assert entry.key == ("c0ffee.1", "judge[1]", "", 1, 2, "")
    assert entry == JournalEntry("c0ffee.1", "judge[1]", 1, 2, None, "timeout", "60 s are over", True, 60.0)
