"""Answers from a recording, never from a model."""

from __future__ import annotations

from difflib import get_close_matches

from verdict_cli.errors import DataError, Rejected
from verdict_cli.llm.providers.http_errors import failure_again
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.messages import Reply, Request

PREFIX = "replay/"
_NO_REPLY = frozenset({"refused", "content-filter"})
"""Failures whose recorded text is not the model's answer, whatever stands in it."""


class ReplayProvider:
    """Answers each call with what was recorded for it, free of charge.

    A call that failed when it was recorded fails again in the same way, so that a replayed run takes the same path.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    async def ask(self, request: Request) -> Reply:
        try:
            found = self._recording.find(request)
        except DataError as problem:
            raise Rejected(problem.message) from None
        if found is None:
            raise _not_recorded(request, self._recording)
        reply = Reply(
            found.text or "",
            finish_reason=found.finish_reason,
            logprobs=found.logprobs,
            usage=found.usage,
            cost_usd=0.0,
            model=found.model or request.model.name,
        )
        if found.text is None or found.failure in _NO_REPLY or (found.failure and not found.text.strip()):
            message = found.error or f"the recorded call failed: {found.failure}"
            raise failure_again(found.failure, message, None if found.text is None else reply)
        return reply

    async def close(self) -> None:
        self._recording.close()


def _not_recorded(request: Request, recording: Recording) -> Rejected:
    row = request.row
    message = (
        f"the recording has no reply for unit {request.node}, row {row.index} (id {row.id!r}), "
        f"call {request.call}, attempt {request.attempt}"
    )
    units = recording.units()
    hint = ""
    if request.node not in units:
        near = get_close_matches(request.node, units, n=1)
        hint = f"it has calls of {near[0]}" if near else f"it has calls of {', '.join(units[:8]) or 'no unit'}"
    elif before := recording.attempts(request):
        hint = f"its {before} earlier attempt{'s' if before > 1 else ''} brought nothing that could be used"
    return Rejected(message, hint=hint, kind="not-recorded")
