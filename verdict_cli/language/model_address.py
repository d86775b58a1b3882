"""The address of a model's server, and the hosts to which a key, or another value of the environment, may be sent.

A pipeline file may come from a stranger, and must not send the user's keys to a host of theirs. Two parsers may read two
hosts from one text, and a key for the first would go to the second. So the parser of the client that calls the server
decides the host, and an address that other parsers (litellm's clients, the standard library) could read differently is
refused.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterable, Mapping, MutableMapping
from functools import lru_cache
from importlib import import_module

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.regex import regex
from verdict_cli.registry import UNTRUSTED

FORM = "write http://HOST:PORT/v1 or https://HOST/v1"
"""The form of an address, as a hint."""

_URL = regex(r"(https?)://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_AUTHORITY = regex(r"(\[[^\[\]]*\]|[^\[\]:]+)(?::([0-9]{1,5}))?")
_UNSAFE = regex(r"[\x00-\x20\x7f-\xa0\\]")
"""Characters that the URL standard removes or replaces, and that other parsers keep."""
_SHOWN = frozenset({"api-version", "alt"})


class AddressError(ValueError):
    """An address that is refused. The message quotes no part of it, because it may contain a password."""


class Address(Struct, frozen=True):
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
        query = "&".join(f"{name}={value if name in _SHOWN else '…'}" for name, _, value in names)
        return replace(self, query=query).url


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
        raise AddressError(
            "has a user or a password before the host; keys are named with api_key_env"
        )
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
    host = re.match(r"\[[^\[\]]+\]", authority)
    if host:
        return f"has characters after the bracket at character {start + host.end()} that are not a port"
    bracket = re.search(r"[\[\]]", authority)
    if bracket:
        return (
            f"has a bracket at character {start + bracket.start() + 1}, where it encloses no host"
        )
    if not authority or authority.startswith(":"):
        return "has no host"
    return f"has a port that is not a number of at most five digits, at character {start + authority.find(':') + 1}"


ALLOWED = "VERDICT_ALLOW_HOSTS"
"""The environment variable that lists allowed hosts, separated by commas."""

ONLY = UNTRUSTED
"""The environment variable that `--untrusted` sets: the hosts with their ports that may be called at all, separated by commas."""

_ADDRESS_SUFFIXES = ("_BASE_URL", "_API_BASE")
"""Endings of the names of variables that hold a server's address. Others do not count, because a CI sets some variables to
texts of the author of a change, such as a branch's name."""

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

OWNERS = {
    "ANTHROPIC_API_KEY": "api.anthropic.com",
    "CLOUDFLARE_API_KEY": "api.cloudflare.com",
    "CEREBRAS_API_KEY": "api.cerebras.ai",
    "COHERE_API_KEY": "api.cohere.com",
    "DEEPINFRA_API_KEY": "api.deepinfra.com",
    "DEEPSEEK_API_KEY": "api.deepseek.com",
    "FIREWORKS_API_KEY": "api.fireworks.ai",
    "GEMINI_API_KEY": "generativelanguage.googleapis.com",
    "GOOGLE_API_KEY": "generativelanguage.googleapis.com",
    "GROQ_API_KEY": "api.groq.com",
    "HF_TOKEN": "router.huggingface.co",
    "MISTRAL_API_KEY": "api.mistral.ai",
    "NVIDIA_NIM_API_KEY": "integrate.api.nvidia.com",
    "OPENAI_API_KEY": "api.openai.com",
    "OPENROUTER_API_KEY": "openrouter.ai",
    "PERPLEXITYAI_API_KEY": "api.perplexity.ai",
    "PARALLEL_AI_API_KEY": "api.parallel.ai",
    "TYPESAFE_API_KEY": "api.typesafe.ai",
    "TOGETHERAI_API_KEY": "api.together.xyz",
    "XAI_API_KEY": "api.x.ai",
}
"""The variable of each provider's key, and the provider's host."""
_PROVIDERS = frozenset(OWNERS.values())
_OTHER_VARIABLES = {
    "fireworks_ai": "FIREWORKS_API_KEY",
    "huggingface": "HF_TOKEN",
    "perplexity": "PERPLEXITYAI_API_KEY",
    "together_ai": "TOGETHERAI_API_KEY",
}


def key_variable(provider: str) -> str:
    """The variable of a provider's key, by the provider's name in litellm."""
    return _OTHER_VARIABLES.get(provider) or f"{provider.upper()}_API_KEY"


def may_have_key(url: str, variable: str, environ: Mapping[str, str]) -> bool:
    """Whether the key in the variable may be sent to the address: of its provider, or of a host of the user's own."""
    address = _parsed(url)
    if address is None:
        return False
    if _is_user_address(address, environ):
        return True
    host = address.host
    return address.scheme == "https" and host in _PROVIDERS and OWNERS.get(variable, host) == host


def may_call(url: str, environ: Mapping[str, str]) -> bool:
    """Whether the address may be called at all: any may, unless `--untrusted` says which."""
    if ONLY not in environ:
        return True
    try:
        host, port = host_and_port(url)
    except ValueError:
        return False
    return f"{host}:{port}" in environ[ONLY].split(",")


def host_and_port(text: str) -> tuple[str, int]:
    """The host of an address, or of a host with or without a port, and the port that is called there. Raises ValueError."""
    text = text.strip()
    address = parse_address(text if "://" in text else f"https://{text}")
    return address.host, address.port or (443 if address.scheme == "https" else 80)


def is_provider_host(url: str) -> bool:
    """Whether the address's host is a known provider's."""
    address = _parsed(url)
    return address is not None and address.host in _PROVIDERS


def is_user_host(url: str, environ: Mapping[str, str]) -> bool:
    """Whether the address's host is this machine, or one that the user listed."""
    address = _parsed(url)
    return address is not None and _is_user_address(address, environ)


def allow(hosts: Iterable[str], environ: MutableMapping[str, str]) -> None:
    """Add hosts to those that the user listed. Raises ValueError for a text that is not a host."""
    names = [part for text in hosts for part in text.split(",")]
    for part in names:
        if not host_of(part):
            raise ValueError(f"{part!r:.80} is not a host")
    environ[ALLOWED] = ",".join(filter(None, (environ.get(ALLOWED), *names)))


def _is_user_address(address: Address, environ: Mapping[str, str]) -> bool:
    return address.host in LOOPBACK or address.host in _user_hosts(environ)


def _user_hosts(environ: Mapping[str, str]) -> set[str]:
    """The hosts that the user listed, by name or by an address."""
    texts = environ.get(ALLOWED, "").split(",")
    texts += [value for name, value in environ.items() if name.endswith(_ADDRESS_SUFFIXES)]
    return {host for text in texts if (host := host_of(text))}


def host_of(text: str) -> str:
    """The host in an address, or in a host with or without a port; "" for any other text."""
    text = text.strip()
    address = _parsed(text if "://" in text else f"http://{text}")
    return "" if address is None else address.host


def _parsed(text: str) -> Address | None:
    try:
        return parse_address(text)
    except AddressError:
        return None
