"""Where litellm may send a model's calls."""

from __future__ import annotations

from collections.abc import Mapping

from verdict_cli.errors import Refused
from verdict_cli.language.egress_hosts import ALLOWED, key_variable, may_have_key
from verdict_cli.language.model_address import AddressError, parse_address
from verdict_cli.llm.model_families import address_of, provider_of
from verdict_cli.model import Model


def refuse_foreign(model: Model, environ: Mapping[str, str]) -> None:
    """Raises Refused where litellm would send a key to a host of the pipeline file's."""
    there = address_of(model)
    if there is None:
        return
    try:
        place = parse_address(there).netloc
    except AddressError as fault:
        raise Refused(f"model {model.name}: the address {fault}") from None
    variable = model.api_key_env or key_variable(provider_of(model.name))
    if not may_have_key(there, variable, environ):
        host = parse_address(there).host
        raise Refused(
            f"model {model.name}: litellm would send a key to {place}, which the pipeline file chose",
            hint=f"if that host is yours, export {ALLOWED}={host}; every command but `serve` takes --allow-host {host} too",
        )
