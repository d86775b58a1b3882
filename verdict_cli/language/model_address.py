"""Parse the address of a model's server with the parser of the client that calls it.

Two parsers may read two hosts from one text, and a key for the first would go to the second. So the client's own parser
decides the host, and an address that other parsers (litellm's clients, the standard library) could read differently is
refused.
"""

from __future__ import annotations

import re
import sys
import threading
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module

FORM = "write http://HOST:PORT/v1 or https://HOST/v1"
"""The form of an address, as a hint."""

_URL = re.compile(r"(https?)://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]+)(?::([0-9]{1,5}))?")
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\]")
"""Characters that the URL standard removes or replaces, and that other parsers keep."""
_SHOWN = frozenset({"api-version", "alt"})


class AddressError(ValueError):
    """An address that is refused. The message quotes no part of it, because it may contain a password."""


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of an address. An IPv6 host is in brackets."""

    scheme: str
    host: str
    port: int | None
    path: str
    query: str = ""

    @property
    def netloc(self) -> str:
        """The host, with its port if it has one."""
        return self.host if self.port is None else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole address."""
        return f"{self.scheme}://{self.netloc}{self.path}{f'?{self.query}' if self.query else ''}"

    @property
    def display(self) -> str:
        """The address for messages: a value in its query may be a secret, except for a version."""
        names = (part.partition("=") for part in self.query.split("&") if part)
        shown = "&".join(f"{name}={value if name in _SHOWN else '…'}" for name, _, value in names)
        return replace(self, query=shown).url


@lru_cache(maxsize=1024)
def parse_address(text: str) -> Address:
    """The address in the text. Raises AddressError for anything but an http or https address of a plain host."""
    unsafe = _UNSAFE.search(text)
    if unsafe:
        raise AddressError(f"has {_character_name(unsafe[0])} at character {unsafe.start() + 1}")
    match = _URL.fullmatch(text)
    if match is None:
        raise AddressError("is not an http address")
    authority = match[2]
    if "@" in authority:
        raise AddressError("has a user or a password before the host; keys are named with api_key_env")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise AddressError(_authority_error(authority, match.start(2)))
    load_http_client()
    from pyreqwest.http import Url

    try:
        parsed = Url(text)
    except ValueError as error:
        raise AddressError(f"is not an http address: {error}") from None
    host = parsed.host_str or ""
    if host != parts[1].lower():
        raise AddressError(f"has a host that programs read differently; write {host}")
    return Address(parsed.scheme, host, parsed.port, parsed.path, parsed.query_string or "")


def load_http_client() -> None:
    """Import pyreqwest, which takes 20 ms, so only for models with an address.

    Version 0.15.1 crashes the process in the threads that use it after the one that imported it has ended. So it is
    imported by the main thread, or by a thread that does not end.
    """
    if "pyreqwest.http" in sys.modules or threading.current_thread() is threading.main_thread():
        return
    loaded = threading.Event()

    def stay() -> None:
        try:
            import_module("pyreqwest.http")
        finally:
            loaded.set()
        threading.Event().wait()

    threading.Thread(target=stay, name="verdict-http", daemon=True).start()
    loaded.wait()


def _character_name(character: str) -> str:
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
