"""The address that a model is called at, its key, and whether the key may be sent there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import Refused
from verdict_cli.language.model_address import (
    ALLOWED,
    FORM,
    LOOPBACK,
    ONLY,
    Address,
    AddressError,
    host_and_port,
    host_of,
    is_provider_host,
    key_variable,
    may_call,
    may_have_key,
    parse_address,
)
from verdict_cli.llm.model_families import (
    AZURE,
    OLLAMA,
    Family,
    base_url,
    family,
    litellm_address,
    provider_of,
)
from verdict_cli.llm.providers.protocols import protocol_of
from verdict_cli.llm.providers.secrets import key_in
from verdict_cli.llm.proxies import proxy_for
from verdict_cli.model import Model
from verdict_cli.regex import regex


class Endpoint(Struct, frozen=True):
    """The URL of a model's server, the model's name there, and the key (None: no key) with the variable it came from."""

    url: str
    name: str
    key: str | None
    key_variable: str
    stream_url: str
    """The URL of streamed calls."""

    @property
    def host(self) -> str:
        return parse_address(self.url).netloc

    @property
    def display(self) -> str:
        """The address for messages."""
        return parse_address(self.url).display


def endpoint(model: Model, entry: Family, environ: Mapping[str, str]) -> Endpoint:
    """The endpoint of a model of this family.

    Raises Refused if no base URL is known, if a required key is not set, or if the key of `api_key_env` may not be sent to
    the host. A key that the model did not name is left out there instead.
    """
    base = base_url(model, entry, environ)
    if not base:
        variables = " or ".join(["api_base", *entry.base_variables])
        raise Refused(
            f"model {model.name} has no address", hint=f"set {variables} to the server's base URL"
        )
    address = _address(model, base)
    if not may_call(base, environ):
        raise Refused(
            f"model {model.name}: --untrusted does not call {address.netloc}, which the command does not name",
            hint=f"if the pipeline may call it: --allow-host {address.netloc}",
        )
    proxy_for(
        address.scheme, address.host, host_and_port(base)[1], environ
    )  # raises for a variable that is no address
    name = model.name.partition("/")[2] or model.name
    if model.name.startswith("fireworks_ai/") and not name.startswith("accounts/"):
        name = f"accounts/fireworks/{'routers' if entry.route else 'models'}/{name}"
    url, stream_url = _urls(model, entry, address, name, environ)
    required = bool(model.api_key_env) or _is_of_provider(entry, base, address)
    variable = model.api_key_env or entry.key_variable
    if not model.api_key_env and not key_in(variable, environ) and key_in(entry.other_key, environ):
        variable = entry.other_key
    key = key_in(variable, environ)
    may_send = not model.api_base or may_have_key(base, variable, environ)
    if not may_send and (entry.is_hosted or (key and model.api_key_env)):
        raise Refused(
            f"model {model.name}: the key in {variable} is not sent to {address.host}, which the pipeline file chose",
            hint=_allow(address.host),
        )
    if not key and required:
        raise Refused(
            f"model {model.name} needs a key: the environment variable {variable} is not set",
            hint=f"export {variable}=…, or name another variable with api_key_env",
        )
    return Endpoint(url, name, key if key and may_send else None, variable, stream_url)


def endpoint_problem(model: Model) -> str | None:
    """Why a model of a family has no endpoint, such as a missing key; None if it has one."""
    entry = family(model)
    try:
        if entry is not None:
            endpoint(model, entry, os.environ)
    except Refused as error:
        return error.in_one_line()
    return None


def _is_of_provider(entry: Family, base: str, address: Address) -> bool:
    """Whether the address is the provider's own, which takes no call without a key."""
    if entry is AZURE:
        return address.host not in LOOPBACK
    return is_provider_host(base) and host_of(entry.default_base) == address.host


def _urls(
    model: Model, entry: Family, base: Address, name: str, environ: Mapping[str, str]
) -> tuple[str, str]:
    """The URL of plain and of streamed calls: the base's path, completed, and its query."""
    path = base.path.rstrip("/")
    if entry.route:
        plain = streamed = replace(base, path=_decision_path(path, entry.route, name, environ)).url
    elif entry is AZURE:
        plain = streamed = _azure_url(model, base, path, name, environ)
    else:
        protocol = protocol_of(entry)
        plain, streamed = protocol.path(name, False), protocol.path(name, True)
        if entry is OLLAMA and not path:
            path = "/v1"
        elif path.endswith(plain):
            path = path.removesuffix(plain)
        elif protocol.version and not _VERSION.search(path):
            path += protocol.version
        plain, streamed = _with_path(base, path + plain), _with_path(base, path + streamed)
    return plain, streamed


def _with_path(base: Address, path: str) -> str:
    """The URL of a path, which may bring a query of its own, such as Gemini's for streams."""
    path, _, query = path.partition("?")
    return replace(base, path=path, query=_joined(base.query, query)).url


def _decision_path(path: str, route: str, name: str, environ: Mapping[str, str]) -> str:
    """The path of a decision model's server. One that ends in a route is kept, and a version in it is not repeated."""
    if (
        path.endswith(("/decisions", "/systemone", "/invocations", "/ai-decide"))
        or "/ai/run/" in path
    ):
        return path
    account = environ.get("CLOUDFLARE_ACCOUNT_ID", "")
    if "{account}" in route and not account:
        raise Refused(
            "CLOUDFLARE_ACCOUNT_ID is not set",
            hint="export CLOUDFLARE_ACCOUNT_ID=…, the account's id",
        )
    if route.startswith("/v1/"):
        route = route.removeprefix("/v1") if _VERSION.search(path) else route
    elif route.startswith("/alpha/"):
        path = path.removesuffix("/v1")
    plain = name.removeprefix("@cf/cloudflare/")
    return path + route.replace("{account}", quote(account, safe="")).replace(
        "{name}", quote(plain, safe="")
    )


_CHAT = "/chat/completions"
_VERSION = regex(r"/v\d+[a-z0-9]*$")
_AZURE_V1 = ("", "v1", "latest", "preview")
"""The values of the API version with which Azure is called at its versionless address."""


def _azure_url(
    model: Model, base: Address, path: str, name: str, environ: Mapping[str, str]
) -> str:
    """The address of a deployment: of the dated API where a version is set, else of the v1 API. A path of the user's own, of a
    gateway, is kept; only `/openai` is completed."""
    stated = re.search(r"(?:^|&)api-version=([^&]*)", base.query)
    api_version = model.params.get("api_version") or environ.get("AZURE_API_VERSION", "")
    version = stated[1] if stated else quote(str(api_version).strip(), safe="")
    is_v1 = version in _AZURE_V1
    if path in ("", "/openai"):
        path = (
            f"/openai/v1{_CHAT}" if is_v1 else f"/openai/deployments/{quote(name, safe='')}{_CHAT}"
        )
    else:
        is_v1 |= path.removesuffix(_CHAT).endswith("/openai/v1")
        path = path.removesuffix(_CHAT) + _CHAT
    query = base.query if stated or is_v1 else _joined(base.query, f"api-version={version}")
    return replace(base, path=path, query=query).url


def _joined(*queries: str) -> str:
    return "&".join(filter(None, queries))


def _address(model: Model, base: str) -> Address:
    """The base URL's address. Raises Refused for anything but a plain http address."""
    try:
        address = parse_address(base)
    except AddressError as error:
        raise Refused(f"model {model.name}: the base URL {error}", hint=FORM) from None
    if "#" in base:
        raise Refused(
            f"model {model.name}: the base URL has a fragment (#…), which no server receives",
            hint=FORM,
        )
    return address


def endpoint_address(model: Model) -> tuple[str, str]:
    """(URL or provider, name of the key's variable): equal for two models that share an endpoint. Never the key itself."""
    entry = family(model)
    if entry is not None:
        try:
            target = endpoint(model, entry, os.environ)
        except Refused:  # the provider raises it when it is called
            return model.name, ""
        return target.url, target.key_variable
    provider = model.name.partition("/")[0]
    return model.api_base or provider, model.api_key_env or ""


def check_litellm_host(model: Model, environ: Mapping[str, str]) -> None:
    """Raises Refused if litellm would send a key to a host that the pipeline file chose."""
    if ONLY in environ:
        raise Refused(
            f"model {model.name}: litellm chooses its host, and --untrusted calls only hosts that the command names",
            hint="use a model that verdict calls itself (openai/…, anthropic/…, gemini/…)",
        )
    url = litellm_address(model)
    if url is None:
        return
    try:
        address = parse_address(url)
    except AddressError as error:
        raise Refused(f"model {model.name}: the address {error}") from None
    variable = model.api_key_env or key_variable(provider_of(model.name))
    if not may_have_key(url, variable, environ):
        raise Refused(
            f"model {model.name}: litellm would send a key to {address.netloc}, which the pipeline file chose",
            hint=_allow(address.host),
        )


def _allow(host: str) -> str:
    """What to do where a key is not sent to a host."""
    return f"if that host is yours, export {ALLOWED}={host}; every command but `serve` takes --allow-host {host} too"
