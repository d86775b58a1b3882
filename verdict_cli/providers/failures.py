"""A recorded failure, raised again: the error that the call met when it was made."""

from __future__ import annotations

from verdict_cli.errors import ProviderError, Rejected, ReplyError, Retryable

_PASSING = frozenset({"rate-limit", "timeout", "unavailable"})
_OF_THE_REPLY = frozenset(
    {"unreadable", "off-scale", "cut-off", "refused", "empty", "no-logprobs", "invalid"}
)


def failure_again(failure: str, message: str) -> ProviderError | ReplyError:
    """The error of a kind (``timeout``, ``cut-off`` …). One that passes asks for no waiting: nothing will be sent."""
    if failure in _PASSING:
        return Retryable(message, kind=failure, retry_after_s=0)
    if failure in _OF_THE_REPLY:
        return ReplyError(message, kind=failure)
    return Rejected(message, kind=failure)
