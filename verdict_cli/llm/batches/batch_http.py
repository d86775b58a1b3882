"""HTTP for batch interfaces: JSON calls, uploads from a file and downloads to one, with the errors of ordinary calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyreqwest.exceptions import PyreqwestError
from pyreqwest.http import Url
from pyreqwest.multipart import FormBuilder, PartBuilder
from pyreqwest.request import RequestBuilder
from pyreqwest.response import Response

from verdict_cli.errors import Retryable
from verdict_cli.language.model_address import parse_address
from verdict_cli.llm.batches.request_file import disk_errors
from verdict_cli.llm.http_client import HttpClients, ResponseHeaders, root_cause
from verdict_cli.llm.providers.http_errors import Source, response_error
from verdict_cli.llm.providers.wire_values import loads

CALL_S = 60.0
TRANSFER_S = 3600.0
"""The longest that a file of some hundred megabytes may take."""
_ERROR_BYTES = 16 * 2**10
_CHUNK = 1 << 20


class BatchHttp:
    """Calls one provider with a model's key. ``secrets`` are removed from errors."""

    def __init__(self, model: str, headers: Mapping[str, str], secrets: tuple[str, ...]) -> None:
        self._model, self._headers, self._secrets = model, headers, secrets
        self._clients = HttpClients()

    async def close(self) -> None:
        await self._clients.close()

    async def get(self, url: str) -> Any:
        """The JSON at a URL. Raises ProviderError."""
        return await self._json(self._request("GET", url, CALL_S), url)

    async def post(self, url: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """The JSON that a POST gives. Raises ProviderError."""
        request = self._request("POST", url, CALL_S, headers)
        return await self._json(request if body is None else request.body_json(body), url)

    async def post_stream(self, url: str, parts: AsyncIterator[bytes], size: int) -> Any:
        """As `post`, with a JSON body of that size that is sent in parts."""
        request = self._request(
            "POST", url, TRANSFER_S, {"Content-Type": "application/json", "Content-Length": str(size)}
        )
        return await self._json(request.body_stream(parts), url)

    async def post_form(self, url: str, file: Path, fields: Mapping[str, str]) -> Any:
        """As `post`, with a multipart form whose part ``file`` has the file's content."""
        form = FormBuilder()
        for name, value in fields.items():
            form = form.text(name, value)
        part = (await PartBuilder.from_file(file)).file_name(file.name).mime("application/jsonl")
        return await self._json(self._request("POST", url, TRANSFER_S).multipart(form.part("file", part)), url)

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
            raise Retryable(f"model {self._model}: the upload was not accepted", kind="unavailable")
        sent = {"X-Goog-Upload-Offset": "0", "X-Goog-Upload-Command": "upload, finalize", "Content-Length": str(size)}
        return await self._json(self._request("POST", target, TRANSFER_S, sent).body_stream(file_chunks(file)), url)

    async def download(self, url: str, to: Path) -> None:
        """Append what is at a URL to a file. Raises ProviderError."""
        async with self._open(self._request("GET", url, TRANSFER_S), url) as response:
            if not 200 <= response.status < 300:
                await self._content(response, url)
            with to.open("ab") as file:
                while (part := await self._chunk(response)) is not None:
                    with disk_errors(to):
                        file.write(part)

    def _request(
        self, method: str, url: str, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> RequestBuilder:
        client = self._clients.get(Url(url))
        request = client.request(method, url).headers({**self._headers, **(headers or {})})
        return request.timeout(timedelta(seconds=timeout_s))

    def _open(self, request: RequestBuilder, url: str) -> _Opened:
        return _Opened(request, self._model, parse_address(url).netloc)

    async def _json(self, request: RequestBuilder, url: str) -> Any:
        async with self._open(request, url) as response:
            content = await self._content(response, url)
        try:
            return loads(content)
        except ValueError:
            raise Retryable(f"model {self._model}: {url} replied with no JSON", kind="unavailable") from None

    async def _content(self, response: Response, url: str) -> bytes:
        parts = []
        while (part := await self._chunk(response)) is not None:
            parts.append(part)
        content = b"".join(parts)
        if 200 <= response.status < 300:
            return content
        source = Source(url.partition("?")[0], ResponseHeaders(response), self._secrets)
        raise response_error(response.status, content, self._model, source)

    async def _chunk(self, response: Response) -> bytes | None:
        part = await response.body_reader.read_chunk()
        return None if part is None else bytes(part)


class _Opened:
    """A request in progress, whose transport errors are Retryable."""

    def __init__(self, request: RequestBuilder, model: str, host: str) -> None:
        self._sending = request.build_streamed()
        self._model, self._host = model, host

    async def __aenter__(self) -> Response:
        try:
            return await self._sending.__aenter__()
        except (PyreqwestError, OSError) as error:
            raise self._lost(error) from None

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        await self._sending.__aexit__(kind, error, trace)
        if isinstance(error, PyreqwestError | OSError):
            raise self._lost(error) from None

    def _lost(self, error: Exception) -> Retryable:
        return Retryable(f"model {self._model}: no reply from {self._host}: {root_cause(error)}", kind="unavailable")


async def file_chunks(file: Path) -> AsyncIterator[bytes]:
    """The content of a file in parts."""
    with file.open("rb") as opened:
        while part := opened.read(_CHUNK):
            yield part


def file_size(file: Path) -> int:
    """The size of a file in bytes."""
    return file.stat().st_size
