"""Traces of Langfuse (exports, and pages of its public API): one row a trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.features.imports.tool_logs import LogRow, conversation_or_text, known_shape, log_row, required
from verdict_cli.features.imports.tool_logs.json_stream import log_objects
from verdict_cli.language.conversation import looks_like_conversation


def langfuse_traces(path: Path) -> Iterator[LogRow]:
    """The traces. Raises DataError for a file that has none, and a trace without an id."""
    for place, trace in log_objects(path, "data", "traces"):
        with known_shape(path, place):
            asked, text = _conversation(trace.get("input"))
            replied, output = _conversation(trace.get("output"))
            scores = trace.get("scores") or {}
            generations = [
                each for each in trace.get("observations") or [] if isinstance(each, dict) and each.get("model")
            ]
            if asked is not None and replied is None and output is not None:
                replied = [
                    {
                        "role": "assistant",
                        "content": output if isinstance(output, str) else orjson.dumps(output).decode(),
                    }
                ]
            yield log_row(
                path,
                place,
                identity=required(path, place, trace, "id", str),
                input=text,
                output=output,
                messages=[*asked, *(replied or ())] if asked is not None else replied,
                target=trace.get("expectedOutput"),
                scores=_scores(scores),
                model=trace.get("model") or (generations[-1]["model"] if generations else None),
                metadata={
                    **_mapping(trace.get("metadata")),
                    **{key: trace[key] for key in ("name", "sessionId", "userId", "tags") if trace.get(key)},
                },
                trace_id=trace["id"],
            )


def _conversation(value: Any) -> tuple[Any, Any]:
    """(messages, anything else) of an input or output, which may be JSON as a text, a message, or `{"messages": […]}`."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None, value
    if isinstance(value, dict) and looks_like_conversation(value.get("messages")):
        return value["messages"], None
    if looks_like_conversation([value]):
        return [value], None
    return conversation_or_text(value)


def _scores(scores: Any) -> dict[str, Any]:
    """The scores by name: a list of score objects in the API, `{name: [values]}` or `{name: value}` in exports."""
    if isinstance(scores, dict):
        return {name: value[-1] if isinstance(value, list) and value else value for name, value in scores.items()}
    return {
        str(each.get("name")): each["stringValue"] if each.get("value") is None else each["value"]
        for each in scores
        if isinstance(each, dict) and (each.get("value") is not None or each.get("stringValue") is not None)
    }


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {} if value is None else {"metadata": value}
