"""Results of promptfoo (`promptfoo eval -o out.json` or `.jsonl`, and older exports): one row a test case and prompt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.features.imports.tool_logs import (
    LogRow,
    conversation_or_text,
    known_shape,
    log_row,
    required,
    unique_names,
)
from verdict_cli.features.imports.tool_logs.json_stream import log_objects

_REFERENCES = ("equals", "similar", "factuality", "model-graded-factuality", "answer-relevance")
"""Assertions whose value is the reference answer."""


def promptfoo_results(path: Path) -> Iterator[LogRow]:
    """The results. Raises DataError for a file without `results`, and a result without a prompt."""
    for index, (place, result) in enumerate(log_objects(path, "results.results", "results")):
        with known_shape(path, place):
            prompt = required(path, place, result, "prompt", dict)
            asked, text = conversation_or_text(_parsed(required(path, f"{place}.prompt", prompt, "raw", str)))
            response = result.get("response") or {}
            output = response.get("output") if isinstance(response, dict) else response
            grading = result.get("gradingResult") or {}
            provider = result.get("provider")
            case = result.get("testCase") or {}
            components = [each for each in grading.get("componentResults") or [] if isinstance(each, dict)]
            yield log_row(
                path,
                place,
                identity=result.get("id") or f"{result.get('testIdx', index)}-{result.get('promptIdx', 0)}",
                input=text,
                output=output,
                messages=[*asked, {"role": "assistant", "content": _text(output)}]
                if asked and output is not None
                else asked,
                target=next(
                    (each.get("value") for each in _assertions(case, components) if each.get("type") in _REFERENCES),
                    None,
                ),
                scores={"pass": result.get("success"), "score": result.get("score"), **_scores(result, components)},
                model=provider.get("id") if isinstance(provider, dict) else provider,
                metadata={"vars": result.get("vars") or case.get("vars") or {}, **(case.get("metadata") or {})},
                explanations={"score": grading.get("reason")},
                error=result.get("error"),
            )


def _scores(result: dict[str, Any], components: list[dict[str, Any]]) -> dict[str, Any]:
    """The scores of named metrics, and of each assertion without a metric by its type."""
    unnamed = [each for each in components if not (each.get("assertion") or {}).get("metric")]
    kinds = unique_names([str((each.get("assertion") or {}).get("type", "assertion")) for each in unnamed])
    return {
        **dict(zip(kinds, (each.get("score") for each in unnamed), strict=True)),
        **(result.get("namedScores") or {}),
    }


def _assertions(case: dict[str, Any], components: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The assertions of a test case; before version 3 of the results, those that were graded."""
    found = case.get("assert") or [each.get("assertion") for each in components]
    return [each for each in found if isinstance(each, dict)]


def _parsed(text: str) -> Any:
    """A chat prompt is a list of messages as JSON; any other prompt is a text."""
    if not text.lstrip().startswith("["):
        return text
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
