"""A batch as a file: requests written in the form of OpenAI's batches, for vLLM's `run_batch` and other tools that read it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from verdict_cli.llm.batches.batch_api import BatchState, ResultLine
from verdict_cli.llm.batches.openai_batches import openai_line, openai_result
from verdict_cli.llm.batches.request_file import disk_errors
from verdict_cli.llm.model_families import family, is_local
from verdict_cli.llm.providers.chat_completions import RequestBodies
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.wire_protocol import WireProtocol
from verdict_cli.messages import Request
from verdict_cli.model import Model

TO_FILE = "file"
"""The name of this provider in the ledger: requests that were exported."""
_EXPORTED = "exported"


def export_problem(model: Model) -> str | None:
    """Why the model's calls cannot be written as a file; None where they can."""
    of = family(model)
    if is_local(model.name) or (of is not None and of.protocol != "chat"):
        return "a file of requests holds chat completions, which this model does not take"
    return None


class FileBatches:
    """Writes each batch to ``target``; a second one of the same wave gets a number. Nothing is sent."""

    provider = TO_FILE
    max_requests = 10**9
    max_bytes = 10**12
    has_tags = True
    uploads = False
    protocol: WireProtocol | None = None

    def __init__(self, model: Model, target: Path | None = None) -> None:
        self._name = model.name.partition("/")[2] or model.name
        self._target = target
        self._written = 0
        self._bodies = RequestBodies()

    def line(self, custom_id: str, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        body, sent = self._bodies.get(request, self._name, mode)
        return openai_line(custom_id, "/v1/chat/completions", body), sent

    async def upload(self, file: Path) -> str:
        raise NotImplementedError("a file is not uploaded")

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
        raise NotImplementedError("results of a file are imported")

    def read(self, line: Any) -> ResultLine:
        return openai_result(line)

    async def close(self) -> None:
        """There is nothing to close."""
