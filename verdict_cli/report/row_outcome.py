"""One row's outcome as text: its output, and with `--explain` every call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from verdict_cli.messages import Call, NamedValues
from verdict_cli.plural import plural
from verdict_cli.report.formatting import money, visible_text

_BRIEF = 72


def brief(output: NamedValues) -> str:
    """`score=4 explanation="The answer…"`, each value cut to a few words."""
    return " ".join(f"{name}={_short(value)}" for name, value in output.items())


def fields(output: NamedValues, indent: str = "") -> list[str]:
    """A line for each field, with the other lines of a long text below."""
    lines = []
    width = max((len(str(name)) for name in output), default=0)
    for name, value in output.items():
        first, *more = (value if isinstance(value, str) else _json(value)).splitlines() or [""]
        lines.append(f"{indent}{name!s:{width}}  {first}".rstrip())
        lines += [f"{indent}{'':{width}}  {line}".rstrip() for line in more]
    return lines


def explained(calls: Sequence[Call]) -> list[str]:
    """Every call: its unit, messages, reply, tokens, cost and time."""
    lines = []
    for call in calls:
        request, reply = call.request, call.reply
        entry = f" · entry {request.row.item}" if request.row.item else ""
        lines.append(
            f"── {request.node}{entry} · call {request.call} · attempt {request.attempt} · {request.model.name}"
        )
        for message in request.messages:
            lines += _quoted(message.role, message.content)
        if reply is not None:
            lines += _quoted("reply", reply.text)
        if call.error:
            lines += _quoted(f"failed ({call.failure})", call.error)
        lines += [_usage(call), ""]
    return lines


def last_line(status: str, calls: Iterable[Call], cost_usd: float | None, seconds: float) -> str:
    """`ok · 3 calls · $0.0004 · 0.8 s`."""
    count = sum(1 for _ in calls)
    return f"{status} · {plural(count, 'call')} · {money(cost_usd)} · {seconds:.2f} s"


def _usage(call: Call) -> str:
    reply = call.reply
    if reply is None:
        return f"   no reply · {call.latency_s:.2f} s"
    usage = reply.usage
    cached = " · from the cache" if reply.cached else ""
    return (
        f"   {usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens · {money(reply.cost_usd)} · "
        f"{call.latency_s:.2f} s · {reply.finish_reason}{cached}"
    )


def _quoted(speaker: str, text: str) -> list[str]:
    return [f"   {speaker}:", *(f"   │ {line}" for line in text.splitlines() or [""])]


def _short(value: Any) -> str:
    return visible_text(_json(value), _BRIEF)


def _json(value: Any) -> str:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
