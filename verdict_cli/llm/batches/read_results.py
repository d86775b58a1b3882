"""Read the results of a batch as ordinary replies and errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import orjson
from msgspec import Struct

from verdict_cli.errors import ProviderError, Refused, Rejected, ReplyError, Retryable
from verdict_cli.llm.batches.batch_api import BatchApi, ResultLine
from verdict_cli.llm.batches.request_file import RequestKey
from verdict_cli.llm.middleware.require_logprobs import missing_logprobs
from verdict_cli.llm.providers.chat_completions import read_envelope
from verdict_cli.llm.providers.http_errors import Source, response_error
from verdict_cli.llm.providers.json_mode import JsonMode, lesser_mode
from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.llm.providers.secrets import may_contain, redact
from verdict_cli.llm.providers.usage import read_usage
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import Reply, Request, Row
from verdict_cli.model import Model
from verdict_cli.storage.journal.entry import JournalEntry

TIER = "batch"
"""The service tier by which replies of batches are priced."""


class Outcome(Struct, frozen=True):
    """One request's entry for the journal (None: the run stops, ``refusal`` says why), its reply if it was answered, what it
    would have cost as an ordinary call, and the form of JSON requests to use from now on ("": as before)."""

    entry: JournalEntry | None
    reply: Reply | None = None
    ordinary_usd: float | None = None
    refusal: Refused | None = None
    mode: JsonMode | None = None
    rejection: str = ""


def read_result(result: ResultLine, key: RequestKey, model: Model, api: BatchApi) -> Outcome:
    """The outcome of a request, read by what reads ordinary replies and errors."""
    request = Request(
        Row(-1, "", {}, key.row), key.node, model, (), key.call, key.attempt, top_logprobs=key.top_logprobs
    )
    ordinary = None
    try:
        if result.unpaid:
            raise unanswered(model, result.unpaid)
        if not 200 <= result.status < 300:
            raise _error(result, model, api.provider)
        envelope: Any = result.body
        if api.protocol is not None and isinstance(envelope, dict):
            envelope = api.protocol.to_chat(envelope)
        if isinstance(envelope, dict):
            envelope = {**envelope, "service_tier": TIER}
            ordinary = cost_usd(model, read_usage(envelope.get("usage")), served=str(envelope.get("model") or ""))
        reply = read_envelope(envelope, request, 0.0, key.sent, Source(f"{api.provider}'s batch"))
        if key.top_logprobs and not reply.logprobs:
            raise missing_logprobs(request, reply)
    except Refused as refused:
        return Outcome(None, refused.reply, ordinary, refused)
    except (ProviderError, ReplyError) as error:
        mode = None
        if isinstance(error, Rejected) and key.mode and model.structured == "auto":
            mode = lesser_mode(cast("JsonMode", key.mode), error)
            if mode is not None:
                error = Retryable(error.message, kind="unavailable", status=error.status)
        entry = failed_entry(key, error)
        rejected = isinstance(error, Rejected) and error.failure == "rejected"
        return Outcome(entry, error.reply, ordinary, mode=mode, rejection=error.message if rejected else "")
    return Outcome(_entry(key, reply), reply, ordinary)


def unanswered(model: Model, why: str) -> Retryable:
    """The error of a request that a batch did not answer."""
    return Retryable(f"model {model.name}: the batch did not answer this request: {why}", kind="timeout")


def failed_entry(key: RequestKey, error: ProviderError | ReplyError) -> JournalEntry:
    """The journal's entry of a request that failed."""
    retryable = isinstance(error, Retryable)
    return _entry(key, error.reply, error.failure, error.message, retryable=retryable)


def _entry(
    key: RequestKey, reply: Reply | None, failure: str = "", error: str = "", *, retryable: bool = False
) -> JournalEntry:
    return JournalEntry(
        key.row,
        key.node,
        key.call,
        key.attempt,
        reply,
        failure,
        error,
        retryable,
        fingerprint=key.fingerprint,
        item=key.item,
        content=key.content,
    )


def _error(result: ResultLine, model: Model, provider: str) -> ProviderError:
    body = orjson.dumps(result.body, default=str)
    return response_error(result.status, body, model.name, Source(f"{provider}'s batch"))


def result_lines(path: Path, api: BatchApi, secrets: tuple[str, ...]) -> Iterator[ResultLine]:
    """The outcomes in a file of results, without secrets that the server repeated. Lines that cannot be read are left out:
    their requests count as unanswered."""
    with path.open("rb") as file:
        for line in file:
            if not line.strip():
                continue
            try:
                value = loads(line)
                yield api.read(redact(value, secrets) if may_contain(line, secrets) else value)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
