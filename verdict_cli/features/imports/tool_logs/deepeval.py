"""Test runs of DeepEval (`DEEPEVAL_RESULTS_FOLDER`, or `.deepeval/.latest_test_run.json`): one row a test case."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verdict_cli.features.imports.tool_logs import LogRow, known_shape, log_row, not_in_format, required, unique_names
from verdict_cli.features.imports.tool_logs.json_stream import items_at, lists_at


def deepeval_cases(path: Path) -> Iterator[LogRow]:
    """The test cases, then the conversational ones. Raises DataError for a file with neither, and a case without input."""
    heads = ("", "testRunData.")
    found = lists_at(path, [head + kind for head in heads for kind in ("testCases", "conversationalTestCases")])
    if not found:
        raise not_in_format(
            path, "not a test run of DeepEval: it has no `testCases`", "set DEEPEVAL_RESULTS_FOLDER to get one"
        )
    for place in found:
        for index, case in items_at(path, place):
            with known_shape(path, f"{place}[{index}]"):
                yield _row(path, f"{place}[{index}]", case)


def _row(path: Path, place: str, case: Any) -> LogRow:
    required(path, place, {place: case}, place, dict)
    identity = required(path, place, case, "name", str)
    metrics = [each for each in case.get("metricsData") or [] if isinstance(each, dict)]
    names = unique_names([str(each.get("name")) for each in metrics])
    turns = _messages(path, place, case)
    return log_row(
        path,
        place,
        identity=identity,
        input=case.get("scenario") if turns is not None else required(path, place, case, "input", str),
        output=case.get("actualOutput"),
        messages=turns,
        target=case.get("expectedOutput") or case.get("expectedOutcome"),
        scores={
            "pass": case.get("success"),
            **{name: each.get("score") for name, each in zip(names, metrics, strict=True)},
        },
        metadata=case.get("metadata") or case.get("additionalMetadata"),
        explanations={name: each.get("reason") for name, each in zip(names, metrics, strict=True)},
        context=case.get("context"),
        retrieval_context=case.get("retrievalContext"),
        tools_called=case.get("toolsCalled"),
        expected_tools=case.get("expectedTools"),
    )


def _messages(path: Path, place: str, case: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The messages of a conversational test case; None for another one. Before DeepEval 3, each of its turns was a test
    case with an input and an output."""
    if "turns" in case:
        turns = enumerate(required(path, place, case, "turns", list))
        return [_turn(path, f"{place}.turns[{at}]", turn) for at, turn in turns]
    if "testCases" not in case:
        return None
    messages = []
    for at, inner in enumerate(required(path, place, case, "testCases", list)):
        inside = f"{place}.testCases[{at}]"
        output = required(path, inside, inner, "actualOutput", str)
        messages.append({"role": "user", "content": required(path, inside, inner, "input", str)})
        messages.append({"role": "assistant", "content": output, **_tool_calls(path, inside, inner)})
    return messages


def _turn(path: Path, place: str, turn: Any) -> dict[str, Any]:
    role, content = required(path, place, turn, "role", str), required(path, place, turn, "content", str)
    return {"role": role, "content": content, **_tool_calls(path, place, turn)}


def _tool_calls(path: Path, place: str, turn: dict[str, Any]) -> dict[str, Any]:
    calls = [
        {"name": required(path, place, call, "name", str), "arguments": call.get("inputParameters") or {}}
        for call in turn.get("toolsCalled") or []
    ]
    return {"tool_calls": calls} if calls else {}
