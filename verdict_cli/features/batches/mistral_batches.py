"""Mistral's batch jobs (`/v1/files` and `/v1/batch/jobs`): the model and the endpoint are the job's, not the requests'."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson

from verdict_cli.features.batches.batch_api import BATCHES_A_PAGE, CLOCKS_S, BatchState, HttpBatchApi, ResultLine
from verdict_cli.features.batches.batch_keys import batch_settings
from verdict_cli.features.batches.openai_batches import TAG, created_id, openai_result, with_query
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.wire_protocol import count, object_at, objects
from verdict_cli.messages import Request

_ENDED = frozenset({"SUCCESS", "FAILED", "TIMEOUT_EXCEEDED", "CANCELLED"})
_MOST_HOURS = 168
"""The longest that a job may take, by the API."""


class MistralBatches(HttpBatchApi):
    """A file of requests, a job that names it, and a file of results and one of errors."""

    provider = "mistral"
    max_requests = 1_000_000
    max_bytes = 500_000_000

    def line(self, custom_id: str, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        body, sent = self.body(request, mode)
        settings = orjson.loads(body)
        settings.pop("model", None)
        return b'{"custom_id":"%b","body":%b}\n' % (custom_id.encode(), orjson.dumps(settings)), sent

    async def upload(self, file: Path) -> str:
        return created_id(await self.http.post_form(self._url("/files"), file, {"purpose": "batch"}))

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        hours = min(_MOST_HOURS, max(1, math.ceil(batch_settings(self.model).wait_s / 3600)))
        body = {
            "input_files": [file_id],
            "endpoint": "/v1/chat/completions",
            "model": self.endpoint.name,
            "metadata": {TAG: tag},
            "timeout_hours": hours,
        }
        return self._state(await self.http.post(self._url("/batch/jobs"), body))

    async def get(self, batch_id: str) -> BatchState:
        return self._state(await self.http.get(self._url(f"/batch/jobs/{batch_id}")))

    async def recent(self, since: float) -> AsyncIterator[BatchState]:
        page = 0
        while True:
            query = urlencode({"page": page, "page_size": BATCHES_A_PAGE})
            found = await self.http.get(with_query(self._url("/batch/jobs"), query))
            states = [self._state(each) for each in objects(found.get("data"))]
            for state in states:
                yield state
            if len(states) < BATCHES_A_PAGE or all(
                state.created and state.created < since - CLOCKS_S for state in states
            ):
                return
            page += 1

    async def cancel(self, batch_id: str) -> None:
        await self.http.post(self._url(f"/batch/jobs/{batch_id}/cancel"), {})

    def read(self, line: Any) -> ResultLine:
        return openai_result(line)

    def _state(self, value: Any) -> BatchState:
        status = str(value.get("status") or "")
        files = (value.get(name) for name in ("output_file", "error_file"))
        problems = [str(each.get("message") or "") for each in objects(value.get("errors"))]
        created = value.get("created_at")
        return BatchState(
            created_id(value),
            status.lower(),
            status in _ENDED,
            answered=count(value.get("succeeded_requests")),
            requests=count(value.get("total_requests")),
            files=tuple(str(file) for file in files if file),
            problem="; ".join(filter(None, problems)) if status == "FAILED" else "",
            tag=str(object_at(value, "metadata").get(TAG) or ""),
            created=float(created) if isinstance(created, int | float) else 0.0,
        )
