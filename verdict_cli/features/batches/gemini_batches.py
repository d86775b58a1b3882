"""Gemini's batches (`models/NAME:batchGenerateContent`), whose requests are an uploaded file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from verdict_cli.errors import Rejected
from verdict_cli.features.batches.batch_api import (
    BATCHES_A_PAGE,
    CLOCKS_S,
    BatchState,
    HttpBatchApi,
    ResultLine,
    seconds_of,
    sibling_url,
)
from verdict_cli.features.batches.openai_batches import with_query
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.wire_protocol import object_at, objects
from verdict_cli.messages import Request

_STATUS = {3: 400, 5: 404, 7: 403, 8: 429, 4: 504, 13: 500, 14: 503, 16: 401}
"""The HTTP status of each canonical error code that results state."""
_ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"})


class GeminiBatches(HttpBatchApi):
    """A batch's display name is its tag. Results are a file."""

    provider = "gemini"
    max_requests = 10**9
    max_bytes = 2_000_000_000

    def line(self, custom_id: str, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        body, sent = self.body(request, mode)
        return b'{"key":"%b","request":%b}\n' % (custom_id.encode(), body), sent

    async def upload(self, file: Path) -> str:
        about = {"file": {"displayName": file.name}}
        url = self._root(f"/upload{self._version}/files")
        made = await self.http.upload_resumable(url, file, about, "application/jsonl")
        return _name_of(object_at(made, "file"))

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        body = {"batch": {"displayName": tag, "inputConfig": {"fileName": file_id}}}
        name = quote(self.endpoint.name, safe="")
        return self._state(await self.http.post(self._url(f"/models/{name}:batchGenerateContent"), body))

    async def get(self, batch_id: str) -> BatchState:
        return self._state(await self.http.get(self._url(f"/{batch_id}")))

    async def recent(self, since: float) -> AsyncIterator[BatchState]:
        token = ""
        while True:
            query = urlencode({"pageSize": BATCHES_A_PAGE} | ({"pageToken": token} if token else {}))
            page = await self.http.get(with_query(self._url("/batches"), query))
            states = [self._state(each) for each in objects(page.get("operations") or page.get("batches"))]
            for state in states:
                yield state
            token = str(page.get("nextPageToken") or "")
            if not token or all(state.created and state.created < since - CLOCKS_S for state in states):
                return

    async def cancel(self, batch_id: str) -> None:
        await self.http.post(self._url(f"/{batch_id}:cancel"), {})

    def result_url(self, file: str) -> str:
        return self._root(f"/download{self._version}/{file}:download?alt=media")

    def read(self, line: Any) -> ResultLine:
        custom_id = line.get("key") or object_at(line, "metadata")["key"]
        if isinstance(line.get("response"), dict):
            return ResultLine(custom_id, 200, line["response"])
        error = object_at(line, "error") or object_at(line, "status")
        return ResultLine(custom_id, _STATUS.get(int(error.get("code") or 13), 500), {"error": dict(error)})

    @property
    def _version(self) -> str:
        return urlsplit(self.endpoint.url).path.partition("/models/")[0]

    def _url(self, path: str) -> str:
        return self._root(f"{self._version}{path}")

    def _root(self, path: str) -> str:
        return sibling_url(self.endpoint.url, urlsplit(self.endpoint.url).path, path)

    def _state(self, value: Any) -> BatchState:
        """A batch, or the long-running operation around it."""
        about = object_at(value, "metadata") or value
        output = object_at(about, "output") or object_at(value, "response")
        status = str(about.get("state") or "").removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        error = object_at(value, "error") or object_at(about, "error")
        file = output.get("responsesFile")
        stats = object_at(about, "batchStats")
        return BatchState(
            _name_of(value),
            status.lower(),
            status in _ENDED,
            answered=_number(stats.get("successfulRequestCount")),
            requests=_number(stats.get("requestCount")),
            files=(str(file),) if file else (),
            problem=str(error.get("message") or "") if status == "FAILED" else "",
            tag=str(about.get("displayName") or ""),
            created=seconds_of(about.get("createTime")),
        )


def _name_of(value: Any) -> str:
    name = value.get("name") if hasattr(value, "get") else None
    if not isinstance(name, str) or not name:
        raise Rejected(f"the batch interface replied without a name: {str(value)[:200]}")
    return name


def _number(value: Any) -> int:
    """A count, which Google's JSON writes as text."""
    return int(value) if str(value).isdigit() else 0
