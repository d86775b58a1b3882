"""The hosts to which a key, or another value of the environment, may be sent.

A pipeline file may come from a stranger, who must not be able to have the user's keys sent to a host of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping

from verdict_cli.language.model_address import Address, AddressError, parse_address

ALLOWED = "VERDICT_ALLOW_HOSTS"
"""The environment variable with additional hosts, separated by commas."""

_BASES = ("_BASE_URL", "_API_BASE")
"""Suffixes of variables whose value is a server's address. Others do not count: a CI sets some of them to text by the
author of a change, such as a branch name."""

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

OWNERS = {
    "ANTHROPIC_API_KEY": "api.anthropic.com",
    "CEREBRAS_API_KEY": "api.cerebras.ai",
    "COHERE_API_KEY": "api.cohere.com",
    "DEEPINFRA_API_KEY": "api.deepinfra.com",
    "DEEPSEEK_API_KEY": "api.deepseek.com",
    "FIREWORKS_API_KEY": "api.fireworks.ai",
    "GEMINI_API_KEY": "generativelanguage.googleapis.com",
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
"""The variables of providers' keys, and the host that each belongs to."""
_PROVIDERS = frozenset(OWNERS.values())
_OTHER_VARIABLES = {
    "fireworks_ai": "FIREWORKS_API_KEY",
    "huggingface": "HF_TOKEN",
    "perplexity": "PERPLEXITYAI_API_KEY",
    "together_ai": "TOGETHERAI_API_KEY",
}


def key_variable(provider: str) -> str:
    """The variable of the key of a provider, by the provider's name in litellm."""
    return _OTHER_VARIABLES.get(provider) or f"{provider.upper()}_API_KEY"


def may_have_key(url: str, variable: str, environ: Mapping[str, str]) -> bool:
    """Whether the key in the variable may be sent to the address: to its provider, or to the user's own hosts."""
    address = _parsed(url)
    if address is None:
        return False
    if _is_own(address, environ):
        return True
    host = address.host
    return address.scheme == "https" and host in _PROVIDERS and OWNERS.get(variable, host) == host


def is_user_host(url: str, environ: Mapping[str, str]) -> bool:
    """Whether the address's host is this machine, or one that the user listed."""
    address = _parsed(url)
    return address is not None and _is_own(address, environ)


def allow(hosts: Iterable[str], environ: MutableMapping[str, str]) -> None:
    """Add hosts to those that the user listed. ValueError for a text without a host."""
    named = [part for text in hosts for part in text.split(",")]
    for part in named:
        if not host_of(part):
            raise ValueError(f"{part!r:.80} is not a host")
    environ[ALLOWED] = ",".join(filter(None, (environ.get(ALLOWED), *named)))


def _is_own(address: Address, environ: Mapping[str, str]) -> bool:
    return address.host in LOOPBACK or address.host in _listed(environ)


def _listed(environ: Mapping[str, str]) -> set[str]:
    """The hosts that the user listed, by name or by an address."""
    named = environ.get(ALLOWED, "").split(",")
    named += [value for name, value in environ.items() if name.endswith(_BASES)]
    return {host for name in named if (host := host_of(name))}


def host_of(text: str) -> str:
    """The host of an address, or of a host with or without a port; "" where the text is neither."""
    text = text.strip()
    address = _parsed(text if "://" in text else f"http://{text}")
    return "" if address is None else address.host


def _parsed(text: str) -> Address | None:
    try:
        return parse_address(text)
    except AddressError:
        return None
