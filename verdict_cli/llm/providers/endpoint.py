"""At what address a model of the OpenAI protocol is called, and with which key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from verdict_cli.errors import Refused
from verdict_cli.language.egress_hosts import ALLOWED, may_have_key
from verdict_cli.language.model_address import FORM, Address, AddressError, parse_address
from verdict_cli.llm.model_families import OLLAMA, OPENAI_HOST, Family, base_of
from verdict_cli.llm.providers.system_keyring import key_in
from verdict_cli.model import Model


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to send a request for a model, under which name, with which key (None: without) from which variable."""

    url: str
    name: str
    key: str | None
    key_variable: str

    @property
    def host(self) -> str:
        return parse_address(self.url).netloc

    @property
    def shown(self) -> str:
        """The address as messages give it: without its query."""
        there = parse_address(self.url)
        return f"{there.scheme}://{there.netloc}{there.path}"


def endpoint(model: Model, found: Family, environ: Mapping[str, str]) -> Endpoint:
    """The model's endpoint. Raises Refused where no base URL is known, where a key that is
    needed is not set, and where `api_key_env` is to go to a host that it may not go to; a key that nobody asked for is not
    sent there."""
    base = base_of(model, found, environ)
    if not base:
        ways = " or ".join(["api_base", *found.base_variables])
        raise Refused(f"model {model.name} has no address", hint=f"set {ways} to the server's base URL")
    there = _address(model, base)
    if found is OLLAMA and not there.path.rstrip("/"):
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
                hint=f"if that host is yours, export {ALLOWED}={there.host}; every command but `serve` takes --allow-host {there.host} too",
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
