"""Models by name: built-in ones, those whose protocol the program speaks, and litellm's, with their hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.language.model_address import OWNERS, AddressError, key_variable, parse_address
from verdict_cli.model import Model
from verdict_cli.regex import regex

OPENAI_HOST = "api.openai.com"
BASELINE_PREFIX = "baseline/"
REPLAY_PREFIX = "replay/"
_LOCAL_PREFIXES = (BASELINE_PREFIX, REPLAY_PREFIX)


class DecisionLimits(Struct, frozen=True):
    """What one request to a decision model may have. ``tokens`` are those of the state with all questions; None:
    unknown. ``images`` is their number; None: their form is unknown or takes a header."""

    questions: int = 64
    fewest_options: int = 2
    options: int = 255
    levels: int = 10
    tokens: int | None = None
    images: int | None = 128
    takes_image_urls: bool = True


class Family(Struct, frozen=True):
    """How models named ``PREFIX/NAME`` are reached: the variables of the base URL and the key, the default base URL, and the
    protocol that the server speaks. ``other_key`` is a second variable of the key; ``is_hosted``: its servers always want one.

    ``route`` is the path that a decision model's server adds to its base URL, with the model's name for ``{name}`` and the account's
    for ``{account}``; ``key_header`` the header of its key where that is not ``Authorization``.
    """

    base_variables: tuple[str, ...]
    key_variable: str
    default_base: str = ""
    protocol: str = "chat"
    other_key: str = ""
    is_hosted: bool = False
    route: str = ""
    key_header: str = ""
    limits: DecisionLimits = DecisionLimits()


def _provider(
    name: str, default_base: str = "", protocol: str = "chat", other_key: str = ""
) -> Family:
    variables = (f"{name.upper()}_API_BASE", f"{name.upper()}_BASE_URL")
    return Family(variables, key_variable(name), default_base, protocol, other_key, is_hosted=True)


_OPENAI = Family(
    ("OPENAI_BASE_URL", "OPENAI_API_BASE"), "OPENAI_API_KEY", f"https://{OPENAI_HOST}/v1"
)
_RESPONSES = replace(_OPENAI, protocol="responses")
_ANTHROPIC = _provider("anthropic", "https://api.anthropic.com", "anthropic")
AZURE = replace(_provider("azure"), key_header="api-key")
OLLAMA = Family((), "OLLAMA_API_KEY")
_FAMILIES = {
    "openai": _OPENAI,
    "hosted_vllm": Family(("HOSTED_VLLM_API_BASE",), "HOSTED_VLLM_API_KEY"),
    "lm_studio": Family(("LM_STUDIO_API_BASE",), "LM_STUDIO_API_KEY"),
    "llamafile": Family(("LLAMAFILE_API_BASE",), "LLAMAFILE_API_KEY", "http://127.0.0.1:8080/v1"),
    "litellm_proxy": Family(("LITELLM_PROXY_API_BASE",), "LITELLM_PROXY_API_KEY"),
    "ollama": OLLAMA,
    "ollama_chat": OLLAMA,
    "anthropic": _ANTHROPIC,
    "gemini": _provider(
        "gemini", "https://generativelanguage.googleapis.com", "gemini", "GOOGLE_API_KEY"
    ),
    "azure": AZURE,
    "cerebras": _provider("cerebras", "https://api.cerebras.ai/v1"),
    "deepinfra": _provider("deepinfra", "https://api.deepinfra.com/v1/openai"),
    "deepseek": _provider("deepseek", "https://api.deepseek.com/v1"),
    "fireworks_ai": _provider("fireworks_ai", "https://api.fireworks.ai/inference/v1"),
    "groq": _provider("groq", "https://api.groq.com/openai/v1"),
    "mistral": _provider("mistral", "https://api.mistral.ai/v1"),
    "nvidia_nim": _provider("nvidia_nim", "https://integrate.api.nvidia.com/v1"),
    "openrouter": _provider("openrouter", "https://openrouter.ai/api/v1"),
    "perplexity": _provider("perplexity", "https://api.perplexity.ai"),
    "together_ai": _provider("together_ai", "https://api.together.xyz/v1"),
    "xai": _provider("xai", "https://api.x.ai/v1"),
}
_OPENAI_LIMITS = DecisionLimits(questions=400, tokens=922_000)
_DECISIONS = replace(_OPENAI, protocol="decisions", route="/v1/decisions", limits=_OPENAI_LIMITS)
_SYSTEM_ONE = Family(
    ("SYSTEMONE_API_BASE",),
    "SYSTEMONE_API_KEY",
    protocol="systemone",
    route="/v1/systemone",
    limits=DecisionLimits(fewest_options=1),
)


def _system_one(
    name: str, default_base: str, limits: DecisionLimits, route: str = "/v1/systemone", **keys: Any
) -> Family:
    return replace(_provider(name, default_base, "systemone"), route=route, limits=limits, **keys)


_CLEF = DecisionLimits(questions=64, tokens=65_536, images=4, takes_image_urls=False)
_JEV = DecisionLimits(questions=255, fewest_options=1, tokens=65_536, images=None)
_NIMBLE = DecisionLimits(questions=64, levels=255, tokens=8_192, images=0)
_PPLX = DecisionLimits(questions=128, fewest_options=1, tokens=262_144)
_RUNE = DecisionLimits(fewest_options=1, options=208, tokens=262_144, images=0)
_SMALL = DecisionLimits(tokens=32_768, images=0)
_FORMS: dict[str, Family] = {
    "decisions/": _DECISIONS,
    "systemone/": _SYSTEM_ONE,
    "typesafe/": _system_one("typesafe", "https://api.typesafe.ai", _JEV),
    "perplexity/pplx-decider": _system_one(
        "perplexity",
        "https://api.perplexity.ai",
        _PPLX,
        "/v1/decisions",
        other_key="PERPLEXITY_API_KEY",
    ),
    "cloudflare/(@cf/cloudflare/)?clef": _system_one(
        "cloudflare",
        "https://api.cloudflare.com/client/v4",
        _CLEF,
        "/accounts/{account}/ai/run/@cf/cloudflare/{name}",
    ),
    "fireworks_ai/.*rune$": _system_one(
        "fireworks_ai",
        "https://api.fireworks.ai/inference/v1",
        _RUNE,
        "/systemone",
        other_key="FIREWORKS_AI_API_KEY",
    ),
    "openrouter/(typesafe/jev|perplexity/pplx-decider|cloudflare/clef|upstage/solar-decide)": _system_one(
        "openrouter",
        "https://openrouter.ai/api",
        DecisionLimits(questions=200, images=0),
        "/alpha/decisions",
    ),
    "azure_ai/Microsoft-Decision": _system_one(
        "azure_ai", "", _SMALL, "/providers/microsoft/v1/systemone"
    ),
    "databricks/.*(openjev|decide)": _system_one(
        "databricks",
        "",
        DecisionLimits(images=0),
        "/{name}/invocations",
        other_key="DATABRICKS_TOKEN",
    ),
    "parallel_ai/decision": _system_one(
        "parallel_ai",
        "https://api.parallel.ai",
        DecisionLimits(questions=100, tokens=32_768, images=0),
        "/v1/decisions",
        key_header="x-api-key",
    ),
    "bespoke/": _system_one("bespoke", "", _NIMBLE),
    "nace/": _system_one("nace", "", _SMALL),
}
_DECISION_FAMILIES = tuple((regex(form), entry) for form, entry in _FORMS.items())
"""Decision models by the beginning of their names. Images of another server than these are sent as it says they are."""
_DECISION_ROUTES = {"/decisions": _DECISIONS, "/systemone": _SYSTEM_ONE}
"""Ends of an `api_base` that say what answers there, whatever the model's name."""
_OPENAI_NAME = regex(r"(gpt-(?!.*-instruct)|o[134](-|$)|chatgpt-|codex-)")
"""OpenAI's models. litellm serves those that need the completions protocol."""
_RESPONSES_NAME = regex(r"codex-|(gpt-|o[134]-)(.*-)?(codex|deep-research|pro)(-|$)")
"""OpenAI's models that only the Responses API serves."""
_LITELLM_ARGUMENTS = (
    "allowed_openai_params api_version aws_region_name base_url client custom_llm_provider drop_params fallbacks "
    "headers mock_response num_retries organization timeout vertex_location vertex_project"
)
_ONLY_LITELLM = frozenset(_LITELLM_ARGUMENTS.split())
_PROVIDERS = (
    ("anthropic", "claude-"),
    ("openai", "gpt-|o[134](-|$)|chatgpt-"),
    ("vertex_ai", "gemini-"),
)
"""The providers of well-known names without a prefix, by litellm's rules."""


@lru_cache(maxsize=1024)
def is_local(model_name: str) -> bool:
    """Whether it is a built-in model or a recording: free, never cached or journalled, and called again on resume."""
    return model_name.startswith(_LOCAL_PREFIXES)


def family(model: Model) -> Family | None:
    """The model's family; None for a model of another protocol, or with an argument that only litellm knows."""
    decision = _decision_family(model.name, model.api_base)
    if decision is not None:
        return decision
    prefix, slash, name = model.name.partition("/")
    of_prefix = _FAMILIES.get(prefix) if slash else _bare_name_family(model)
    if of_prefix is None or (of_prefix is OLLAMA and not model.api_base):
        return None
    if not _ONLY_LITELLM.isdisjoint(
        set(model.params) - ({"api_version"} if of_prefix is AZURE else set())
    ):
        return None
    if (
        of_prefix is _OPENAI
        and _RESPONSES_NAME.match(name or prefix)
        and _is_openais(model.api_base)
    ):
        return _RESPONSES
    return of_prefix


def is_decision_model(model: Model) -> bool:
    """Whether it answers typed questions with probabilities, and writes no text."""
    return _decision_family(model.name, model.api_base) is not None


@lru_cache(maxsize=1024)
def _decision_family(name: str, api_base: str | None) -> Family | None:
    family = next((entry for form, entry in _DECISION_FAMILIES if form.match(name)), None)
    if family is not None or not api_base:
        return family
    path = api_base.partition("?")[0].rstrip("/")
    route = next((route for route in _DECISION_ROUTES if path.endswith(route)), None)
    if route is None:
        return None
    if name.startswith("azure/"):
        return replace(
            _DECISION_ROUTES[route], key_variable=AZURE.key_variable, key_header=AZURE.key_header
        )
    return _DECISION_ROUTES[route]


def _bare_name_family(model: Model) -> Family | None:
    if model.name.startswith("claude-"):
        return _ANTHROPIC
    return _OPENAI if model.api_base or _OPENAI_NAME.match(model.name) else None


def _is_openais(api_base: str | None) -> bool:
    """Whether the address is OpenAI's or not set. Another server's model of a similar name speaks chat completions."""
    return (
        not api_base
        or api_base.partition("?")[0].rstrip("/").endswith("/responses")
        or f"//{OPENAI_HOST}" in api_base
    )


def base_url(model: Model, entry: Family, environ: Mapping[str, str]) -> str:
    """The model's base URL without a trailing slash; "" where none is known."""
    bases = (
        model.api_base,
        *(environ.get(name) for name in entry.base_variables),
        entry.default_base,
    )
    return next((base.strip() for base in bases if base and base.strip()), "").rstrip("/")


def host_called(model: Model, environ: Mapping[str, str]) -> str | None:
    """The host that the model's calls go to, with its port if the address has one; None for a model without an address.

    For a provider whose host only litellm knows, the provider's name.
    """
    openai_family = family(model)
    if openai_family is not None:
        base = base_url(model, openai_family, environ)
    else:
        provider = provider_of(model.name)
        names = (f"{provider.upper()}_API_BASE", f"{provider.upper()}_BASE_URL")
        base = litellm_address(model) or next(filter(None, map(environ.get, names)), "")
        if not base:
            return OWNERS.get(key_variable(provider)) or f"{provider} (litellm's address)"
    try:
        return parse_address(base).netloc
    except AddressError:
        return None


def provider_of(name: str) -> str:
    """litellm's name of a model's provider; the model's own name where only litellm knows the provider."""
    prefix, slash, _ = name.partition("/")
    providers = (provider for provider, form in _PROVIDERS if re.match(form, name))
    return prefix if slash else next(providers, name)


def litellm_address(model: Model) -> str | None:
    """The address that a pipeline file gives to litellm: `api_base`, or part of the name, as some providers have it."""
    address = re.search(r"https?:.*", model.name, re.IGNORECASE | re.DOTALL)
    return model.api_base or (address and address[0])
