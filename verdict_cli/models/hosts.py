"""The hosts that a key, or another value of the environment, may be sent to.

A pipeline file may come from a stranger, who must not be able to have the user's keys sent to a host of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping

from verdict_cli.models.address import Address, AddressError, parse_address

ALLOWED = "VERDICT_ALLOW_HOSTS"
"""The environment variable that lists further hosts, separated by commas."""

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


def may_have_key(url: str, variable: str, environ: Mapping[str, str]) -> bool:
    """Whether the key in the variable may be sent to the address: to its provider, or to the user's own hosts."""
    there = _parsed(url)
    if there is None:
        return False
    if _is_own(there, environ):
        return True
    host = there.host
    return there.scheme == "https" and host in _PROVIDERS and OWNERS.get(variable, host) == host


def is_own(url: str, environ: Mapping[str, str]) -> bool:
    """Whether the user chose the address's host: it is this machine, or a variable of the environment names it."""
    there = _parsed(url)
    return there is not None and _is_own(there, environ)


def _is_own(there: Address, environ: Mapping[str, str]) -> bool:
    return there.host in LOOPBACK or any(there.host in _named(value) for value in environ.values())


def _named(value: str) -> tuple[str, ...]:
    """The hosts that a variable's value names: an address, a host with or without a port, or several with commas."""
    return tuple(filter(None, map(host_of, value.replace(" ", "").split(","))))


def host_of(text: str) -> str:
    """The host of an address, or of a host with or without a port; "" where the text is neither."""
    there = _parsed(text if "://" in text else f"http://{text}")
    return "" if there is None else there.host


def _parsed(text: str) -> Address | None:
    try:
        return parse_address(text)
    except AddressError:
        return None
