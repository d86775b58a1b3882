"""What a provider's batch interface does, whichever provider it is."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from verdict_cli.errors import Refused
from verdict_cli.llm.batches.batch_http import BatchHttp
from verdict_cli.llm.model_families import AZURE, family
from verdict_cli.llm.providers.chat_completions import RequestBodies
from verdict_cli.llm.providers.endpoint import Endpoint, endpoint
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.protocols import protocol_of
from verdict_cli.llm.providers.secrets import model_secrets
from verdict_cli.llm.providers.wire_protocol import ProtocolBodies, WireProtocol
from verdict_cli.messages import Request
from verdict_cli.model import Model

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


class BatchApi(Protocol):
    """A model's batch interface. Methods raise ProviderError."""

    provider: str
    max_requests: int
    max_bytes: int
    has_tags: bool
    """Whether the provider keeps the metadata of a batch, by which it is found again."""
    uploads: bool
    """Whether the request file is uploaded before the batch is created."""
    protocol: WireProtocol | None

    def line(self, custom_id: str, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        """The request's line in the request file, and its parameters as JSON."""
        ...

    async def upload(self, file: Path) -> str:
        """The id of the uploaded request file; "" where the file is sent with the batch."""
        ...

    async def create(self, file_id: str, file: Path, tag: str) -> BatchState:
        """The batch of a request file that was uploaded."""
        ...

    async def get(self, batch_id: str) -> BatchState: ...

    def recent(self, since: float) -> AsyncIterator[BatchState]:
        """The batches that were created since a time, in seconds since the epoch, the latest first."""
        ...

    async def cancel(self, batch_id: str) -> None: ...

    async def results(self, state: BatchState, to: Path) -> None:
        """Write the result lines of an ended batch to a file."""
        ...

    def read(self, line: Any) -> ResultLine:
        """The outcome in a decoded line. Raises ValueError for a line that is not one."""
        ...

    async def close(self) -> None: ...


class HttpBatchApi:
    """What the adapters share: the model's address, key and bodies."""

    provider = ""
    max_requests = 50_000
    max_bytes = 200_000_000
    has_tags = True
    uploads = True

    def __init__(self, model: Model) -> None:
        of = family(model)
        if of is None:
            raise Refused(f"model {model.name} has no batch interface")
        self.model = model
        self.endpoint: Endpoint = endpoint(model, of, os.environ)
        self.protocol = protocol_of(of)
        key = self.endpoint.key or ""
        if self.protocol is not None:
            headers = dict(self.protocol.headers(key))
        elif of is AZURE:
            headers = {"api-key": key} if key else {}
        else:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
        extra = model.params.get("extra_headers") or {}
        self.http = BatchHttp(
            model.name,
            {**headers, **{str(name): str(value) for name, value in extra.items()}},
            model_secrets(model, os.environ),
        )
        self._bodies = RequestBodies()
        self._protocol_bodies = ProtocolBodies()

    def body(self, request: Request, mode: JsonMode) -> tuple[bytes, str]:
        """The body that an ordinary call sends, and its parameters as JSON."""
        if self.protocol is None:
            return self._bodies.get(request, self.endpoint.name, mode)
        return self._protocol_bodies.get(request, self.protocol, self.endpoint.name, mode)

    async def results(self, state: BatchState, to: Path) -> None:
        """Write the files of results to one."""
        for file in state.files:
            await self.http.download(self.result_url(file), to)

    def result_url(self, file: str) -> str:
        """Where a file of results is."""
        return self._url(f"/files/{file}/content")

    def _url(self, path: str) -> str:
        """The URL of a path beside that of ordinary calls."""
        return sibling_url(self.endpoint.url, "/chat/completions", path)

    async def close(self) -> None:
        await self.http.close()


def seconds_of(text: Any) -> float:
    """The seconds since the epoch of a date and time, 0 for anything else."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0


def sibling_url(url: str, tail: str, path: str) -> str:
    """The URL with ``path`` in place of what its path ends with; the query stays."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.removesuffix(tail) + path))
