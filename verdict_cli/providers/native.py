"""OpenAI-compatible chat completions on one shared aiohttp session."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from time import perf_counter
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from verdict_cli.errors import Refused, Rejected, Retryable
from verdict_cli.models import Model
from verdict_cli.models.hosts import LOOPBACK
from verdict_cli.providers.allowance import allowance_of
from verdict_cli.providers.chat import Bodies, read
from verdict_cli.providers.endpoint import Endpoint, endpoint, family
from verdict_cli.providers.events import Pieces
from verdict_cli.providers.provider import Heard
from verdict_cli.providers.secrets import secrets, within_address, without
from verdict_cli.providers.statuses import detail_of, error_of, retry_after
from verdict_cli.providers.ways import Way, Ways
from verdict_cli.values import Reply, Request

LARGEST_BODY = 64 * 2**20
_LARGEST_AT_ONCE = 2**20


@dataclass(frozen=True, slots=True)
class _Target:
    """An endpoint with everything about it that no request changes. ``secrets`` are taken out of replies, ``hidden`` out
    of errors."""

    endpoint: Endpoint
    url: URL
    headers: Mapping[str, str]
    proxy: str | None
    secrets: tuple[str, ...]
    hidden: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes
    latency_s: float


class NativeProvider:
    """Answers models of the OpenAI families. The session is opened at the first call, in its loop."""

    def __init__(self, heard: Heard | None = None) -> None:
        self._heard = heard
        self._session: aiohttp.ClientSession | None = None
        self._targets: dict[tuple[str, str | None, str | None], _Target] = {}
        self._ways = Ways()
        self._bodies = Bodies()
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}

    async def ask(self, request: Request) -> Reply:
        """The model's reply. ``model.timeout`` bounds the call from connecting to the last byte."""
        target = self._target(request.model)
        if request.json_schema is None:
            return await self._asked(request, target, "schema")
        return await self._ways.ask(
            target.endpoint, "schema", request, lambda way: self._asked(request, target, way)
        )

    async def _asked(self, request: Request, target: _Target, way: Way) -> Reply:
        model = request.model
        try:
            payload, sent = self._bodies.of(request, target.endpoint.name, way)
        except TypeError as problem:
            raise Rejected(f"model {model.name}: the request cannot be written as JSON: {problem}") from None
        answer = await self._send(target, payload, request)
        allowance = allowance_of(answer.headers)
        if 200 <= answer.status < 300:
            reply = _told(
                read(_without(answer.content, target.secrets), request, answer.latency_s, sent), target
            )
            return reply if allowance is None else replace(reply, allowance=allowance)
        detail, code = detail_of(_without(answer.content, target.hidden))
        error = error_of(
            answer.status,
            without(detail, target.hidden),
            code,
            model=model.name,
            url=without(target.endpoint.shown, target.hidden),
            retry_after_s=retry_after(answer.headers),
        )
        error.allowance = allowance
        raise error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _send(self, target: _Target, payload: bytes, request: Request) -> _Answer:
        model = request.model
        extra = model.params.get("extra_headers")
        start = perf_counter()
        try:
            async with self._opened().post(
                target.url,
                data=payload if len(payload) < _LARGEST_AT_ONCE else BytesIO(payload),
                headers={**target.headers, **_headers(extra, "params.extra_headers")}
                if extra
                else target.headers,
                proxy=target.proxy,
                timeout=self._timeout(model.timeout),
                allow_redirects=False,
            ) as response:
                content = await _read(response, model.name, self._listener(request, response.status))
                return _Answer(response.status, response.headers, content, perf_counter() - start)
        except TimeoutError:
            message = f"model {model.name}: no reply from {target.endpoint.host} within {model.timeout:g} s"
            raise Retryable(message, kind="timeout") from None
        except (aiohttp.ClientError, OSError) as problem:
            why = str(getattr(problem, "os_error", problem)) or type(problem).__name__
            message = f"model {model.name}: no reply from {target.endpoint.host}: {why}"
            raise Retryable(message, kind="unavailable") from None

    def _listener(self, request: Request, status: int) -> Callable[[bytes], None] | None:
        """What is told the bytes of a streamed reply; None where nobody listens."""
        heard = self._heard
        if heard is None or not request.stream or status != 200:
            return None
        pieces = Pieces()

        def listen(part: bytes) -> None:
            if said := pieces.feed(part):
                heard(request, said)

        return listen

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60, ttl_dns_cache=300),
                headers={"Content-Type": "application/json", "User-Agent": "verdict-cli"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _timeout(self, total_s: float) -> aiohttp.ClientTimeout:
        found = self._timeouts.get(total_s)
        if found is None:
            found = self._timeouts[total_s] = aiohttp.ClientTimeout(total=total_s)
        return found

    def _target(self, model: Model) -> _Target:
        key = (model.name, model.api_base, model.api_key_env)
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = _make_target(model)
        return target


def _without(content: bytes, hidden: tuple[str, ...]) -> bytes:
    """A body, in which a server may repeat what it was sent, without it."""
    for one in hidden:
        if (said := one.encode("utf-8", "surrogateescape")) in content:
            content = content.replace(said, b"(key)")
    return content


def _told(reply: Reply, target: _Target) -> Reply:
    """The reply without keys that its JSON spelled by escapes."""
    text = without(reply.text, target.secrets)
    return reply if text == reply.text else replace(reply, text=text)


def _make_target(model: Model) -> _Target:
    found = family(model)
    if found is None:
        raise Refused(f"model {model.name} does not speak the OpenAI protocol")
    there = endpoint(model, found, os.environ)
    url = URL(there.url)
    keyed = there.key is not None and url.user is None
    headers = _headers({"Authorization": f"Bearer {there.key}"}, there.key_variable) if keyed else {}
    keys = secrets(model, os.environ)
    return _Target(there, url, headers, _proxy(url), keys, (*keys, *within_address(model, os.environ)))


def _headers(given: Mapping[str, object], source: str) -> dict[str, str]:
    """The headers, as text. Raises Refused, without quoting them, for characters that no header may have."""
    headers = {str(name): str(value) for name, value in given.items()}
    if not all(text.isascii() and text.isprintable() for pair in headers.items() for text in pair):
        raise Refused(
            f"{source} holds characters that cannot be sent in a header", hint="look for a line break"
        )
    return headers


def _proxy(url: URL) -> str | None:
    """The proxy that the environment sets for this address (``HTTPS_PROXY``, ``NO_PROXY`` …)."""
    host = url.host or ""
    if host in LOOPBACK or proxy_bypass(host):
        return None
    return getproxies().get(url.scheme)


async def _read(response: aiohttp.ClientResponse, name: str, listen: Callable[[bytes], None] | None) -> bytes:
    """The body, as long as it is no longer than ``LARGEST_BODY``; ``listen`` is told its parts."""
    parts = []
    size = 0
    while part := await response.content.readany():
        parts.append(part)
        if listen is not None:
            listen(part)
        size += len(part)
        if size > LARGEST_BODY:
            message = f"model {name}: the server's reply is larger than {LARGEST_BODY >> 20} MiB"
            raise Retryable(message, kind="unavailable")
    return parts[0] if len(parts) == 1 else b"".join(parts)
