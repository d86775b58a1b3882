"""Park calls: write each into the request file of a wave, and give up its row until the wave is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import orjson
from msgspec.structs import replace

from verdict_cli.errors import Rejected, VerdictError
from verdict_cli.llm.batches import batch_settings
from verdict_cli.llm.batches.request_file import RequestFile, RequestKey, custom_id
from verdict_cli.llm.middleware.journal_replay import content_digest
from verdict_cli.llm.providers.json_mode import JsonMode, chosen_mode
from verdict_cli.messages import Request
from verdict_cli.model import EndpointKey, Model

if TYPE_CHECKING:
    from verdict_cli.llm.batches.batch_api import BatchApi

_CHARACTERS_A_TOKEN = 4
_IMAGE_TOKENS = 1000
_PREFIX = "wave-"
"""How the names of request files begin that are not sent yet."""


class ParkedError(VerdictError):
    """A call that waits for a batch. Its row is run again once the batch is answered."""

    kind = "parked"


def fatal_error(done: Iterable[asyncio.Task[None]], parked: list[ParkedError]) -> BaseException | None:
    """The first error of finished tasks that stops a row. Those of calls that wait for a batch are added to ``parked``."""
    errors = [error for task in done if (error := task.exception()) is not None]
    parked += [error for error in errors if isinstance(error, ParkedError)]
    return next((error for error in errors if not isinstance(error, ParkedError)), None)


class CallParker:
    """The calls of one wave, in request files by model, each within the provider's limits.

    ``in_flight`` are the custom ids of requests in batches that have not ended: they are not written again. Equal requests
    that may share a reply are written once.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Mapping[str, str],
        api_of: Callable[[Model], BatchApi],
        modes: Mapping[str, JsonMode],
        in_flight: set[int],
    ) -> None:
        self._folder, self._nodes, self._api_of, self._modes = folder, nodes, api_of, modes
        self._in_flight = in_flight
        self._known: set[int] = set()
        self._files: dict[EndpointKey, list[RequestFile]] = {}
        self._models: dict[EndpointKey, Model] = {}
        self.count = 0

    def park(self, request: Request, cache_key: bytes | None) -> NoReturn:
        """Write the request, unless it is in flight or written. Raises ParkedError; Rejected for a request that cannot be
        written as JSON, Refused for a setting that the API does not have."""
        row = request.row
        fingerprint = self._nodes.get(request.node, "")
        name = custom_id((row.key, request.node, fingerprint, request.call, request.attempt, row.item))
        number = short_id(name)
        shared = None if cache_key is None else int.from_bytes(cache_key[:8])
        if number in self._in_flight or number in self._known or shared in self._known:
            raise ParkedError("the call waits for a batch")
        model = request.model
        wanted = model.top_logprobs or request.top_logprobs if request.top_logprobs else 0
        sent_request = replace(request, stream=False, top_logprobs=wanted)
        mode = chosen_mode(model) or self._modes.get(model.name, "schema")
        try:
            line, sent = self._api_of(model).line(name, sent_request, mode)
        except TypeError as error:
            raise Rejected(f"model {model.name}: the request cannot be written as JSON: {error}") from None
        key = RequestKey(
            name,
            row.key,
            request.node,
            fingerprint,
            request.call,
            request.attempt,
            row.item,
            content_digest(request),
            "" if cache_key is None else cache_key.hex(),
            wanted,
            mode if request.json_schema is not None else "",
            sent,
            prompt_size(request),
        )
        self._file(model, len(line)).add(line, key)
        self._known.add(number)
        if shared is not None:
            self._known.add(shared)
        self.count += 1
        raise ParkedError("the call waits for a batch")

    def close(self) -> Iterator[tuple[Model, RequestFile]]:
        """The request files, on disk."""
        for key, files in self._files.items():
            for file in files:
                file.close()
                yield self._models[key], file

    def discard(self) -> None:
        """Remove what was written and not sent: the calls are parked again."""
        for files in self._files.values():
            for file in files:
                if file.path.name.startswith(_PREFIX):
                    file.discard()

    def _file(self, model: Model, size: int) -> RequestFile:
        """The file that has room for a line of this size."""
        key = model.endpoint_key
        files = self._files.setdefault(key, [])
        self._models.setdefault(key, model)
        api = self._api_of(model)
        most = min(api.max_requests, batch_settings(model).max_requests or api.max_requests)
        if not files or files[-1].count >= most or files[-1].size + size > api.max_bytes:
            if files:
                files[-1].close()
            files.append(RequestFile(self._folder / f"{_PREFIX}{len(self._files)}-{len(files)}.jsonl"))
        return files[-1]


def short_id(name: str) -> int:
    """The first 64 bits of a custom id."""
    return int(name[:16], 16)


def prompt_size(request: Request) -> int:
    """About how many tokens the request's prompt has."""
    characters = sum(len(message.content) for message in request.messages)
    if request.json_schema is not None:
        characters += len(orjson.dumps(cast("dict[str, object]", request.json_schema), default=str))
    images = sum(len(message.images) for message in request.messages)
    return characters // _CHARACTERS_A_TOKEN + _IMAGE_TOKENS * images
