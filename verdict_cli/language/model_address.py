"""The address of a model's server, read by the parser of the client that calls it.

Two parsers may take two hosts from one text, and a key that is meant for the first goes to the second. So the client's own
parser names the host, and an address that other parsers (litellm's clients, the standard library) could read differently
is rejected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

FORM = "write http://HOST:PORT/v1 or https://HOST/v1"
"""The hint for a wrong address."""

_WRITTEN = re.compile(r"(https?)://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]+)(?::([0-9]{1,5}))?")
_NOT_PLAIN = re.compile(r"[\x00-\x20\x7f-\xa0\\]")
"""Characters that the URL standard removes, or reads as another one, and that other parsers keep."""


class AddressError(ValueError):
    """A rejected address. The message contains no part of it, because it may contain a password."""


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of an address that decide where a call goes. An IPv6 host is in brackets."""

    scheme: str
    host: str
    port: int | None
    path: str

    @property
    def netloc(self) -> str:
        """The host, with its port if it has one."""
        return self.host if self.port is None else f"{self.host}:{self.port}"


@lru_cache(maxsize=1024)
def parse_address(text: str) -> Address:
    """The address in the text. Raises AddressError for all but http and https addresses of a plain host."""
    odd = _NOT_PLAIN.search(text)
    if odd:
        raise AddressError(f"has {_named(odd[0])} at character {odd.start() + 1}")
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise AddressError("is not an http address")
    authority = written[2]
    if "@" in authority:
        raise AddressError("has a user or a password before the host; keys are named with api_key_env")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise AddressError(_authority_error(authority, written.start(2)))
    from pyreqwest.http import Url  # loaded only where an address is given: it takes 20 ms

    try:
        parsed = Url(text)
    except ValueError as fault:
        raise AddressError(f"is not an http address: {fault}") from None
    host = parsed.host_str or ""
    if host != parts[1].lower():
        raise AddressError(f"names its host in a form that programs read differently; write {host}")
    return Address(parsed.scheme, host, parsed.port, parsed.path)


def _named(character: str) -> str:
    if character == "\\":
        return "a backslash"
    return "a space" if character == " " else f"the control character U+{ord(character):04X}"


def _authority_error(authority: str, start: int) -> str:
    """What is wrong with a malformed host and port."""
    bracket = re.search(r"[\[\]]", authority)
    if bracket and not authority.startswith("["):
        return f"has a bracket at character {start + bracket.start() + 1}, inside its host"
    if bracket:
        closed = authority.find("]")
        if closed < 0:
            return f"has a bracket at character {start + 1} that is not closed"
        return f"has characters after the bracket at character {start + closed + 1} that are not a port"
    if not authority or authority.startswith(":"):
        return "has no host"
    return f"has a port that is not a number of at most five digits, at character {start + authority.find(':') + 1}"
