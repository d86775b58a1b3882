"""Chat completions and the other wire protocols over pyreqwest, which keeps connections and does their work outside of Python."""

from __future__ import annotations

import asyncio
import os
import unicodedata
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from functools import partial
from time import perf_counter
from typing import Any

from msgspec import Struct
from pyreqwest.client import Client
from pyreqwest.exceptions import ConnectError, ConnectTimeoutError, PyreqwestError
from pyreqwest.http import HeaderMap, Url
from pyreqwest.request import StreamRequest
from pyreqwest.response import Response

from verdict_cli.errors import ProviderError, Refused, Rejected, Retryable
from verdict_cli.llm.http_client import HttpClients, ResponseHeaders, root_cause
from verdict_cli.llm.identity_cache import IdentityCache
from verdict_cli.llm.model_families import family
from verdict_cli.llm.providers import TokenCallback
from verdict_cli.llm.providers.decision_answers import other_form
from verdict_cli.llm.providers.endpoint import Endpoint, endpoint, endpoint_problem
from verdict_cli.llm.providers.http_errors import Source, response_error
from verdict_cli.llm.providers.json_mode import JsonMode, JsonModeFallback
from verdict_cli.llm.providers.protocols import protocol_of
from verdict_cli.llm.providers.read_reply import read_body
from verdict_cli.llm.providers.secrets import (
    address_secrets,
    may_contain,
    model_secrets,
    redact_text,
)
from verdict_cli.llm.providers.sse import TextStream
from verdict_cli.llm.providers.wire_protocol import RequestBodies, WireProtocol
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Model

MAX_BODY = 64 * 2**20
_HEADERS = {"Content-Type": "application/json"}


class _Route(Struct, frozen=True):
    """How the requests of one model are sent: what they have in common.

    ``address`` is the one that messages show. ``secrets`` are removed from replies, ``error_secrets``, which add parts of the
    address, from errors.
    """

    endpoint: Endpoint
    address: str
    protocol: WireProtocol
    url: Url
    stream_url: Url
    headers: HeaderMap
    timeout: timedelta
    client: Client
    secrets: tuple[str, ...]
    error_secrets: tuple[str, ...]


class NativeProvider:
    """Answers models whose protocol the program speaks. Clients are opened at the first call of a model."""

    def __init__(self, on_token: TokenCallback | None = None) -> None:
        self._on_token = on_token
        self._clients = HttpClients()
        self._routes: IdentityCache[_Route] = IdentityCache()
        self._json_modes = JsonModeFallback()
        self._bodies = RequestBodies()

    @staticmethod
    def serves(model: Model) -> bool:
        return family(model) is not None

    @staticmethod
    def check(model: Model) -> str | None:
        return endpoint_problem(model)

    def ask(self, request: Request) -> Coroutine[Any, Any, Reply]:
        """The model's reply. ``model.timeout`` limits the call from connecting to the last byte."""
        route = self._routes.get((request.model,), None, self._route, request.model)
        return self._json_modes.ask(request, "schema", partial(self._send, request, route))

    def _send(self, request: Request, route: _Route, mode: JsonMode) -> Coroutine[Any, Any, Reply]:
        try:
            body, parameters = self._bodies.get(request, route.protocol, route.endpoint.name, mode)
        except TypeError as error:
            raise Rejected(
                f"model {request.model.name}: the request cannot be written as JSON: {error}"
            ) from None
        post = route.client.post(route.stream_url if request.stream else route.url).headers(
            route.headers
        )
        sending = post.body_bytes(body).timeout(route.timeout).build_streamed()
        return self._receive(sending, request, route, parameters)

    async def _receive(
        self, sending: StreamRequest, request: Request, route: _Route, parameters: str
    ) -> Reply:
        model = request.model
        _check_cancelled()
        start = perf_counter()
        try:
            async with sending as response:
                if request.stream or not _has_bounded_length(response):
                    on_bytes = self._token_listener(request, response.status, route)
                    content = await _read(response, model.name, on_bytes)
                else:
                    content = bytes(await response.bytes())
                latency_s = perf_counter() - start
        except TimeoutError:
            message = f"model {model.name}: no reply from {route.endpoint.host} within {model.timeout:g} s"
            raise Retryable(message, kind="timeout") from None
        except (PyreqwestError, OSError) as error:
            message = (
                f"model {model.name}: no reply from {route.endpoint.host}: {root_cause(error)}"
            )
            failure = Retryable(message, kind="unavailable")
            failure.unreachable = isinstance(error, ConnectError | ConnectTimeoutError)
            raise failure from None
        source = Source(
            model.name,
            route.address,
            ResponseHeaders(response),
            route.error_secrets,
            latency_s,
            parameters,
        )
        if not 200 <= response.status < 300:
            raise _refusal(response.status, content, request, route, source)
        hidden = route.secrets
        if not request.stream and not may_contain(content, hidden):
            hidden = ()
        return read_body(content, request, source, hidden, route.protocol)

    async def close(self) -> None:
        self._routes = IdentityCache()
        await self._clients.close()

    def _token_listener(
        self, request: Request, status: int, route: _Route
    ) -> Callable[[bytes], None] | None:
        """What passes the bytes of a streamed reply on as text; None if nobody listens."""
        on_token = self._on_token
        if on_token is None or not request.stream or status != 200:
            return None
        stream = TextStream(route.protocol.text_of)
        hidden = route.secrets

        def listen(part: bytes) -> None:
            if text := redact_text(stream.feed(part), hidden):
                on_token(request, text)

        return listen

    def _route(self, model: Model) -> _Route:
        entry = family(model)
        if entry is None:
            raise Refused(f"model {model.name} is not one of this provider")
        address = endpoint(model, entry, os.environ)
        protocol = protocol_of(entry)
        secrets = model_secrets(model, os.environ)
        error_secrets = (*secrets, *address_secrets(address.url, os.environ))
        url = Url(address.url)
        return _Route(
            endpoint=address,
            address=redact_text(address.display, error_secrets),
            protocol=protocol,
            url=url,
            stream_url=Url(address.stream_url),
            headers=HeaderMap(_HEADERS | own_headers(model, address)),
            timeout=timedelta(seconds=model.timeout),
            client=self._clients.get(url),
            secrets=secrets,
            error_secrets=error_secrets,
        )


def own_headers(model: Model, address: Endpoint) -> dict[str, str]:
    """The headers with the model's key, and its `extra_headers`. Raises Refused where one cannot be sent."""
    entry = family(model)
    assert entry is not None  # it has an endpoint
    auth_headers = protocol_of(entry).headers(address.key or "")
    if entry.key_header:
        auth_headers = {entry.key_header: address.key} if address.key else {}
    extra = _headers(model.params.get("extra_headers") or {}, "params.extra_headers")
    return _headers(auth_headers, address.key_variable) | extra


def _headers(values: Mapping[str, object], source: str) -> dict[str, str]:
    """The headers as text. Raises Refused, without quoting them, for characters that no header may have."""
    headers = {str(name): str(value) for name, value in values.items()}
    letters = "".join(map("".join, headers.items()))
    wrong = next((letter for letter in letters if not " " <= letter <= "~"), None)
    if wrong is not None:
        unnamed = "a line break" if wrong in "\r\n" else "a control character"
        name = unicodedata.name(wrong, unnamed).lower()
        raise Refused(
            f"{source} has a character that cannot be sent in a header: {name} (U+{ord(wrong):04X})",
            hint="copy the value again, without what an editor or a web page added",
        )
    return headers


def _has_bounded_length(response: Response) -> bool:
    """Whether the headers state a length of at most ``MAX_BODY``."""
    length = response.get_header("content-length")
    return length is not None and int(length) <= MAX_BODY


def _refusal(
    status: int, content: bytes, request: Request, route: _Route, source: Source
) -> ProviderError:
    """The error of a response that is no reply."""
    refusal = response_error(status, content, source)
    form = other_form(content, route.protocol) if request.questions else ""
    if form:
        refusal.hint = (
            f"{route.address} takes another form: use the prefix `{form}/` with this api_base"
        )
    return refusal


def _check_cancelled() -> None:
    """CancelledError in a cancelled task: the HTTP client gives it a reply that arrives at that moment, which nobody waits for."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _read(response: Response, name: str, on_bytes: Callable[[bytes], None] | None) -> bytes:
    """The body, whose parts ``on_bytes`` receives. Raises Retryable for one that is longer than ``MAX_BODY``."""
    parts = []
    size = 0
    while (part := await response.body_reader.read_chunk()) is not None:
        parts.append(bytes(part))
        if on_bytes is not None:
            on_bytes(parts[-1])
        size += len(parts[-1])
        if size > MAX_BODY:
            message = f"model {name}: the server's reply is larger than {MAX_BODY >> 20} MiB"
            raise Retryable(message, kind="unavailable")
    return b"".join(parts)
