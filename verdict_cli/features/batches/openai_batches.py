"""OpenAI's batch interface (`/v1/files` and `/v1/batches`), and those that copy it: Azure, Groq, Together."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from verdict_cli.errors import Rejected
from verdict_cli.features.batches.batch_api import (
    BATCHES_A_PAGE,
    CLOCKS_S,
    BatchState,
    HttpBatchApi,
    ResultLine,
    sibling_url,
)
from verdict_cli.features.batches.batch_interfaces import TO_FILE
from verdict_cli.features.batches.request_file import disk_errors
from verdict_cli.llm.model_families import provider_of
from verdict_cli.llm.providers.chat_completions import RequestBodies
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.wire_protocol import WireProtocol, count, object_at, objects
from verdict_cli.messages import Request
from verdict_cli.model import Model

TAG = "verdict"
"""The key of a batch's metadata."""
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_UNPAID = frozenset({"batch_expired", "batch_cancelled"})


class OpenAIBatches(HttpBatchApi):
    """A file of requests, a batch that names it, and a file of results and one of errors."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.provider = provider_of(model.name)
        path = urlsplit(self.endpoint.url).path
        self._tail = "/responses" if self.protocol is not None else "/chat/completions"
        deployment, of_deployment, _ = path.partition("/deployments/")
        self._tail_of_url = path.removeprefix(deployment) if of_deployment else self._tail
        # Azure's dated API names the path without its version.
        self._target = self._tail if of_deployment else f"/v1{self._tail}"

    def line(self, custom_id: str, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        body, sent = self.body(request, mode)
        return openai_line(custom_id, self._target, body), sent

    async def upload(self, file: Path) -> str:
        made = await self.http.post_form(self._url("/files"), file, {"purpose": "batch"})
        return created_id(made)

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        body = {"input_file_id": file_id, "endpoint": self._target, "completion_window": "24h", "metadata": {TAG: tag}}
        return self._state(await self.http.post(self._url("/batches"), body))

    async def get(self, batch_id: str) -> BatchState:
        return self._state(await self.http.get(self._url(f"/batches/{batch_id}")))

    async def recent(self, since: float) -> AsyncIterator[BatchState]:
        after = ""
        while True:
            query = urlencode({"limit": BATCHES_A_PAGE} | ({"after": after} if after else {}))
            page = await self.http.get(with_query(self._url("/batches"), query))
            states = [self._state(each) for each in objects(page if isinstance(page, list) else page.get("data"))]
            for state in states:
                yield state
            if not states or (states[-1].created and states[-1].created < since - CLOCKS_S):
                return
            if isinstance(page, list) or not page.get("has_more"):
                return
            after = states[-1].id

    async def cancel(self, batch_id: str) -> None:
        await self.http.post(self._url(f"/batches/{batch_id}/cancel"), {})

    def read(self, line: Any) -> ResultLine:
        return openai_result(line)

    def _url(self, path: str) -> str:
        return sibling_url(self.endpoint.url, self._tail_of_url, path)

    def _state(self, value: Any) -> BatchState:
        status = str(value.get("status") or "").lower()
        counts = object_at(value, "request_counts")
        files = (value.get(name) for name in ("output_file_id", "error_file_id"))
        problems = objects(object_at(value, "errors").get("data"))
        words = "; ".join(f"{each.get('code') or ''} {each.get('message') or ''}".strip() for each in problems)
        created = value.get("created_at")
        return BatchState(
            created_id(value),
            status,
            status in _ENDED,
            answered=count(counts.get("completed")),
            requests=count(counts.get("total")),
            files=tuple(str(file) for file in files if file),
            problem=words or str(value.get("error") or ""),
            tag=str(object_at(value, "metadata").get(TAG) or ""),
            created=float(created) if isinstance(created, int | float) else 0.0,
        )


class TogetherBatches(OpenAIBatches):
    """Together's: its own upload path, no metadata, and a created batch inside `job`."""

    has_tags = False

    async def upload(self, file: Path) -> str:
        fields = {"purpose": "batch-api", "file_name": file.name, "file_type": "jsonl"}
        return created_id(await self.http.post_form(self._url("/files/upload"), file, fields))

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        body = {"input_file_id": file_id, "endpoint": self._target, "completion_window": "24h"}
        made = await self.http.post(self._url("/batches"), body)
        return self._state(object_at(made, "job") or made)


def created_id(value: Any) -> str:
    """The id of what was created. Raises Rejected for a reply without one."""
    found = value.get("id") if isinstance(value, dict) else None
    if not isinstance(found, str) or not found:
        raise Rejected(f"the batch interface replied without an id: {str(value)[:200]}")
    return found


def with_query(url: str, query: str) -> str:
    """The URL with another part of its query."""
    return f"{url}{'&' if urlsplit(url).query else '?'}{query}"


def openai_line(custom_id: str, target: str, body: bytes) -> bytes:
    """A line of a request file."""
    return b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}\n' % (custom_id.encode(), target.encode(), body)


def openai_result(line: Any) -> ResultLine:
    """The outcome in a decoded line of results or errors. Raises ValueError for a line that is not one."""
    custom_id = line["custom_id"]
    error, response = line.get("error"), line.get("response")
    if isinstance(response, dict) and response.get("status_code"):
        return ResultLine(custom_id, int(response["status_code"]), response.get("body"))
    if isinstance(error, dict) and error.get("code") in _UNPAID:
        return ResultLine(custom_id, unpaid=str(error.get("message") or error["code"]))
    return ResultLine(custom_id, 500, {"error": error})


_EXPORTED = "exported"


class FileBatches:
    """Writes each batch to ``target``; a second one of the same wave gets a number. Nothing is sent."""

    provider = TO_FILE
    max_requests = 10**9
    max_bytes = 10**12
    has_tags = True
    protocol: WireProtocol | None = None

    def __init__(self, model: Model, target: Path | None = None) -> None:
        self._name = model.name.partition("/")[2] or model.name
        self._target = target
        self._written = 0
        self._bodies = RequestBodies()

    def line(self, custom_id: str, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        body, sent = self._bodies.get(request, self._name, mode)
        return openai_line(custom_id, "/v1/chat/completions", body), sent

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        assert self._target is not None
        self._written += 1
        target = self._target
        if self._written > 1:
            target = target.with_name(f"{target.stem}-{self._written}{target.suffix}")
        with disk_errors(target):
            shutil.copyfile(file, target)
        return BatchState(str(target), _EXPORTED, ended=False)

    async def get(self, batch_id: str) -> BatchState:
        return BatchState(batch_id, _EXPORTED, ended=False)

    async def recent(self, since: float) -> AsyncIterator[BatchState]:
        nothing: list[BatchState] = []
        for state in nothing:
            yield state

    async def cancel(self, batch_id: str) -> None:
        """There is nothing to cancel."""

    async def results(self, state: BatchState, to: Path) -> None:
        """There are no files of results: the user imports one."""

    def read(self, line: Any) -> ResultLine:
        return openai_result(line)

    async def close(self) -> None:
        """There is nothing to close."""
