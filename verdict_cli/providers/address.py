"""Where a model's calls go, and with whose key: what its limits and its cached replies belong to."""

from __future__ import annotations

import os

from verdict_cli.errors import Refused
from verdict_cli.models import Model
from verdict_cli.models.families import family
from verdict_cli.providers.endpoint import endpoint


def address(model: Model) -> tuple[str, str]:
    """(URL or provider, name of the key's variable). Never the key itself."""
    found = family(model)
    if found is not None:
        try:
            there = endpoint(model, found, os.environ)
        except Refused:  # said by the provider when it is asked
            return model.name, ""
        return there.url, there.key_variable
    provider = model.name.partition("/")[0]
    return model.api_base or provider, model.api_key_env or ""
