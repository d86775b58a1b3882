"""JSON lines of OpenAI's chat form: requests, files of batches, fine-tuning examples, or logged requests with their
responses. One row a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verdict_cli.features.imports.tool_logs import LogRow, known_shape, log_row, required
from verdict_cli.features.imports.tool_logs.json_stream import log_objects
from verdict_cli.language.conversation import looks_like_conversation


def chat_lines(path: Path) -> Iterator[LogRow]:
    """The lines. Raises DataError for one without messages."""
    for index, (place, line) in enumerate(log_objects(path, "messages", "data")):
        with known_shape(path, place):
            request = next((line[key] for key in ("body", "request") if isinstance(line.get(key), dict)), line)
            response = line.get("response") or {}
            response = response.get("body", response) if isinstance(response, dict) else {}
            choices = response.get("choices") or line.get("choices") or []
            replied = (
                [choices[0]["message"]] if choices and isinstance(choices[0], dict) and "message" in choices[0] else []
            )
            messages = request.get("messages")
            if not looks_like_conversation(messages) and not (replied and messages is None):
                required(path, place, request, "messages", list)
                messages = request["messages"]
            yield log_row(
                path,
                place,
                identity=line.get("custom_id") or line.get("id") or index,
                messages=[*(messages or ()), *replied],
                scores=_scores(line.get("scores")),
                model=response.get("model") or request.get("model"),
                target=line.get("target"),
                metadata=line.get("metadata") if isinstance(line.get("metadata"), dict) else None,
            )


def _scores(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
