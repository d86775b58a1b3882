"""What makes two requests equal."""

from __future__ import annotations

import re
from hashlib import blake2b

import orjson

from verdict_cli.models import Model
from verdict_cli.providers import address
from verdict_cli.values import Request

VERSION = 1
"""Rises when equal requests no longer bring equal replies from this program."""

PARTS = (
    ("endpoint", "the URL that is asked, or the provider that litellm asks; never the key"),
    ("model", "the model's name"),
    ("messages", "every role and text, byte for byte"),
    (
        "parameters",
        "temperature, top_p, max_tokens, seed, stop, reasoning_effort, and everything in `params`",
    ),
    ("schema", "the JSON schema of the response"),
    ("logprobs", "how many alternatives are wanted at each position"),
    ("seed", "the run's --seed: another seed draws anew"),
    ("unit", "the unit's name, its place among the units of that name, and the number of the call"),
)
"""The parts of a key, and what each holds."""

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
_FIRST = re.compile(r"\[0\]$")


class Keys:
    """The keys of requests. Each model's address is looked up once."""

    def __init__(self) -> None:
        self._urls: dict[tuple[str, str | None, str | None], str] = {}

    def of(self, request: Request) -> bytes | None:
        """32 bytes that equal requests share; None for a request that cannot be written as JSON.

        The unit's place keeps repeated units apart, which want a sample each; `judge` and `judge[0]` are the same.
        """
        model = request.model
        try:
            canonical = orjson.dumps(
                [
                    VERSION,
                    self._url(model),
                    model.name,
                    [(message.role, message.content, message.images) for message in request.messages],
                    model.sampling(),
                    request.json_schema,
                    request.top_logprobs,
                    request.seed,
                    _FIRST.sub("", request.node),
                    request.call,
                ],
                option=_OPTIONS,
            )
        except TypeError:
            return None
        return blake2b(canonical, digest_size=32).digest()

    def _url(self, model: Model) -> str:
        key = (model.name, model.api_base, model.api_key_env)
        url = self._urls.get(key)
        if url is None:
            url = self._urls[key] = address(model)[0]
        return url
