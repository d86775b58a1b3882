"""The batch interfaces that differ from OpenAI's: Together, Anthropic, Gemini and Mistral; and files in place of one."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import orjson

from verdict_cli.features.batches.batch_api import (
    BATCHES_A_PAGE,
    TAG,
    BatchApi,
    BatchState,
    ResultLine,
    created_id,
)
from verdict_cli.features.batches.batch_facts import TO_FILE
from verdict_cli.features.batches.batch_keys import batch_settings
from verdict_cli.language.model_address import parse_address
from verdict_cli.llm.http_client import ResponseHeaders
from verdict_cli.llm.providers.wire_protocol import Envelope, count
from verdict_cli.llm.providers.wire_values import object_at
from verdict_cli.messages import JsonObject
from verdict_cli.model import Model
from verdict_cli.storage.paths import output_errors


class TogetherBatches(BatchApi):
    """Together's: its own upload path, and no metadata."""

    has_tags = False
    upload_path = "/files/upload"
    upload_fields: ClassVar = {
        "purpose": "batch-api",
        "file_name": "requests.jsonl",
        "file_type": "jsonl",
    }


class AnthropicBatches(BatchApi):
    """Anthropic (`/v1/messages/batches`): a batch is created with all its requests in one body, and keeps no metadata."""

    max_requests = 100_000
    max_bytes = 255_000_000
    has_tags = False
    opening, separator, closing = b'{"requests":[', b",", b"]}"
    call_path = re.compile(r"/messages$")
    path = "/messages/batches"
    cursor = "after_id"

    def line(self, custom_id: str, body: bytes) -> bytes:
        return b'{"custom_id":"%b","params":%b}' % (custom_id.encode(), body)

    async def upload(self, file: Path) -> str:
        return ""

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        kind = {"Content-Type": "application/json"}
        return self.state(await self.post_file(self.url(self.path), file, kind))

    def file_url(self, batch_id: str, file: str) -> str:
        return self.url_of(f"{batch_id}/{file}")

    def read(self, line: Any) -> ResultLine:
        custom_id, result = line["custom_id"], line["result"]
        kind = result["type"]
        if kind == "succeeded":
            return ResultLine(custom_id, body=result["message"])
        if kind in ("expired", "canceled"):
            return ResultLine(custom_id, unpaid=kind)
        error = object_at(result, "error")
        return ResultLine(custom_id, body={"error": error.get("error") or error})

    def state(self, value: Envelope) -> BatchState:
        counts = object_at(value, "request_counts")
        status = value.get("processing_status")
        return super().state(
            {
                **value,
                "status": status,
                "request_counts": {
                    "total": sum(map(count, counts.values())),
                    "completed": counts.get("succeeded"),
                },
                "output_file_id": "results" if status == "ended" else None,
            }
        )


_GEMINI_STATUS = {3: 400, 5: 404, 7: 403, 8: 429, 4: 504, 13: 500, 14: 503, 16: 401}
"""The HTTP status of each canonical error code that results state."""


class GeminiBatches(BatchApi):
    """Gemini (`models/NAME:batchGenerateContent`): requests are an uploaded file, results are one. A batch's display name is its tag."""

    max_requests = 10**9
    max_bytes = 2_000_000_000
    call_path = re.compile(r"/models/.*$")
    cancel_path = ":cancel"
    page_size, cursor = "pageSize", "pageToken"
    listed = "operations"

    def line(self, custom_id: str, body: bytes) -> bytes:
        return b'{"key":"%b","request":%b}' % (custom_id.encode(), body)

    async def upload(self, file: Path) -> str:
        """Announce the file, then send it to the address that the reply names."""
        url = self.url("/files", before="/upload")
        announced = self.request("POST", url).headers(
            {
                "X-Goog-Upload-Protocol": "resumable",
                "X-Goog-Upload-Command": "start",
                "X-Goog-Upload-Header-Content-Length": str(file.stat().st_size),  # noqa: ASYNC240
                "X-Goog-Upload-Header-Content-Type": "application/jsonl",
            }
        )
        async with self.response(
            announced.body_json({"file": {"displayName": file.name}})
        ) as response:
            target = ResponseHeaders(response).get("x-goog-upload-url")
        if not target or parse_address(target).netloc != parse_address(url).netloc:
            raise self.unavailable("the upload was not accepted")
        headers = {"X-Goog-Upload-Offset": "0", "X-Goog-Upload-Command": "upload, finalize"}
        uploaded = await self.post_file(target, file, headers)
        return created_id(object_at(uploaded, "file"), "name")

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        body = {"batch": {"displayName": tag, "inputConfig": {"fileName": file_id}}}
        url = self.url(f"/models/{quote(self.name, safe='')}:batchGenerateContent")
        return self.state(await self.post(url, body))

    def next_place(self, page: JsonObject, states: Sequence[BatchState], place: Any) -> Any:
        return page.get("nextPageToken")

    def url_of(self, batch_id: str) -> str:
        return self.url(f"/{batch_id}")

    def file_url(self, batch_id: str, file: str) -> str:
        return self.url(f"/{file}:download", before="/download") + "?alt=media"

    def read(self, line: Any) -> ResultLine:
        custom_id = line.get("key") or object_at(line, "metadata")["key"]
        if isinstance(line.get("response"), dict):
            return ResultLine(custom_id, body=line["response"])
        error = object_at(line, "error") or object_at(line, "status")
        status = _GEMINI_STATUS.get(int(error.get("code") or 13), 500)
        return ResultLine(custom_id, status, {"error": error})

    def state(self, value: Envelope) -> BatchState:
        """A batch, or the long-running operation around it."""
        about = object_at(value, "metadata") or value
        output = object_at(about, "output") or object_at(value, "response")
        status = re.sub("^(BATCH|JOB)_STATE_", "", str(about.get("state")))
        error = object_at(value, "error") or object_at(about, "error")
        stats = object_at(about, "batchStats")
        return super().state(
            {
                "id": created_id(value, "name"),
                "status": status,
                "request_counts": {
                    "total": stats.get("requestCount"),
                    "completed": stats.get("successfulRequestCount"),
                },
                "output_file_id": output.get("responsesFile"),
                "error": error.get("message") if status == "FAILED" else None,
                "metadata": {TAG: about.get("displayName")},
                "created_at": about.get("createTime"),
            }
        )


_MOST_HOURS = 168
"""The longest that a job may take, by the API."""


class MistralBatches(BatchApi):
    """Mistral (`/v1/files` and `/v1/batch/jobs`), whose model and endpoint are the job's, not the requests'."""

    max_requests = 1_000_000
    max_bytes = 500_000_000
    path = "/batch/jobs"
    page_size, cursor = "page_size", "page"

    def line(self, custom_id: str, body: bytes) -> bytes:
        settings = orjson.loads(body)
        settings.pop("model", None)
        return b'{"custom_id":"%b","body":%b}' % (custom_id.encode(), orjson.dumps(settings))

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        hours = math.ceil(batch_settings(self.model).wait_s / 3600)
        body = {
            "input_files": [file_id],
            "endpoint": self.target,
            "model": self.name,
            "metadata": {TAG: tag},
            "timeout_hours": min(_MOST_HOURS, hours),
        }
        return self.state(await self.post(self.url(self.path), body))

    def next_place(self, page: JsonObject, states: Sequence[BatchState], place: Any) -> Any:
        return None if len(states) < BATCHES_A_PAGE else (place or 0) + 1

    def state(self, value: Envelope) -> BatchState:
        problems = value.get("errors") if value.get("status") == "FAILED" else None
        return super().state(
            {
                **value,
                "request_counts": {
                    "total": value.get("total_requests"),
                    "completed": value.get("succeeded_requests"),
                },
                "output_file_id": value.get("output_file"),
                "error_file_id": value.get("error_file"),
                "errors": {"data": problems},
            }
        )


class FileBatches(BatchApi):
    """Writes the requests of a wave's batches to ``file``; or reads results from it.

    Nothing is sent."""

    def __init__(self, model: Model, file: Path) -> None:
        super().__init__(model)
        self.provider = TO_FILE
        self._file = file
        self._mode = "wb"

    @property
    def name(self) -> str:
        return self.model.name.partition("/")[2] or self.model.name

    @property
    def target(self) -> str:
        return "/v1/chat/completions"

    async def upload(self, file: Path) -> str:
        return ""

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        with (
            output_errors(self._file),
            file.open("rb") as source,
            self._file.open(self._mode) as target,
        ):
            shutil.copyfileobj(source, target)
        self._mode = "ab"
        return BatchState(str(self._file), "exported", ended=False)

    async def get(self, batch_id: str) -> BatchState:
        return BatchState(batch_id, "imported", ended=True)

    async def recent(self, since: float) -> list[BatchState]:
        return []

    async def results(self, state: BatchState, to: Path) -> None:
        shutil.copyfile(self._file, to)
