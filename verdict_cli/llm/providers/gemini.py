"""Google's Gemini API (`models/NAME:generateContent`), as pure functions: request → body, body → chat completion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

from verdict_cli.errors import Refused
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.wire_protocol import (
    TOOL,
    Envelope,
    WireProtocol,
    chat_completion,
    content_parts,
    count,
    data_url,
    joined,
    own_arguments,
    split_system,
    texts_of,
    with_settings,
)
from verdict_cli.llm.providers.wire_values import object_at, objects
from verdict_cli.messages import JsonObject, NamedValues, Request

_CONFIG = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_THINKING_TOKENS = {"none": 0, "minimal": 0, "low": 1024, "medium": 4096, "high": 16384}
"""Thinking budgets for `reasoning_effort` of the 2.x models; later ones take the level itself."""
_FEWEST_THINKING_PRO = 128
"""The 2.5 Pro models cannot stop thinking; this is the least budget they take."""
_MOST_LOGPROBS = 19
"""The most alternatives that the API gives at a position."""


def _content(request: Request) -> JsonObject:
    system, turns = split_system(request.messages)
    contents = []
    for turn in turns:
        role = "model" if turn.role == "assistant" else "user"
        contents.append({"role": role, "parts": content_parts(turn, _text, _image)})
    prompt = {"systemInstruction": {"parts": [_text(system)]}} if system else {}
    return {**prompt, "contents": contents}


def _settings(request: Request, name: str, mode: JsonMode) -> JsonObject:
    settings = request.model.sampling()
    body: JsonObject = {}
    config = {theirs: settings.pop(ours) for ours, theirs in _CONFIG.items() if ours in settings}
    if "stop" in settings:
        config["stopSequences"] = texts_of(settings.pop("stop"))
    effort = settings.pop("reasoning_effort", None)
    if effort is not None:
        config["thinkingConfig"] = _thinking(str(effort), name, request.model.name)
    if request.top_logprobs:
        config |= {"responseLogprobs": True, "logprobs": min(request.top_logprobs, _MOST_LOGPROBS)}
    schema = request.json_schema
    if schema is not None:
        if mode == "schema":
            config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
        elif mode == "tool":
            function = {
                "name": TOOL,
                "description": "Gives the reply.",
                "parametersJsonSchema": schema,
            }
            body["tools"] = [{"functionDeclarations": [function]}]
            body["toolConfig"] = {
                "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [TOOL]}
            }
        elif mode == "json":
            config["responseMimeType"] = "application/json"
    if config:
        body["generationConfig"] = config
    if "safety_settings" in settings:
        body["safetySettings"] = settings.pop("safety_settings")
    return with_settings(body, settings)


def _thinking(effort: str, name: str, model: str) -> JsonObject:
    if effort not in _THINKING_TOKENS:
        raise Refused(
            f"model {model}: unknown reasoning_effort {effort!r}",
            hint="use none, low, medium or high",
        )
    if not name.startswith("gemini-2"):
        return {"thinkingLevel": "low" if effort in ("none", "minimal") else effort}
    budget = _THINKING_TOKENS[effort]
    return {"thinkingBudget": max(budget, _FEWEST_THINKING_PRO) if "pro" in name else budget}


def _text(text: str) -> JsonObject:
    return {"text": text}


def _image(url: str) -> JsonObject:
    embedded = data_url(url)
    if embedded is None:
        return {"fileData": {"fileUri": url}}
    kind, data = embedded
    return {"inlineData": {"mimeType": kind, "data": data}}


def _to_chat(envelope: Envelope) -> JsonObject:
    usage = _usage(envelope.get("usageMetadata"))
    candidates = objects(envelope.get("candidates"))
    model = str(envelope.get("modelVersion") or "")
    if not candidates:
        blocked = object_at(envelope, "promptFeedback").get("blockReason")
        if blocked:
            return chat_completion("", "content_filter", usage, model=model)
        return {"error": envelope.get("error") or "no candidates", "usage": usage}
    candidate = candidates[0]
    parts = objects(object_at(candidate, "content").get("parts"))
    calls = [object_at(part, "functionCall") for part in parts]
    reason = str(candidate.get("finishReason") or "")
    if reason in ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"):
        return {"error": f"the model's function call is malformed ({reason})", "usage": usage}
    return chat_completion(
        _spoken(parts),
        reason.lower(),
        usage,
        model=model,
        arguments=own_arguments(calls, "args"),
        logprobs=_logprobs(candidate.get("logprobsResult")),
        extra={"reasoning": joined(part for part in parts if part.get("thought"))},
    )


def _usage(usage: Any) -> JsonObject | None:
    """OpenAI's form: thoughts are charged as output."""
    if not isinstance(usage, Mapping) or "promptTokenCount" not in usage:
        return None
    thoughts = count(usage.get("thoughtsTokenCount"))
    return {
        "prompt_tokens": count(usage.get("promptTokenCount"))
        + count(usage.get("toolUsePromptTokenCount")),
        "completion_tokens": count(usage.get("candidatesTokenCount")) + thoughts,
        "total_tokens": count(usage.get("totalTokenCount")),
        "prompt_tokens_details": {"cached_tokens": count(usage.get("cachedContentTokenCount"))},
        "completion_tokens_details": {"reasoning_tokens": thoughts},
    }


def _logprobs(result: Any) -> list[JsonObject] | None:
    if not isinstance(result, Mapping):
        return None
    chosen = objects(result.get("chosenCandidates"))
    top_candidates = objects(result.get("topCandidates"))[: len(chosen)]
    positions = []
    none: NamedValues = {}
    for token, top in zip_longest(chosen, top_candidates, fillvalue=none):
        listed = [*map(_alternative, objects(top.get("candidates")))]
        positions.append({**_alternative(token), "top_logprobs": listed})
    return positions


def _alternative(token: NamedValues) -> JsonObject:
    return {"token": token.get("token", ""), "logprob": token.get("logProbability", 0.0)}


def _assemble(stream: Iterable[Envelope]) -> JsonObject:
    whole: JsonObject = {}
    parts: list[Any] = []
    candidate: JsonObject = {}
    for event in stream:
        if event.get("error"):
            return dict(event)
        whole |= {key: value for key, value in event.items() if key != "candidates"}
        for first in objects(event.get("candidates"))[:1]:
            parts += objects(object_at(first, "content").get("parts"))
            candidate |= first
    if "finishReason" not in candidate and "promptFeedback" not in whole:
        raise ValueError("the stream ended before the reply did")
    if candidate:
        whole["candidates"] = [{**candidate, "content": {"role": "model", "parts": parts}}]
    return whole


def _text_of(event: Envelope) -> str:
    first = objects(event.get("candidates"))[:1]
    return _spoken(objects(object_at(first[0], "content").get("parts"))) if first else ""


def _spoken(parts: Iterable[NamedValues]) -> str:
    """The text without the thoughts."""
    return joined(part for part in parts if not part.get("thought"))


def _path(name: str, stream: bool) -> str:
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/models/{quote(name, safe='')}:{method}"


GEMINI = WireProtocol(
    name="gemini",
    version="/v1beta",
    path=_path,
    headers=lambda key: {"x-goog-api-key": key} if key else {},
    settings=_settings,
    content=_content,
    to_chat=_to_chat,
    assemble=_assemble,
    text_of=_text_of,
)
