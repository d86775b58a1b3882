"""OpenAI-compatible chat completions over pyreqwest, whose connections are kept and served outside of Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from time import perf_counter
from typing import Any

from msgspec.structs import replace
from pyreqwest.client import Client
from pyreqwest.exceptions import PyreqwestError
from pyreqwest.http import Url
from pyreqwest.request import StreamRequest
from pyreqwest.response import Response

from verdict_cli.errors import ProviderError, Refused, Rejected, Retryable
from verdict_cli.llm.http_client import HttpClients, ResponseHeaders, root_cause
from verdict_cli.llm.model_families import family
from verdict_cli.llm.providers.chat_completions import Bodies, read_body
from verdict_cli.llm.providers.endpoint import Endpoint, endpoint
from verdict_cli.llm.providers.http_errors import detail_of, error_of, retry_after
from verdict_cli.llm.providers.json_mode import JsonMode, JsonModeFallback
from verdict_cli.llm.providers.provider import TokenCallback
from verdict_cli.llm.providers.rate_limit_headers import allowance_of
from verdict_cli.llm.providers.secrets import may_tell, secrets, within_address, without
from verdict_cli.llm.providers.sse import Pieces
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Model

LARGEST_BODY = 64 * 2**20
_HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, eq=False)
class _Target:
    """An endpoint with everything about it that no request changes, equal to itself alone. ``secrets`` are taken out of replies, ``hidden`` out
    of errors."""

    endpoint: Endpoint
    url: Url
    headers: Mapping[str, str]
    client: Client
    secrets: tuple[str, ...]
    hidden: tuple[str, ...]


class NativeProvider:
    """Answers models of the OpenAI families. A client is opened at the first call of a model."""

    def __init__(self, heard: TokenCallback | None = None) -> None:
        self._heard = heard
        self._clients = HttpClients()
        self._targets: dict[tuple[str, str | None, str | None], _Target] = {}
        self._ways = JsonModeFallback()
        self._bodies = Bodies()

    def ask(self, request: Request) -> Coroutine[Any, Any, Reply]:
        """The model's reply. ``model.timeout`` bounds the call from connecting to the last byte."""
        target = self._target(request.model)
        if request.json_schema is None:
            return self._asked(request, target, "schema")
        return self._ways.ask(target, "schema", lambda way: self._asked(request, target, way))

    def _asked(self, request: Request, target: _Target, way: JsonMode) -> Coroutine[Any, Any, Reply]:
        model = request.model
        try:
            payload, sent = self._bodies.of(request, target.endpoint.name, way)
        except TypeError as problem:
            raise Rejected(f"model {model.name}: the request cannot be written as JSON: {problem}") from None
        extra = model.params.get("extra_headers")
        headers = {**target.headers, **_headers(extra, "params.extra_headers")} if extra else target.headers
        post = target.client.post(target.url).headers(headers).body_bytes(payload)
        return self._answered(post.timeout(_seconds(model.timeout)).build_streamed(), request, target, sent)

    async def _answered(self, sending: StreamRequest, request: Request, target: _Target, sent: str) -> Reply:
        model = request.model
        start = perf_counter()
        try:
            async with sending as response:
                if request.stream or not _is_bounded(response):
                    listen = self._listener(request, response.status, target.secrets)
                    content = await _read(response, model.name, listen)
                else:
                    content = bytes(await response.bytes())
                latency_s = perf_counter() - start
        except TimeoutError:
            message = f"model {model.name}: no reply from {target.endpoint.host} within {model.timeout:g} s"
            raise Retryable(message, kind="timeout") from None
        except (PyreqwestError, OSError) as problem:
            message = f"model {model.name}: no reply from {target.endpoint.host}: {root_cause(problem)}"
            raise Retryable(message, kind="unavailable") from None
        allowance = allowance_of(ResponseHeaders(response))
        if not 200 <= response.status < 300:
            error = _refusal(response, content, model, target)
            error.allowance = allowance
            raise error
        hidden = target.secrets
        if not request.stream and not may_tell(content, hidden):
            hidden = ()
        reply = read_body(content, request, latency_s, sent, hidden)
        return reply if allowance is None else replace(reply, allowance=allowance)

    async def close(self) -> None:
        self._targets.clear()
        await self._clients.close()

    def _listener(self, request: Request, status: int, hidden: tuple[str, ...]) -> Callable[[bytes], None] | None:
        """What is told the bytes of a streamed reply; None where nobody listens."""
        heard = self._heard
        if heard is None or not request.stream or status != 200:
            return None
        pieces = Pieces()

        def listen(part: bytes) -> None:
            if said := without(pieces.feed(part), hidden):
                heard(request, said)

        return listen

    def _target(self, model: Model) -> _Target:
        key = (model.name, model.api_base, model.api_key_env)
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = self._made_target(model)
        return target

    def _made_target(self, model: Model) -> _Target:
        found = family(model)
        if found is None:
            raise Refused(f"model {model.name} does not speak the OpenAI protocol")
        there = endpoint(model, found, os.environ)
        key = {"Authorization": f"Bearer {there.key}"} if there.key else {}
        headers = _HEADERS | _headers(key, there.key_variable)
        keys = secrets(model, os.environ)
        url = Url(there.url)
        hidden = (*keys, *within_address(there.url, os.environ))
        return _Target(there, url, headers, self._clients.get(url), keys, hidden)


@lru_cache(maxsize=256)
def _seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def _headers(given: Mapping[str, object], source: str) -> dict[str, str]:
    """The headers, as text. Raises Refused, without quoting them, for characters that no header may have."""
    headers = {str(name): str(value) for name, value in given.items()}
    if not all(text.isascii() and text.isprintable() for pair in headers.items() for text in pair):
        raise Refused(f"{source} holds characters that cannot be sent in a header", hint="look for a line break")
    return headers


def _is_bounded(response: Response) -> bool:
    """Whether the head says that the body is no longer than ``LARGEST_BODY``."""
    length = response.get_header("content-length")
    return length is not None and int(length) <= LARGEST_BODY


def _refusal(response: Response, content: bytes, model: Model, target: _Target) -> ProviderError:
    """The error that an answer without success stands for."""
    detail, code = detail_of(content, target.hidden)
    return error_of(
        response.status,
        detail,
        code,
        model=model.name,
        url=without(target.endpoint.shown, target.hidden),
        retry_after_s=retry_after(ResponseHeaders(response)),
    )


async def _read(response: Response, name: str, listen: Callable[[bytes], None] | None) -> bytes:
    """The body, as long as it is no longer than ``LARGEST_BODY``; ``listen`` is told its parts."""
    parts = []
    size = 0
    while (part := await response.body_reader.read_chunk()) is not None:
        parts.append(bytes(part))
        if listen is not None:
            listen(parts[-1])
        size += len(parts[-1])
        if size > LARGEST_BODY:
            message = f"model {name}: the server's reply is larger than {LARGEST_BODY >> 20} MiB"
            raise Retryable(message, kind="unavailable")
    return b"".join(parts)
