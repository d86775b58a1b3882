"""Which models speak the OpenAI chat-completions protocol, which are litellm's, and what hosts they are called at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from verdict_cli.language.egress_hosts import OWNERS, key_variable
from verdict_cli.language.model_address import AddressError, parse_address
from verdict_cli.model import Model

OPENAI_HOST = "api.openai.com"


@dataclass(frozen=True, slots=True)
class Family:
    """The names ``PREFIX/NAME``: environment variables for the base URL and the key, and the base URL without either."""

    base_variables: tuple[str, ...]
    key_variable: str
    default_base: str = ""


_OPENAI = Family(("OPENAI_BASE_URL", "OPENAI_API_BASE"), "OPENAI_API_KEY", f"https://{OPENAI_HOST}/v1")
OLLAMA = Family((), "OLLAMA_API_KEY")
_FAMILIES = {
    "openai": _OPENAI,
    "hosted_vllm": Family(("HOSTED_VLLM_API_BASE",), "HOSTED_VLLM_API_KEY"),
    "lm_studio": Family(("LM_STUDIO_API_BASE",), "LM_STUDIO_API_KEY"),
    "llamafile": Family(("LLAMAFILE_API_BASE",), "LLAMAFILE_API_KEY", "http://127.0.0.1:8080/v1"),
    "litellm_proxy": Family(("LITELLM_PROXY_API_BASE",), "LITELLM_PROXY_API_KEY"),
    "ollama": OLLAMA,
    "ollama_chat": OLLAMA,
}
_OPENAI_NAME = re.compile(r"(gpt-|o[134](-|$)|chatgpt-)(?!.*-(codex|deep-research|instruct|pro))")
"""OpenAI's chat models. litellm serves those that only the completions or the responses protocol has."""
_LITELLM_ARGUMENTS = (
    "allowed_openai_params api_version aws_region_name base_url client custom_llm_provider drop_params fallbacks "
    "headers mock_response num_retries organization timeout vertex_location vertex_project"
)
_ONLY_LITELLM = frozenset(_LITELLM_ARGUMENTS.split())
_PROVIDERS = (("anthropic", "claude-"), ("openai", "gpt-|o[134](-|$)|chatgpt-"), ("vertex_ai", "gemini-"))
"""Whose the best known names without a prefix are, as litellm has it."""


def is_local(model_name: str) -> bool:
    """True for the built-in models and recordings: they are free, and asked again after a crash."""
    return model_name.startswith(("baseline/", "replay/"))


def family(model: Model) -> Family | None:
    """The model's family, None where another protocol or an argument that only litellm knows is asked for."""
    if not _ONLY_LITELLM.isdisjoint(model.params):
        return None
    prefix, slash, _ = model.name.partition("/")
    if not slash:
        return _OPENAI if model.api_base or _OPENAI_NAME.match(model.name) else None
    found = _FAMILIES.get(prefix)
    return found if found is not OLLAMA or model.api_base else None


def base_of(model: Model, found: Family, environ: Mapping[str, str]) -> str:
    """The model's base URL without a slash at its end; "" where none is known."""
    bases = (model.api_base, *(environ.get(name) for name in found.base_variables), found.default_base)
    return next((base for base in bases if base), "").rstrip("/")


def host_called(model: Model, environ: Mapping[str, str]) -> str | None:
    """The host that the model's calls go to, with its port where the address has one; None for a model without an address.

    litellm alone knows the hosts of some providers: of these, the provider's name.
    """
    found = family(model)
    if found is not None:
        base = base_of(model, found, environ)
    else:
        provider = provider_of(model.name)
        names = (f"{provider.upper()}_API_BASE", f"{provider.upper()}_BASE_URL")
        base = address_of(model) or next(filter(None, map(environ.get, names)), "")
        if not base:
            return OWNERS.get(key_variable(provider)) or f"{provider} (litellm's address)"
    try:
        return parse_address(base).netloc
    except AddressError:
        return None


def provider_of(name: str) -> str:
    """litellm's name of the provider of a model; the model's own where only litellm knows that."""
    prefix, slash, _ = name.partition("/")
    known = (provider for provider, form in _PROVIDERS if re.match(form, name))
    return prefix if slash else next(known, name)


def address_of(model: Model) -> str | None:
    """The address that a pipeline file gives litellm: `api_base`, or a part of the name as some providers have it."""
    found = re.search(r"https?:.*", model.name, re.IGNORECASE | re.DOTALL)
    return model.api_base or (found and found[0])
