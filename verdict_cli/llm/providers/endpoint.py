"""The address that a model is called at, its key, and whether the key may be sent there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from verdict_cli.errors import Refused
from verdict_cli.language.egress_hosts import ALLOWED, key_variable, may_have_key
from verdict_cli.language.model_address import FORM, Address, AddressError, parse_address
from verdict_cli.llm.model_families import OLLAMA, OPENAI_HOST, Family, base_url, family, litellm_address, provider_of
from verdict_cli.llm.providers.secrets import key_in
from verdict_cli.model import Model


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The URL of a model's server, the model's name there, and the key (None: no key) with the variable it came from."""

    url: str
    name: str
    key: str | None
    key_variable: str

    @property
    def host(self) -> str:
        return parse_address(self.url).netloc

    @property
    def display(self) -> str:
        """The address for messages: without its query, which may hold a secret."""
        address = parse_address(self.url)
        return f"{address.scheme}://{address.netloc}{address.path}"


def endpoint(model: Model, of: Family, environ: Mapping[str, str]) -> Endpoint:
    """The endpoint of a model of this family.

    Raises Refused if no base URL is known, if a required key is not set, or if the key of `api_key_env` may not be sent to
    the host. A key that the model did not name is left out there instead.
    """
    base = base_url(model, of, environ)
    if not base:
        variables = " or ".join(["api_base", *of.base_variables])
        raise Refused(f"model {model.name} has no address", hint=f"set {variables} to the server's base URL")
    address = _address(model, base)
    if of is OLLAMA and not address.path.rstrip("/"):
        base += "/v1"
    url = base if base.endswith("/chat/completions") else f"{base}/chat/completions"
    variable = model.api_key_env or of.key_variable
    required = bool(model.api_key_env) or address.host == OPENAI_HOST
    key = key_in(variable, environ) if required else environ.get(variable, "").strip()
    if not key and required:
        raise Refused(
            f"model {model.name} needs a key: the environment variable {variable} is not set",
            hint=f"export {variable}=…, or name another variable with api_key_env",
        )
    if key and model.api_base and not may_have_key(base, variable, environ):
        if model.api_key_env:
            raise Refused(
                f"model {model.name}: the key in {variable} is not sent to {address.host}, which the pipeline file chose",
                hint=f"if that host is yours, export {ALLOWED}={address.host}; every command but `serve` takes --allow-host {address.host} too",
            )
        key = ""
    name = model.name.partition("/")[2] or model.name
    return Endpoint(url, name, key or None, variable)


def _address(model: Model, base: str) -> Address:
    """The base URL's address. Raises Refused for anything but a plain http address."""
    try:
        return parse_address(base)
    except AddressError as error:
        raise Refused(f"model {model.name}: the base URL {error}", hint=FORM) from None


def endpoint_address(model: Model) -> tuple[str, str]:
    """(URL or provider, name of the key's variable): equal for two models that share an endpoint. Never the key itself."""
    of = family(model)
    if of is not None:
        try:
            target = endpoint(model, of, os.environ)
        except Refused:  # the provider raises it when it is called
            return model.name, ""
        return target.url, target.key_variable
    provider = model.name.partition("/")[0]
    return model.api_base or provider, model.api_key_env or ""


def check_litellm_host(model: Model, environ: Mapping[str, str]) -> None:
    """Raises Refused if litellm would send a key to a host that the pipeline file chose."""
    url = litellm_address(model)
    if url is None:
        return
    try:
        address = parse_address(url)
    except AddressError as error:
        raise Refused(f"model {model.name}: the address {error}") from None
    variable = model.api_key_env or key_variable(provider_of(model.name))
    if not may_have_key(url, variable, environ):
        host = address.host
        raise Refused(
            f"model {model.name}: litellm would send a key to {address.netloc}, which the pipeline file chose",
            hint=f"if that host is yours, export {ALLOWED}={host}; every command but `serve` takes --allow-host {host} too",
        )
