"""A recorded failure, raised again: the error that the call met when it was made."""

from __future__ import annotations

from verdict_cli.errors import ProviderError, Rejected, ReplyError, Retryable
from verdict_cli.values import Reply

_PASSING = frozenset({"rate-limit", "timeout", "unavailable"})
_OF_THE_REPLY = frozenset(
    {"unreadable", "off-scale", "cut-off", "refused", "empty", "no-logprobs", "invalid"}
)


def failure_again(failure: str, message: str, reply: Reply | None = None) -> ProviderError | ReplyError:
    """The error of a kind (``timeout``, ``cut-off`` …). One that passes asks for no waiting: nothing will be sent.

    ``reply`` is what was paid for all the same.
    """
    if failure in _PASSING:
        passing = Retryable(message, kind=failure, retry_after_s=0)
        passing.reply = reply
        return passing
    if failure in _OF_THE_REPLY:
        return ReplyError(message, kind=failure, reply=reply)
    return Rejected(message, kind=failure, reply=reply)
