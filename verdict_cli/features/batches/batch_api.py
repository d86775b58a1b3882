"""What a provider's batch interface does, whichever provider it is."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct
from pyreqwest.exceptions import PyreqwestError
from pyreqwest.http import Url
from pyreqwest.multipart import FormBuilder, PartBuilder
from pyreqwest.request import RequestBuilder
from pyreqwest.response import Response

from verdict_cli.errors import Refused, Rejected, Retryable
from verdict_cli.features.batches.batch_keys import batch_settings
from verdict_cli.language.model_address import parse_address
from verdict_cli.llm.http_client import HttpClients, ResponseHeaders, root_cause
from verdict_cli.llm.model_families import family
from verdict_cli.llm.providers.chat_completions import RequestBodies
from verdict_cli.llm.providers.endpoint import Endpoint, endpoint
from verdict_cli.llm.providers.http_errors import Source, response_error
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.native import own_headers
from verdict_cli.llm.providers.protocols import protocol_of
from verdict_cli.llm.providers.secrets import model_secrets
from verdict_cli.llm.providers.wire_protocol import ProtocolBodies, WireProtocol, objects
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import Request
from verdict_cli.model import Model
from verdict_cli.storage.paths import output_errors

BATCHES_A_PAGE = 100
"""Batches in one page of a list."""
CLOCKS_S = 600.0
"""How far this machine's clock may be ahead of the provider's."""


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
    """One request's outcome: the reply's body, or an error with its HTTP status.

    ``unpaid`` says why there is neither: the request expired or was cancelled.
    """

    custom_id: str
    status: int = 200
    body: Any = None
    unpaid: str = ""


class BatchApi(ABC):
    """A model's batch interface: an adapter overrides what the provider has. Methods raise ProviderError."""

    provider = ""
    max_requests = 10**9
    max_bytes = 10**12
    has_tags = True
    """Whether the provider keeps the metadata of a batch, by which it is found again."""
    uploads = False
    """Whether the request file is uploaded before the batch is created."""
    protocol: WireProtocol | None = None

    @classmethod
    def most_requests(cls, model: Model) -> int:
        """How many requests one batch of the model may have."""
        return min(cls.max_requests, batch_settings(model).max_requests or cls.max_requests)

    @abstractmethod
    def line(self, custom_id: str, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        """The request's line in the request file, and its parameters as JSON."""

    async def upload(self, file: Path) -> str:
        """The id of the uploaded request file; "" of an interface that takes none."""
        return ""

    @abstractmethod
    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        """The batch of a request file, whose id is that of `upload`."""

    @abstractmethod
    async def get(self, batch_id: str) -> BatchState:
        """The batch of that id."""

    async def recent(self, since: float) -> AsyncIterator[BatchState]:
        """The batches that were created since a time, in seconds since the epoch, the latest first."""
        nothing: tuple[BatchState, ...] = ()
        for state in nothing:
            yield state

    async def cancel(self, batch_id: str) -> None:  # noqa: B027  # nothing to do for a file
        """Cancel the batch, where there is anything to cancel."""

    async def results(self, state: BatchState, to: Path) -> None:  # noqa: B027  # nothing to do for a file
        """Write the result lines of an ended batch to a file."""

    def read(self, line: Any) -> ResultLine:
        """The outcome in a decoded line, in the form of OpenAI's results. Raises ValueError for a line that is not one."""
        custom_id = line["custom_id"]
        error, response = line.get("error"), line.get("response")
        if isinstance(response, dict) and response.get("status_code"):
            return ResultLine(custom_id, int(response["status_code"]), response.get("body"))
        if isinstance(error, dict) and error.get("code") in _UNPAID:
            return ResultLine(custom_id, unpaid=str(error.get("message") or error["code"]))
        return ResultLine(custom_id, 500, {"error": error})

    async def aclose(self) -> None:  # noqa: B027  # nothing to do for a file
        """Close connections."""


_UNPAID = frozenset({"batch_expired", "batch_cancelled"})


CALL_S = 60.0
TRANSFER_S = 3600.0
"""The longest that a file of some hundred megabytes may take."""
_CHUNK = 1 << 20


class HttpBatchApi(BatchApi):
    """What the adapters of providers share: the model's address, key and bodies."""

    max_requests = 50_000
    max_bytes = 200_000_000
    uploads = True
    first_page: Mapping[str, Any] = {"limit": BATCHES_A_PAGE}
    """The query of the first page of the list of batches."""
    cursor = "after"
    """The key of the query by which a page begins behind a batch."""

    def __init__(self, model: Model) -> None:
        own_family = family(model)
        if own_family is None:
            raise Refused(f"model {model.name} has no batch interface")
        self.model = model
        self.endpoint: Endpoint = endpoint(model, own_family, os.environ)
        self.protocol = protocol_of(own_family)
        self._headers = own_headers(model, self.endpoint)
        self._secrets = model_secrets(model, os.environ)
        self._clients = HttpClients()
        self._bodies = RequestBodies()
        self._protocol_bodies = ProtocolBodies()

    def body(self, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        """The body that an ordinary call sends, and its parameters as JSON."""
        if self.protocol is None:
            return self._bodies.get(request, self.endpoint.name, mode)
        return self._protocol_bodies.get(request, self.protocol, self.endpoint.name, mode)

    async def upload(self, file: Path) -> str:
        return created_id(await self.post_form(self._url("/files"), file, {"purpose": "batch"}))

    async def get(self, batch_id: str) -> BatchState:
        return self._state(await self.get_json(self.batch_url(batch_id)))

    async def recent(self, since: float) -> AsyncIterator[BatchState]:
        """The batches that were created since a time, page by page, and those whose time is not stated."""
        query = self.first_page
        while query:
            page = await self.get_json(self.batch_url(), query)
            states = [self._state(entry) for entry in objects(self.listed(page))]
            recent = [
                state for state in states if not state.created or state.created >= since - CLOCKS_S
            ]
            for state in recent:
                yield state
            query = self.next_page(page, states, query) if recent else {}

    def next_page(
        self, page: Any, states: Sequence[BatchState], query: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The query of the page behind this one, empty for the last."""
        more = states and not isinstance(page, list) and page.get("has_more")
        return {**self.first_page, self.cursor: states[-1].id} if more else {}

    def listed(self, page: Any) -> Any:
        """The batches in a page of the list."""
        return page if isinstance(page, list) else page.get("data")

    def batch_url(self, batch_id: str = "") -> str:
        """Where a batch is, or the list of all."""
        return self._url(f"/batches/{batch_id}" if batch_id else "/batches")

    @abstractmethod
    def _state(self, value: Any) -> BatchState:
        """A batch in the provider's words."""

    async def cancel(self, batch_id: str) -> None:
        await self.post_json(self.batch_url(f"{batch_id}/cancel"), {})

    async def results(self, state: BatchState, to: Path) -> None:
        for file in state.files:
            await self.download(self.result_url(file), to)

    def result_url(self, file: str) -> str:
        """Where a file of results is."""
        return self._url(f"/files/{file}/content")

    def _url(self, path: str) -> str:
        """The URL of a path beside that of ordinary calls."""
        return sibling_url(self.endpoint.url, "/chat/completions", path)

    async def aclose(self) -> None:
        await self._clients.close()

    async def get_json(self, url: str, query: Mapping[str, Any] | None = None) -> Any:
        """The JSON at a URL, to whose query more is added. Raises ProviderError."""
        return await self._json(self._request("GET", url, CALL_S).query(query or {}), url)

    async def post_json(self, url: str, body: Any) -> Any:
        """The JSON that a POST gives. Raises ProviderError."""
        return await self._json(self._request("POST", url, CALL_S).body_json(body), url)

    async def post_stream(self, url: str, parts: AsyncIterator[bytes], size: int) -> Any:
        """As `post_json`, with a JSON body of that size that is sent in parts."""
        request = self._request(
            "POST",
            url,
            TRANSFER_S,
            {"Content-Type": "application/json", "Content-Length": str(size)},
        )
        return await self._json(request.body_stream(parts), url)

    async def post_form(self, url: str, file: Path, fields: Mapping[str, str]) -> Any:
        """As `post_json`, with a multipart form whose part ``file`` has the file's content."""
        form = FormBuilder()
        for name, value in fields.items():
            form = form.text(name, value)
        part = (await PartBuilder.from_file(file)).file_name(file.name).mime("application/jsonl")
        return await self._json(
            self._request("POST", url, TRANSFER_S).multipart(form.part("file", part)), url
        )

    async def upload_resumable(self, url: str, file: Path, about: Any, kind: str) -> Any:
        """Google's resumable upload: announce the file, then send it to the address that the reply names."""
        size = file_size(file)
        announced = {
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(size),
            "X-Goog-Upload-Header-Content-Type": kind,
        }
        request = self._request("POST", url, CALL_S, announced).body_json(about)
        async with self._open(request, url) as response:
            target = ResponseHeaders(response).get("x-goog-upload-url")
            await self._content(response, url)
        if not target or parse_address(target).netloc != parse_address(url).netloc:
            raise Retryable(
                f"model {self.model.name}: the upload was not accepted", kind="unavailable"
            )
        sent = {
            "X-Goog-Upload-Offset": "0",
            "X-Goog-Upload-Command": "upload, finalize",
            "Content-Length": str(size),
        }
        return await self._json(
            self._request("POST", target, TRANSFER_S, sent).body_stream(file_chunks(file)), url
        )

    async def download(self, url: str, to: Path) -> None:
        """Append what is at a URL to a file. Raises ProviderError."""
        async with self._open(self._request("GET", url, TRANSFER_S), url) as response:
            if not 200 <= response.status < 300:
                await self._content(response, url)
            with to.open("ab") as file:
                while (part := await response.body_reader.read_chunk()) is not None:
                    with output_errors(to):
                        file.write(part)

    def _request(
        self, method: str, url: str, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> RequestBuilder:
        client = self._clients.get(Url(url))
        request = client.request(method, url).headers({**self._headers, **(headers or {})})
        return request.timeout(timedelta(seconds=timeout_s))

    @asynccontextmanager
    async def _open(self, request: RequestBuilder, url: str) -> AsyncIterator[Response]:
        """The response, while its body is read. Transport errors are Retryable."""
        try:
            async with request.build_streamed() as response:
                yield response
        except (PyreqwestError, OSError) as error:
            host = parse_address(url).netloc
            message = f"model {self.model.name}: no reply from {host}: {root_cause(error)}"
            raise Retryable(message, kind="unavailable") from None

    async def _json(self, request: RequestBuilder, url: str) -> Any:
        async with self._open(request, url) as response:
            content = await self._content(response, url)
        try:
            return loads(content)
        except ValueError:
            raise Retryable(
                f"model {self.model.name}: {url} replied with no JSON", kind="unavailable"
            ) from None

    async def _content(self, response: Response, url: str) -> bytes:
        content = bytes(await response.bytes())
        if 200 <= response.status < 300:
            return content
        source = Source(url.partition("?")[0], ResponseHeaders(response), self._secrets)
        raise response_error(response.status, content, self.model.name, source)


def created_id(value: Any) -> str:
    """The id of what was created. Raises Rejected for a reply without one."""
    identity = value.get("id") if isinstance(value, dict) else None
    if not isinstance(identity, str) or not identity:
        raise Rejected(f"the batch interface replied without an id: {str(value)[:200]}")
    return identity


def seconds_of(text: Any) -> float:
    """The seconds since the epoch of a number or of a date and time, 0 for anything else."""
    if isinstance(text, int | float):
        return float(text)
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0


def sibling_url(url: str, tail: str, path: str) -> str:
    """The URL with ``path`` in place of what its path ends with; the query stays."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.removesuffix(tail) + path))


async def file_chunks(file: Path) -> AsyncIterator[bytes]:
    """The content of a file in parts."""
    with file.open("rb") as opened:
        while part := opened.read(_CHUNK):
            yield part


def file_size(file: Path) -> int:
    return file.stat().st_size
