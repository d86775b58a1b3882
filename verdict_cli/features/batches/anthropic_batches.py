"""Anthropic's Message Batches (`/v1/messages/batches`): the requests are sent with the batch, which keeps no metadata."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from verdict_cli.features.batches.batch_api import (
    BATCHES_A_PAGE,
    CLOCKS_S,
    BatchState,
    HttpBatchApi,
    ResultLine,
    file_size,
    seconds_of,
    sibling_url,
)
from verdict_cli.features.batches.openai_batches import created_id, with_query
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.wire_protocol import count, object_at, objects
from verdict_cli.messages import Request

_START, _END = b'{"requests":[', b"]}"
_STATUS = {
    "invalid_request_error": 400,
    "request_too_large": 400,
    "billing_error": 402,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
"""The HTTP status of each type of error, which results do not state."""


class AnthropicBatches(HttpBatchApi):
    """A batch is created with all its requests in one body."""

    provider = "anthropic"
    max_requests = 100_000
    max_bytes = 255_000_000
    has_tags = False

    def line(self, custom_id: str, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        body, sent = self.body(request, mode)
        return b'{"custom_id":"%b","params":%b}\n' % (custom_id.encode(), body), sent

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        # Commas take the place of line ends, but for the last one.
        size = file_size(file) - 1 + len(_START) + len(_END)
        return self._state(await self.http.post_stream(self._url(), _body_parts(file), size))

    async def get(self, batch_id: str) -> BatchState:
        return self._state(await self.http.get(self._url(f"/{batch_id}")))

    async def recent(self, since: float) -> AsyncIterator[BatchState]:
        after = ""
        while True:
            query = urlencode({"limit": BATCHES_A_PAGE} | ({"after_id": after} if after else {}))
            page = await self.http.get(with_query(self._url(), query))
            states = [self._state(each) for each in objects(page.get("data"))]
            for state in states:
                if not state.created or state.created >= since - CLOCKS_S:
                    yield state
            if not states or not page.get("has_more") or (states[-1].created or since) < since - CLOCKS_S:
                return
            after = states[-1].id

    async def cancel(self, batch_id: str) -> None:
        await self.http.post(self._url(f"/{batch_id}/cancel"), {})

    async def results(self, state: BatchState, to: Path) -> None:
        await self.http.download(self._url(f"/{state.id}/results"), to)

    def read(self, line: Any) -> ResultLine:
        custom_id, result = line["custom_id"], line["result"]
        kind = result["type"]
        if kind == "succeeded":
            return ResultLine(custom_id, 200, result["message"])
        if kind in ("expired", "canceled"):
            return ResultLine(custom_id, unpaid=kind)
        error = object_at(result, "error")
        error = object_at(error, "error") or error
        return ResultLine(custom_id, _STATUS.get(str(error.get("type")), 500), {"error": dict(error)})

    def _url(self, path: str = "") -> str:
        return sibling_url(self.endpoint.url, "/messages", f"/messages/batches{path}")

    def _state(self, value: Any) -> BatchState:
        counts = object_at(value, "request_counts")
        status = str(value.get("processing_status") or "")
        ended = status == "ended"
        return BatchState(
            created_id(value),
            status,
            ended,
            answered=count(counts.get("succeeded")),
            requests=sum(map(count, counts.values())),
            files=("results",) if ended else (),
            created=seconds_of(value.get("created_at")),
        )


async def _body_parts(file: Path) -> AsyncIterator[bytes]:
    """The body of a batch's creation: the lines of a request file as a list."""
    yield _START
    with file.open("rb") as lines:
        parts: list[bytes] = []
        size = number = 0
        for line in lines:
            parts.append((b"," if number else b"") + line.rstrip(b"\n"))
            number, size = number + 1, size + len(line)
            if size > 1 << 20:
                yield b"".join(parts)
                parts, size = [], 0
        yield b"".join(parts)
    yield _END
