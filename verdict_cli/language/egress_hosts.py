"""The hosts to which a key, or another value of the environment, may be sent.

A pipeline file may come from a stranger, and must not send the user's keys to a host of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping

from verdict_cli.language.model_address import Address, AddressError, parse_address
from verdict_cli.registry import UNTRUSTED

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
