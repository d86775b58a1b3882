"""Named models: those that `models` declares, and where a unit uses them."""

from __future__ import annotations

import os
import re
from typing import Any

from verdict_cli.language.egress_hosts import ALLOWED, is_user_host
from verdict_cli.language.load import Spec
from verdict_cli.language.model_address import FORM, AddressError, parse_address
from verdict_cli.model import Model

MOST_FALLBACK_MODELS = 100
"""The most models that a selection policy may try."""

_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class ModelError(ValueError):
    """A model that cannot be called: a code, a message, a hint, and the path of what is wrong."""

    def __init__(self, code: str, message: str, hint: str, path: tuple[str | int, ...]) -> None:
        super().__init__(message)
        self.problem = (code, message, hint, path)


class Presets:
    """The named models of one file; each is resolved once."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.known: dict[str, tuple[Model, ...]] = {}

    def policy(self, key: Any, path: tuple[str | int, ...], seen: tuple[str, ...] = ()) -> tuple[Model, ...]:
        """The models of a key, in the order in which they are tried. ModelError when there are none."""
        if isinstance(key, list | tuple):
            models: tuple[Model, ...] = ()
            for index, item in enumerate(key):
                models += self.policy(item, (*path, index), seen)
                if len(models) > MOST_FALLBACK_MODELS:
                    message = f"more than {MOST_FALLBACK_MODELS} models would be tried one after another"
                    raise ModelError("too-many-models", message, "name fewer", path)
            return models
        if isinstance(key, str) and key in self.spec.file.models:
            if key in seen:
                hint = "name a model of a provider"
                raise ModelError("model-cycle", f"the model {key!r} names itself", hint, path)
            if key not in self.known:
                self.known[key] = self.policy(self.spec.file.models[key], ("models", key), (*seen, key))
            return self.known[key]
        model = Model(name=key) if isinstance(key, str) else key
        if model.api_base is None:
            return (model,)
        base = _expanded(model.api_base, (*path, "api_base"))
        return (model.model_copy(update={"api_base": base}),)


def _expanded(text: str, path: tuple[str | int, ...]) -> str:
    """The address with each `${VAR}` replaced from the environment. ModelError when one is not set, when the result is not a
    plain address, and when a variable is part of an address whose host is not the user's own."""

    def value(match: re.Match[str]) -> str:
        setting = os.environ.get(match[1])
        if setting is None:
            message = f"the environment variable {match[1]!r} is not set"
            raise ModelError("unset-variable", message, f"export {match[1]}=…, or write the value", path)
        return setting

    address = _VARIABLE.sub(value, text)
    try:
        parse_address(address)
    except AddressError as fault:
        raise ModelError("bad-address", f"the address {fault}", FORM, path) from None
    if address != text and not is_user_host(address, os.environ):
        message = "a variable of the environment would be sent to a host that the pipeline file chose"
        hint = f"name the variable ..._BASE_URL or ..._API_BASE, or list the host in {ALLOWED} or with --allow-host"
        raise ModelError("foreign-host", message, hint, path)
    return address
