"""Which models speak the OpenAI chat-completions protocol, at what address, and with which key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from verdict_cli.errors import Refused
from verdict_cli.models import Model
from verdict_cli.models.address import FORM, Address, AddressError, parse_address
from verdict_cli.models.hosts import ALLOWED, may_have_key
from verdict_cli.providers.keyring import key_in

OPENAI_HOST = "api.openai.com"


@dataclass(frozen=True, slots=True)
class Family:
    """The names ``PREFIX/NAME``: environment variables for the base URL and the key, and the base URL without either."""

    base_variables: tuple[str, ...]
    key_variable: str
    default_base: str = ""


_OPENAI = Family(("OPENAI_BASE_URL", "OPENAI_API_BASE"), "OPENAI_API_KEY", f"https://{OPENAI_HOST}/v1")
_OLLAMA = Family((), "OLLAMA_API_KEY")
_FAMILIES = {
    "openai": _OPENAI,
    "hosted_vllm": Family(("HOSTED_VLLM_API_BASE",), "HOSTED_VLLM_API_KEY"),
    "lm_studio": Family(("LM_STUDIO_API_BASE",), "LM_STUDIO_API_KEY"),
    "llamafile": Family(("LLAMAFILE_API_BASE",), "LLAMAFILE_API_KEY", "http://127.0.0.1:8080/v1"),
    "litellm_proxy": Family(("LITELLM_PROXY_API_BASE",), "LITELLM_PROXY_API_KEY"),
    "ollama": _OLLAMA,
    "ollama_chat": _OLLAMA,
}
_OPENAI_NAME = re.compile(r"(gpt-|o[134](-|$)|chatgpt-)(?!.*-(codex|deep-research|instruct|pro))")
"""OpenAI's chat models. litellm serves those that only the completions or the responses protocol has."""
_LITELLM_ARGUMENTS = (
    "allowed_openai_params api_version aws_region_name base_url client custom_llm_provider drop_params fallbacks "
    "headers mock_response num_retries organization timeout vertex_location vertex_project"
)
_ONLY_LITELLM = frozenset(_LITELLM_ARGUMENTS.split())


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to send a request for a model, under which name, with which key (None: without) from which variable."""

    url: str
    name: str
    key: str | None
    key_variable: str

    @property
    def host(self) -> str:
        return parse_address(self.url).place

    @property
    def shown(self) -> str:
        """The address as messages give it: without its query."""
        there = parse_address(self.url)
        return f"{there.scheme}://{there.place}{there.path}"


def family(model: Model) -> Family | None:
    """The model's family, None where another protocol or an argument that only litellm knows is asked for."""
    if not _ONLY_LITELLM.isdisjoint(model.params):
        return None
    prefix, slash, _ = model.name.partition("/")
    if not slash:
        return _OPENAI if model.api_base or _OPENAI_NAME.match(model.name) else None
    found = _FAMILIES.get(prefix)
    return found if found is not _OLLAMA or model.api_base else None


def endpoint(model: Model, found: Family, environ: Mapping[str, str]) -> Endpoint:
    """The model's endpoint. Raises Refused where no base URL is known, where a key that is
    needed is not set, and where `api_key_env` is to go to a host that it may not go to; a key that nobody asked for is not
    sent there."""
    bases = (model.api_base, *(environ.get(name) for name in found.base_variables), found.default_base)
    base = next((base for base in bases if base), "").rstrip("/")
    if not base:
        ways = " or ".join(["api_base", *found.base_variables])
        raise Refused(f"model {model.name} has no address", hint=f"set {ways} to the server's base URL")
    there = _address(model, base)
    if found is _OLLAMA and not there.path.rstrip("/"):
        base += "/v1"
    url = base if base.endswith("/chat/completions") else f"{base}/chat/completions"
    variable = model.api_key_env or found.key_variable
    wanted = bool(model.api_key_env) or there.host == OPENAI_HOST
    key = key_in(variable, environ) if wanted else environ.get(variable, "").strip()
    if not key and wanted:
        raise Refused(
            f"model {model.name} needs a key: the environment variable {variable} is not set",
            hint=f"export {variable}=…, or name another variable with api_key_env",
        )
    if key and model.api_base and not may_have_key(base, variable, environ):
        if model.api_key_env:
            raise Refused(
                f"model {model.name}: the key in {variable} is not sent to {there.host}, which the pipeline file chose",
                hint=f"if that host is yours, export {ALLOWED}={there.host}",
            )
        key = ""
    name = model.name.partition("/")[2] or model.name
    return Endpoint(url, name, key or None, variable)


def _address(model: Model, base: str) -> Address:
    """The base URL's address. Raises Refused for one that is no plain http address."""
    try:
        return parse_address(base)
    except AddressError as fault:
        raise Refused(f"model {model.name}: the base URL {fault}", hint=FORM) from None
