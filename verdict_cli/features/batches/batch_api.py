"""A provider's batch interface: OpenAI's, which others copy, and what the adapters of other providers override."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct
from pyreqwest.exceptions import PyreqwestError
from pyreqwest.http import Url
from pyreqwest.multipart import FormBuilder, PartBuilder
from pyreqwest.request import RequestBuilder
from pyreqwest.response import Response

from verdict_cli.errors import Rejected, Retryable
from verdict_cli.language.model_address import parse_address
from verdict_cli.llm.http_client import HttpClients, ResponseHeaders, root_cause
from verdict_cli.llm.model_families import family, provider_of
from verdict_cli.llm.providers.chat_completions import CHAT
from verdict_cli.llm.providers.endpoint import Endpoint, endpoint
from verdict_cli.llm.providers.http_errors import Source, response_error
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.native import own_headers
from verdict_cli.llm.providers.protocols import protocol_of
from verdict_cli.llm.providers.secrets import model_secrets
from verdict_cli.llm.providers.wire_protocol import Envelope, RequestBodies
from verdict_cli.llm.providers.wire_values import loads, object_at, objects
from verdict_cli.messages import JsonObject, Request
from verdict_cli.model import Model
from verdict_cli.storage.paths import output_errors

TAG = "verdict"
"""The key of a batch's metadata."""
BATCHES_A_PAGE = 100
"""Batches in one page of a list."""
CLOCKS_S = 600.0
"""How far this machine's clock may be ahead of the provider's."""
CALL_S = 60.0
TRANSFER_S = 3600.0
"""The longest that a file of some hundred megabytes may take."""
_ENDED = {
    "completed",
    "succeeded",
    "success",
    "ended",
    "failed",
    "expired",
    "timeout_exceeded",
    "cancelled",
}
_UNPAID = {"batch_expired", "batch_cancelled"}


class BatchState(Struct, frozen=True):
    """A batch as its provider describes it.

    ``ended``: nothing more will happen to it. ``answered`` counts the requests with a reply so far, ``files`` are where the
    results are. ``problem`` is why it failed as a whole. ``tag`` is the metadata with which it was created, "" where the
    provider keeps none; ``created`` is when, in seconds since the epoch (0: not stated).
    """

    id: str
    status: str
    ended: bool
    answered: int = 0
    requests: int = 0
    files: tuple[str, ...] = ()
    problem: str = ""
    tag: str = ""
    created: float = 0.0


class ResultLine(Struct, frozen=True):
    """One request's outcome: the reply's body, or that of an error, with its HTTP status where that is stated.

    ``unpaid`` says why there is neither: the request expired or was cancelled.
    """

    custom_id: str
    status: int = 200
    body: Any = None
    unpaid: str = ""


class BatchApi:
    """A model's batch interface (`/v1/files` and `/v1/batches`): a file of requests, a batch that names it, files of results.

    Methods raise ProviderError. Adapters turn what their provider says into OpenAI's words.
    """

    max_requests = 50_000
    max_bytes = 200_000_000
    has_tags = True
    """Whether the provider keeps the metadata of a batch, by which it is found again."""
    opening, separator, closing = b"", b"\n", b"\n"
    """What stands around the requests of a file, and between them."""
    call_path = re.compile(r"(/deployments/.*)?(/chat/completions|/responses)$")
    """The end of the path of ordinary calls, in whose place that of batches stands."""
    path, cancel_path, upload_path = "/batches", "/cancel", "/files"
    upload_fields: ClassVar[Mapping[str, str]] = {"purpose": "batch"}
    page_size, cursor = "limit", "after"
    """The keys of a list's query: how long a page is, and where it begins."""
    listed = "data"
    """The key of the batches in a page."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.provider = provider_of(model.name)
        entry = family(model)
        self.protocol = CHAT if entry is None else protocol_of(entry)
        self._clients = HttpClients()
        self._bodies = RequestBodies()

    @cached_property
    def endpoint(self) -> Endpoint:
        """Where ordinary calls go. Raises Refused where the model has no address or no key."""
        entry = family(self.model)
        assert entry is not None  # see `batch_problem`
        return endpoint(self.model, entry, os.environ)

    @property
    def name(self) -> str:
        """The model's name at its provider."""
        return self.endpoint.name

    @property
    def target(self) -> str:
        """The path of ordinary calls in a request. Azure's dated API names it without its version."""
        match = self.call_path.search(urlsplit(self.endpoint.url).path)
        assert match is not None  # OpenAI's addresses end with one of the paths
        return match[2] if match[1] else f"/v1{match[2]}"

    def body(self, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        """The body that an ordinary call sends, and its parameters as JSON."""
        return self._bodies.get(request, self.protocol, self.name, mode)

    def line(self, custom_id: str, body: bytes) -> bytes:
        """A request in the request file."""
        return b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}' % (
            custom_id.encode(),
            self.target.encode(),
            body,
        )

    async def upload(self, file: Path) -> str:
        """The id of the uploaded request file; "" where the batch takes its content."""
        form = FormBuilder()
        for name, value in self.upload_fields.items():
            form = form.text(name, value)
        part = (await PartBuilder.from_file(file)).file_name(file.name).mime("application/jsonl")
        request = self.request("POST", self.url(self.upload_path), TRANSFER_S)
        return created_id(await self.json(request.multipart(form.part("file", part))))

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        """The batch of a request file, whose id is that of `upload`."""
        body: JsonObject = {
            "input_file_id": file_id,
            "endpoint": self.target,
            "completion_window": "24h",
        }
        if self.has_tags:
            body["metadata"] = {TAG: tag}
        return self.state(await self.post(self.url(self.path), body))

    async def get(self, batch_id: str) -> BatchState:
        """The batch of that id."""
        return self.state(await self.json(self.request("GET", self.url_of(batch_id))))

    async def recent(self, since: float) -> list[BatchState]:
        """The batches that were created since a time, in seconds since the epoch, and those whose time is not stated."""
        found: list[BatchState] = []
        query: JsonObject = {self.page_size: BATCHES_A_PAGE}
        while True:
            page = await self.json(self.request("GET", self.url(self.path)).query(query))
            states = [self.state(entry) for entry in objects(page.get(self.listed))]
            later = [each for each in states if not 0 < each.created < since - CLOCKS_S]
            found += later
            place = self.next_place(page, states, query.get(self.cursor)) if later else None
            if not place:
                return found
            query[self.cursor] = place

    def next_place(self, page: JsonObject, states: Sequence[BatchState], place: Any) -> Any:
        """Where the page behind this one begins, whose place is given; None for the last."""
        return states[-1].id if page.get("has_more") else None

    async def cancel(self, batch_id: str) -> None:
        """Cancel the batch."""
        await self.post(self.url_of(f"{batch_id}{self.cancel_path}"), {})

    async def results(self, state: BatchState, to: Path) -> None:
        """Append the result lines of an ended batch to a file."""
        for file in state.files:
            request = self.request("GET", self.file_url(state.id, file), TRANSFER_S)
            async with self.response(request) as response:
                with to.open("ab") as opened:
                    while (part := await response.body_reader.read_chunk()) is not None:
                        with output_errors(to):
                            opened.write(part)

    def file_url(self, batch_id: str, file: str) -> str:
        """The URL of a file with results."""
        return self.url(f"/files/{file}/content")

    def state(self, value: Envelope) -> BatchState:
        """A batch in the provider's words."""
        value = object_at(value, "job") or value  # Together's
        counts = object_at(value, "request_counts")
        status = str(value.get("status") or "").lower()
        files = value.get("output_file_id"), value.get("error_file_id")
        problems = [
            f"{problem.get('code') or ''} {problem.get('message') or ''}".strip()
            for problem in objects(object_at(value, "errors").get("data"))
        ]
        return BatchState(
            created_id(value),
            status,
            status in _ENDED,
            answered=_number(counts.get("completed")),
            requests=_number(counts.get("total")),
            files=tuple(str(file) for file in files if file),
            problem="; ".join(problems) or str(value.get("error") or ""),
            tag=str(object_at(value, "metadata").get(TAG) or ""),
            created=_seconds(value.get("created_at")),
        )

    def read(self, line: Any) -> ResultLine:
        """The outcome in a decoded line. Raises ValueError, KeyError or TypeError for a line that is not one."""
        custom_id, error, response = line["custom_id"], line.get("error"), line.get("response")
        if isinstance(response, dict) and response.get("status_code"):
            return ResultLine(custom_id, int(response["status_code"]), response.get("body"))
        if isinstance(error, dict) and error.get("code") in _UNPAID:
            return ResultLine(custom_id, unpaid=str(error.get("message") or error["code"]))
        return ResultLine(custom_id, body={"error": error})

    def url(self, path: str, before: str = "") -> str:
        """The URL of a path beside that of ordinary calls, whose query stays; ``before`` is put in front of both."""
        parts = urlsplit(self.endpoint.url)
        return urlunsplit(parts._replace(path=before + self.call_path.sub("", parts.path) + path))

    def url_of(self, batch_id: str) -> str:
        """The URL of a batch."""
        return self.url(f"{self.path}/{batch_id}")

    def request(self, method: str, url: str, timeout_s: float = CALL_S) -> RequestBuilder:
        """A request with the model's key."""
        request = self._clients.get(Url(url)).request(method, url)
        return request.headers(own_headers(self.model, self.endpoint)).timeout(
            timedelta(seconds=timeout_s)
        )

    @asynccontextmanager
    async def response(self, request: RequestBuilder) -> AsyncIterator[Response]:
        """A response of success, while its body is read."""
        sending = request.build_streamed()
        url = str(sending.url)
        try:
            async with sending as response:
                if not 200 <= response.status < 300:
                    secrets = model_secrets(self.model, os.environ)
                    headers = ResponseHeaders(response)
                    source = Source(self.model.name, url.partition("?")[0], headers, secrets)
                    content = bytes(await response.bytes())
                    raise response_error(response.status, content, source)
                yield response
        except (PyreqwestError, OSError) as error:
            host = parse_address(url).netloc
            raise self.unavailable(f"no reply from {host}: {root_cause(error)}") from None

    def unavailable(self, why: str) -> Retryable:
        """The error of a call that may succeed later."""
        return Retryable(f"model {self.model.name}: {why}")

    async def json(self, request: RequestBuilder) -> JsonObject:
        """The JSON object of the response; a list without one is a page."""
        async with self.response(request) as response:
            content = bytes(await response.bytes())
        try:
            value = loads(content)
        except ValueError:
            raise self.unavailable("the batch interface replied with no JSON") from None
        if isinstance(value, list):
            return {self.listed: value}
        if not isinstance(value, dict):
            raise self.unavailable("the batch interface replied with no JSON object")
        return value

    async def post(self, url: str, body: Any) -> JsonObject:
        """The JSON object that a POST of JSON gives."""
        return await self.json(self.request("POST", url).body_json(body))

    async def post_file(self, url: str, file: Path, headers: Mapping[str, str]) -> JsonObject:
        """The JSON object that a POST of a file's content gives."""
        request = self.request("POST", url, TRANSFER_S).headers(headers)
        size = str(file.stat().st_size)  # noqa: ASYNC240
        return await self.json(request.header("Content-Length", size).body_stream(_chunks(file)))

    async def aclose(self) -> None:
        """Close connections."""
        await self._clients.close()


def created_id(value: Envelope, key: str = "id") -> str:
    """The id of what was created. Raises Rejected for a reply without one."""
    identity = value.get(key)
    if not isinstance(identity, str) or not identity:
        raise Rejected(f"the batch interface replied without its {key}: {str(value)[:200]}")
    return identity


_MOST_DIGITS = 12


def _number(value: Any) -> int:
    """A count, which Google's JSON writes as text."""
    text = str(value)
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _seconds(text: Any) -> float:
    """The seconds since the epoch of a number or of a date and time, 0 for anything else."""
    if isinstance(text, int | float):
        return float(text)
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0


async def _chunks(file: Path) -> AsyncIterator[bytes]:
    """The content of a file in parts."""
    with file.open("rb") as opened:
        while part := opened.read(1 << 20):
            yield part
