"""The hosts that a key, or another value of the environment, may be sent to.

A pipeline file may come from a stranger, who must not be able to have the user's keys sent to a host of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

ALLOWED = "VERDICT_ALLOW_HOSTS"
"""The environment variable that lists further hosts, separated by commas."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")

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
    host, scheme = host_of(url), _scheme(url)
    if is_own(url, environ):
        return True
    return scheme == "https" and host in _PROVIDERS and OWNERS.get(variable, host) == host


def is_own(url: str, environ: Mapping[str, str]) -> bool:
    """Whether the user chose the address's host: it is this machine, or a variable of the environment names it."""
    host = host_of(url)
    return bool(host) and (host in LOOPBACK or any(host in _named(value) for value in environ.values()))


def _named(value: str) -> tuple[str, ...]:
    """The hosts that a variable's value names: an address, a host with or without a port, or several with commas."""
    return tuple(
        host_of(part if "://" in part else f"//{part}")
        for part in value.lower().replace(" ", "").split(",")
        if part
    )


def host_of(url: str) -> str:
    """The address's host in lower case; "" where it has none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _scheme(url: str) -> str:
    return url.partition(":")[0].lower()
