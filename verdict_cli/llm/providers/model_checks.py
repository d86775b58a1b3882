"""Check before the first call what is known about a model: credentials, parameters it refuses, images."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from verdict_cli.errors import Refused
from verdict_cli.llm.model_families import OPENAI_HOST, family
from verdict_cli.llm.providers.allowed_arguments import argument_refused
from verdict_cli.llm.providers.baseline import NAMES
from verdict_cli.llm.providers.endpoint import endpoint
from verdict_cli.llm.providers.litellm_egress import refuse_foreign
from verdict_cli.llm.providers.prices import prices_of
from verdict_cli.llm.providers.provider import endpoint_address
from verdict_cli.llm.providers.replay import PREFIX
from verdict_cli.llm.providers.system_keyring import key_in
from verdict_cli.model import Model

_REASONING = re.compile(r"(?:openai/|azure/)?(o\d|gpt-5)(?!.*chat)")
"""OpenAI's reasoning models. They sample in their own way, and say nothing of probabilities."""


def refused_parameter(model: Model, top_logprobs: int) -> str | None:
    """What this model refuses of what it is to be sent, and the way out; None where nothing is known to be refused.

    A model at an address of the user's own is another model, whatever its name.
    """
    url, _ = endpoint_address(model)
    entry = None if "://" in url and OPENAI_HOST not in url else prices_of(model.name)
    if entry is None:
        return None
    sampling = model.sampling()
    reasons = bool(entry.get("supports_reasoning"))
    if reasons and _REASONING.match(model.name) and not entry.get("supports_none_reasoning_effort"):
        for name in ("temperature", "top_p"):
            if sampling.get(name) not in (None, 1):
                return f"{name} is not taken by this reasoning model (only its default, 1); remove it"
        for name in ("presence_penalty", "frequency_penalty", "logit_bias"):
            if sampling.get(name):
                return f"{name} is not taken by this reasoning model; remove it"
        if top_logprobs:
            return "this reasoning model returns no log-probabilities; use another model, or another extractor"
    effort = sampling.get("reasoning_effort")
    if effort not in (None, "none") and not reasons and entry.get("litellm_provider") == "openai":
        return "reasoning_effort is taken by reasoning models only, which this is not; remove it"
    if effort == "none" and reasons and entry.get("supports_none_reasoning_effort") is False:
        return "reasoning_effort: none is not taken by this model; use low or minimal"
    most = entry.get("max_output_tokens")
    if model.max_tokens is not None and isinstance(most, int) and model.max_tokens > most:
        return f"max_tokens is {model.max_tokens:,}, but its replies have {most:,} at most; lower it"
    return None


_OURS = {
    "api_base": "set the model's own `api_base`",
    "api_key": "name an environment variable with api_key_env",
    "aws_bedrock_runtime_endpoint": "set it in the environment",
    "aws_sts_endpoint": "set it in the environment",
    "base_url": "set the model's own `api_base`",
    "client": "remove it",
    "fallbacks": "list the models in `model`",
    "max_retries": "set the model's own `retries`",
    "messages": "remove it",
    "model": "remove it",
    "num_retries": "set the model's own `retries`",
    "model_list": "list the models in `model`",
    "shared_session": "remove it",
    "ssl_verify": "set SSL_VERIFY in the environment",
    "stream": "remove it",
    "timeout": "set the model's own `timeout`",
    "vertex_credentials": "set GOOGLE_APPLICATION_CREDENTIALS in the environment",
}
"""Arguments that the program gives itself, and what to do instead of giving them in `params`."""
_KEY_HEADERS = {"api-key", "authorization", "cookie", "proxy-authorization", "x-api-key", "x-goog-api-key"}


def check_model(model: Model, top_logprobs: int = 0) -> str | None:
    """What would keep this model from answering, None where nothing is known to. Nothing is sent or imported.

    ``top_logprobs`` is how many alternatives it will be asked for at each position.
    """
    if model.name.startswith("baseline/"):
        if model.name in NAMES:
            return None
        near = get_close_matches(model.name, NAMES, n=1, cutoff=0.8)
        cure = f"did you mean {near[0]}?" if near else f"the built-in models are {', '.join(NAMES)}"
        return f"there is no built-in model {model.name!r}; {cure}"
    if model.name.startswith(PREFIX):
        path = Path(model.name.removeprefix(PREFIX))
        return None if path.exists() else f"model {model.name}: there is no recording at {path}"
    for key, cure in _OURS.items():
        if key in model.params:
            return f"model {model.name}: {key} cannot stand in params; {cure}"
    header = _header_of_a_key(model.params)
    if header is not None:
        return f"model {model.name}: the header {header!r:.80} cannot stand in params; keys are named with api_key_env"
    secret = _from_environment(model.params)
    if secret is not None:
        return f"model {model.name}: {secret!r:.80} cannot stand in params; keys are named with api_key_env"
    unknown = argument_refused(model.params)
    if unknown is not None:
        return f"model {model.name}: {unknown}"
    if model.api_key_env and not key_in(model.api_key_env, os.environ):
        return f"model {model.name}: the environment variable {model.api_key_env} (api_key_env) is not set"
    found = family(model)
    try:
        if found is None:
            refuse_foreign(model, os.environ)
        else:
            endpoint(model, found, os.environ)
    except Refused as problem:
        return "; ".join(filter(None, (problem.message, problem.hint)))
    refused = refused_parameter(model, top_logprobs)
    return None if refused is None else f"model {model.name}: {refused}"


def sees_images(model: Model) -> bool | None:
    """Whether the model takes pictures by litellm's data file; None for a model that it does not know."""
    known = prices_of(model.name)
    return None if known is None else bool(known.get("supports_vision"))


def _header_of_a_key(params: Mapping[str, Any]) -> str | None:
    """The name of a header in `params` that would carry a key, None where there is none."""
    given = (params.get(place) for place in ("extra_headers", "headers"))
    names = [str(name) for headers in given if isinstance(headers, Mapping) for name in headers]
    return next((name for name in names if name.lower() in _KEY_HEADERS), None)


def _from_environment(value: Any) -> str | None:
    """A text that litellm would replace by a secret of the environment; None where there is none."""
    if isinstance(value, str):
        return value if value.lstrip().startswith(("os.environ/", "oidc/")) else None
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return next((found for one in inner if (found := _from_environment(one)) is not None), None)
