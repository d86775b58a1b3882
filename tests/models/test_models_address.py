"""Whatever is let through as an address, every client takes the same host from it."""

from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyreqwest.http import Url
from yarl import URL

from verdict_cli.language.model_address import AddressError, parse_address

HOSTS = (
    "127.0.0.1",
    "127.0.0.2",
    "localhost",
    "evil.example",
    "[::1]",
    "[::2]",
    "0",
    "0x7f.1",
    "xn--e",
    "bücher.de",
)
PIECES = ("http", "https", "HTTP", ":", "/", "//", "\\", "@", "[", "]", "?", "#", "%", ".", ":80", ":8954", ":99999",
          "%2e", "%40", "%5c", "\t", "\n", "\r", "\0", " ", "\x7f", "\xa0", "\u3002", "\uff0f", "\u200b", "ß", "１",
          "user:pass@", "v1", "evil", "a_b", "-", "*", ",", ";", "'", '"', "|", "^", "<", "{", *HOSTS)  # fmt: skip
SPELLINGS = st.lists(st.sampled_from(PIECES) | st.text(max_size=2), max_size=12).map("".join)
ADDRESSES = st.builds(
    "{}{}{}".format,
    st.sampled_from(("http://", "https://", "http:/", "http:\\\\")),
    SPELLINGS,
    SPELLINGS,
)


@settings(max_examples=200)
@given(ADDRESSES | SPELLINGS)
@example("http://127.0.0.2:8980\\[::1]/good/v1")
@example("http://127.0.0.2:8954\\@127.0.0.1/key/v1")
@example("http://x@127.0.0.2:8954\\@127.0.0.1")
@example("http://127.0.0.2:8954\\.[::1]")
@example("http://[::1].evil/v1")
def test_the_host_is_the_one_that_the_client_calls(text):
    try:
        there = parse_address(text)
    except AddressError:
        return
    called = Url(text)
    assert (there.scheme, there.host, there.port) == (called.scheme, called.host_str, called.port)
    assert called.username == "" and not called.password


@settings(max_examples=200)
@given(ADDRESSES)
def test_other_parsers_take_the_same_host(text):
    try:
        there = parse_address(text)
    except AddressError:
        return
    bare = there.host.strip("[]")
    assert urlsplit(text).hostname == bare
    assert httpx.URL(text).raw_host.decode() == bare
    assert URL(text).raw_host == bare


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("http://127.0.0.1:8000/v1", "127.0.0.1", 8000),
        ("https://API.OpenAI.com/v1", "api.openai.com", None),
        ("http://[::1]:8000/v1?a=b", "[::1]", 8000),
        ("HTTP://localhost", "localhost", None),
        ("http://gpu_1.cluster.local:80/v1", "gpu_1.cluster.local", None),
    ],
)
def test_plain_addresses_are_read(text, host, port):
    there = parse_address(text)
    assert (there.host, there.port) == (host, port)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("http://127.0.0.2:8980\\[::1]/v1", "a backslash at character 22"),
        ("http://h/v1\n", "the control character U+000A at character 12"),
        ("http://h/v 1", "a space at character 11"),
        ("http://me:pw-1@h/v1", "a user or a password"),
        ("http://h@127.0.0.1/v1", "a user or a password"),
        ("http://[::1].evil/v1", "characters after the bracket at character 12"),
        ("http://[::1]:999999/v1", "characters after the bracket at character 12"),
        ("http://127.0.0.2[::1]/v1", "a bracket at character 17"),
        ("http://[::1/v1", "a bracket at character 8"),
        ("http://h:8o/v1", "a port that is not a number"),
        ("http://h:99999/v1", "not an http address"),
        ("http:///v1", "no host"),
        ("http:h/v1", "not an http address"),
        ("localhost:8000/v1", "not an http address"),
        ("ftp://h/v1", "not an http address"),
        ("", "not an http address"),
        ("http://0x7f.1/v1", "write 127.0.0.1"),
        ("http://0:8954", "write 0.0.0.0"),
        ("http://bücher.de", "write xn--bcher-kva.de"),
        ("http://[0:0::1]/v1", "write [::1]"),
        ("http://%6cocalhost/v1", "write localhost"),
    ],
)
def test_an_odd_address_is_refused_with_its_fault(text, fault):
    with pytest.raises(AddressError) as caught:
        parse_address(text)
    assert fault in str(caught.value) and "pw-1" not in str(caught.value)
