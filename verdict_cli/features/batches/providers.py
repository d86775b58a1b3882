"""The batch interfaces of OpenAI (and those that copy it: Azure, Groq, Together), Anthropic, Gemini and Mistral."""

from __future__ import annotations

import math
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from verdict_cli.errors import Rejected
from verdict_cli.features.batches.batch_api import (
    BATCHES_A_PAGE,
    BatchApi,
    BatchState,
    HttpBatchApi,
    ResultLine,
    created_id,
    file_size,
    seconds_of,
    sibling_url,
)
from verdict_cli.features.batches.batch_facts import TO_FILE
from verdict_cli.features.batches.batch_keys import batch_settings
from verdict_cli.llm.model_families import provider_of
from verdict_cli.llm.providers.chat_completions import RequestBodies
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.wire_protocol import count, object_at, objects
from verdict_cli.messages import Request
from verdict_cli.model import Model
from verdict_cli.storage.paths import output_errors

TAG = "verdict"
"""The key of a batch's metadata."""
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})


class OpenAIBatches(HttpBatchApi):
    """OpenAI (`/v1/files` and `/v1/batches`): a file of requests, a batch that names it, a file of results and one of errors."""

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

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        body = {"input_file_id": file_id, "endpoint": self._target, "completion_window": "24h"}
        created = await self.post_json(
            self.batch_url(), body | ({"metadata": {TAG: tag}} if self.has_tags else {})
        )
        return self._state(object_at(created, "job") or created)  # Together's is inside `job`

    def _url(self, path: str) -> str:
        return sibling_url(self.endpoint.url, self._tail_of_url, path)

    def _state(self, value: Any) -> BatchState:
        status = str(value.get("status") or "").lower()
        counts = object_at(value, "request_counts")
        files = (value.get(name) for name in ("output_file_id", "error_file_id"))
        problems = objects(object_at(value, "errors").get("data"))
        words = "; ".join(
            f"{problem.get('code') or ''} {problem.get('message') or ''}".strip()
            for problem in problems
        )
        return BatchState(
            created_id(value),
            status,
            status in _ENDED,
            answered=count(counts.get("completed")),
            requests=count(counts.get("total")),
            files=tuple(str(file) for file in files if file),
            problem=words or str(value.get("error") or ""),
            tag=str(object_at(value, "metadata").get(TAG) or ""),
            created=seconds_of(value.get("created_at")),
        )


class TogetherBatches(OpenAIBatches):
    """Together's: its own upload path, and no metadata."""

    has_tags = False

    async def upload(self, file: Path) -> str:
        fields = {"purpose": "batch-api", "file_name": file.name, "file_type": "jsonl"}
        return created_id(await self.post_form(self._url("/files/upload"), file, fields))


def openai_line(custom_id: str, target: str, body: bytes) -> bytes:
    """A line of a request file."""
    return b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}\n' % (
        custom_id.encode(),
        target.encode(),
        body,
    )


_EXPORTED = "exported"


class FileBatches(BatchApi):
    """Writes each batch to ``target``; a second one of the same wave gets a number. Nothing is sent."""

    provider = TO_FILE

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
        with output_errors(target):
            shutil.copyfile(file, target)
        return BatchState(str(target), _EXPORTED, ended=False)

    async def get(self, batch_id: str) -> BatchState:
        return BatchState(batch_id, _EXPORTED, ended=False)


_ANTHROPIC_STATUS = {
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
    """Anthropic (`/v1/messages/batches`): a batch is created with all its requests in one body, and keeps no metadata."""

    provider = "anthropic"
    max_requests = 100_000
    max_bytes = 255_000_000
    has_tags = False
    uploads = False
    cursor = "after_id"

    def line(self, custom_id: str, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        body, sent = self.body(request, mode)
        return b'{"custom_id":"%b","params":%b}\n' % (custom_id.encode(), body), sent

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        # Commas take the place of line ends, but for the last one.
        size = file_size(file) - 1 + len(b'{"requests":[]}')
        return self._state(await self.post_stream(self.batch_url(), _body_parts(file), size))

    async def results(self, state: BatchState, to: Path) -> None:
        await self.download(f"{self.batch_url(state.id)}/results", to)

    def read(self, line: Any) -> ResultLine:
        custom_id, result = line["custom_id"], line["result"]
        kind = result["type"]
        if kind == "succeeded":
            return ResultLine(custom_id, 200, result["message"])
        if kind in ("expired", "canceled"):
            return ResultLine(custom_id, unpaid=kind)
        error = object_at(result, "error")
        error = object_at(error, "error") or error
        return ResultLine(
            custom_id, _ANTHROPIC_STATUS.get(str(error.get("type")), 500), {"error": dict(error)}
        )

    def batch_url(self, batch_id: str = "") -> str:
        return sibling_url(
            self.endpoint.url, "/messages", f"/messages/batches{batch_id and f'/{batch_id}'}"
        )

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
    comma = b'{"requests":['
    with file.open("rb") as opened:
        while lines := opened.readlines(1 << 20):
            yield comma + b",".join(line.rstrip(b"\n") for line in lines)
            comma = b","
    yield b"]}"


_GEMINI_STATUS = {3: 400, 5: 404, 7: 403, 8: 429, 4: 504, 13: 500, 14: 503, 16: 401}
"""The HTTP status of each canonical error code that results state."""
_GEMINI_ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"})


class GeminiBatches(HttpBatchApi):
    """Gemini (`models/NAME:batchGenerateContent`): requests are an uploaded file, results are one. A batch's display name is its tag."""

    provider = "gemini"
    max_requests = 10**9
    max_bytes = 2_000_000_000
    first_page: Mapping[str, Any] = {"pageSize": BATCHES_A_PAGE}

    def line(self, custom_id: str, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        body, sent = self.body(request, mode)
        return b'{"key":"%b","request":%b}\n' % (custom_id.encode(), body), sent

    async def upload(self, file: Path) -> str:
        about = {"file": {"displayName": file.name}}
        url = self._root(f"/upload{self._version}/files")
        uploaded = await self.upload_resumable(url, file, about, "application/jsonl")
        return _name_of(object_at(uploaded, "file"))

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        body = {"batch": {"displayName": tag, "inputConfig": {"fileName": file_id}}}
        name = quote(self.endpoint.name, safe="")
        return self._state(
            await self.post_json(self._url(f"/models/{name}:batchGenerateContent"), body)
        )

    async def cancel(self, batch_id: str) -> None:
        await self.post_json(self._url(f"/{batch_id}:cancel"), {})

    def next_page(
        self, page: Any, states: Sequence[BatchState], query: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        token = page.get("nextPageToken")
        return {**self.first_page, "pageToken": token} if token else {}

    def listed(self, page: Any) -> Any:
        return page.get("operations") or page.get("batches")

    def batch_url(self, batch_id: str = "") -> str:
        return self._url(f"/{batch_id or 'batches'}")

    def result_url(self, file: str) -> str:
        return self._root(f"/download{self._version}/{file}:download?alt=media")

    def read(self, line: Any) -> ResultLine:
        custom_id = line.get("key") or object_at(line, "metadata")["key"]
        if isinstance(line.get("response"), dict):
            return ResultLine(custom_id, 200, line["response"])
        error = object_at(line, "error") or object_at(line, "status")
        return ResultLine(
            custom_id, _GEMINI_STATUS.get(int(error.get("code") or 13), 500), {"error": dict(error)}
        )

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
        status = (
            str(about.get("state") or "").removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        )
        error = object_at(value, "error") or object_at(about, "error")
        file = output.get("responsesFile")
        stats = object_at(about, "batchStats")
        return BatchState(
            _name_of(value),
            status.lower(),
            status in _GEMINI_ENDED,
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


_MISTRAL_ENDED = frozenset({"SUCCESS", "FAILED", "TIMEOUT_EXCEEDED", "CANCELLED"})
_MOST_HOURS = 168
"""The longest that a job may take, by the API."""


class MistralBatches(HttpBatchApi):
    """Mistral (`/v1/files` and `/v1/batch/jobs`), whose model and endpoint are the job's, not the requests'."""

    provider = "mistral"
    max_requests = 1_000_000
    max_bytes = 500_000_000
    first_page: Mapping[str, Any] = {"page": 0, "page_size": BATCHES_A_PAGE}

    def line(self, custom_id: str, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        body, sent = self.body(request, mode)
        settings = orjson.loads(body)
        settings.pop("model", None)
        return b'{"custom_id":"%b","body":%b}\n' % (
            custom_id.encode(),
            orjson.dumps(settings),
        ), sent

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        hours = min(_MOST_HOURS, max(1, math.ceil(batch_settings(self.model).wait_s / 3600)))
        body = {
            "input_files": [file_id],
            "endpoint": "/v1/chat/completions",
            "model": self.endpoint.name,
            "metadata": {TAG: tag},
            "timeout_hours": hours,
        }
        return self._state(await self.post_json(self._url("/batch/jobs"), body))

    def next_page(
        self, page: Any, states: Sequence[BatchState], query: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        return {**query, "page": query["page"] + 1} if len(states) == BATCHES_A_PAGE else {}

    def batch_url(self, batch_id: str = "") -> str:
        return self._url(f"/batch/jobs{batch_id and f'/{batch_id}'}")

    def _state(self, value: Any) -> BatchState:
        status = str(value.get("status") or "")
        files = (value.get(name) for name in ("output_file", "error_file"))
        problems = [str(problem.get("message") or "") for problem in objects(value.get("errors"))]
        return BatchState(
            created_id(value),
            status.lower(),
            status in _MISTRAL_ENDED,
            answered=count(value.get("succeeded_requests")),
            requests=count(value.get("total_requests")),
            files=tuple(str(file) for file in files if file),
            problem="; ".join(filter(None, problems)) if status == "FAILED" else "",
            tag=str(object_at(value, "metadata").get(TAG) or ""),
            created=seconds_of(value.get("created_at")),
        )
