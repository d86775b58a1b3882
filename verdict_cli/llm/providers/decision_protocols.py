"""How decision models are asked: OpenAI's Decisions API, and System One. `decision_answers` reads what both answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from msgspec.structs import replace

from verdict_cli.errors import Refused, Rejected
from verdict_cli.language.fields.types import image_url
from verdict_cli.llm.model_families import DecisionLimits, family
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.openai_responses import input_message
from verdict_cli.llm.providers.wire_protocol import (
    Envelope,
    WireProtocol,
    bearer,
    data_url,
)
from verdict_cli.llm.providers.wire_values import object_at
from verdict_cli.messages import JsonObject, Message, Option, Question, Request
from verdict_cli.model import Model

_ABSENT = ("temperature", "top_p", "seed", "stop", "max_tokens", "reasoning_effort")
_IMAGES_HEADER = "typesafe-danger-zone-images"
_MOST_JSON_BYTES = 256 * 1024
_MOST_JSON_VALUES = 10_000
_MOST_JSON_LEVELS = 32
"""OpenAI takes a larger object as text only."""


def question_name(number: int) -> str:
    """The name of a question on the wire, by its number from 0. Some servers show it to the model, so it says nothing."""
    return f"q{number + 1}"


def decision_limits(model: Model) -> DecisionLimits:
    """What one request to the model may have."""
    entry = family(model)
    return DecisionLimits() if entry is None else entry.limits


def takes_images(model: Model) -> bool:
    """Whether the model's server takes images in a form that is known."""
    limits = decision_limits(model)
    return bool(limits.images) or (limits.images is None and _has_images_header(model))


def _has_images_header(model: Model) -> bool:
    headers = model.params.get("extra_headers")
    return isinstance(headers, Mapping) and _IMAGES_HEADER in map(str.lower, map(str, headers))


def absent_settings(model: Model) -> list[str]:
    """The model's settings that no decision model takes."""
    settings = model.sampling()
    absent = [key for key in _ABSENT if key in settings]
    absent += ["structured"] if model.structured != "auto" else []
    return absent + (["top_logprobs"] if model.top_logprobs is not None else [])


def _extras(model: Model) -> JsonObject:
    """The other fields of a body. Raises Refused for a setting that no decision model takes."""
    absent = absent_settings(model)
    if absent:
        raise Refused(
            f"model {model.name} takes no {absent[0]}", hint=f"remove `{absent[0]}` from the model"
        )
    settings = model.sampling()
    settings.pop("extra_headers", None)
    settings.pop("api_version", None)
    return settings | (settings.pop("extra_body", None) or {})


def _settings(request: Request, name: str, _: JsonMode) -> JsonObject:
    return {"model": name} | _extras(request.model)


def _decisions_content(request: Request) -> JsonObject:
    pairs = enumerate(request.questions)
    questions = [_openai_question(number, question) for number, question in pairs]
    state = [input_message(message) for message in request.messages[1:]]
    fields = request.messages[1].content if request.has_fields else ""
    if fields and _is_small(fields):
        images = [part for part in state[0]["content"] if part["type"] == "input_image"]
        data = {"type": "input_json", "data": orjson.Fragment(fields)}
        state[0]["content"] = [data, *images]
    return {"input": state, "questions": questions}


def _is_small(text: str) -> bool:
    brackets = text.count("{") + text.count("[")
    if len(text.encode()) > _MOST_JSON_BYTES or text.count(",") + brackets >= _MOST_JSON_VALUES:
        return False
    return brackets <= _MOST_JSON_LEVELS or _levels(orjson.loads(text)) <= _MOST_JSON_LEVELS


def _levels(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_levels, inner), default=0)


def _openai_question(number: int, question: Question) -> JsonObject:
    kind, instructions = question.kind, question.instructions
    more: JsonObject = {}
    if kind == "predicate":
        meanings = [f"{truth}: {text}" for truth, text in _meanings(question.options).items()]
        instructions = "\n".join([instructions, *meanings])
    elif kind == "score":
        more = {"levels": [_described("label", option) for option in question.options]}
    else:
        more = {"choices": [_described("value", option) for option in question.options]}
    return {"type": kind, "name": question_name(number), "instructions": instructions, **more}


def _meanings(options: Sequence[Option]) -> dict[str, str]:
    """What true and false mean, as far as it is said."""
    pairs = zip(("true", "false"), options, strict=True)
    return {truth: option.description for truth, option in pairs if option.description}


def _described(key: str, option: Option) -> dict[str, str]:
    described = {"description": option.description} if option.description else {}
    return {key: option.label, **described}


def _system_one_settings(request: Request, name: str, mode: JsonMode) -> JsonObject:
    settings = _settings(request, name, mode)
    if request.model.name.startswith("cloudflare/"):
        del settings["model"]
    return settings


def _system_one_content(request: Request) -> JsonObject:
    state, urls = _state(request)
    pairs = enumerate(request.questions)
    questions = {
        question_name(number): _system_one_question(question) for number, question in pairs
    }
    images = _images(urls, request.model) if urls else {}
    return {"state": state, "questions": questions, **images}


def _system_one_question(question: Question) -> JsonObject:
    asked = {"type": question.kind, "instructions": question.instructions}
    if question.kind == "predicate":
        meanings = _meanings(question.options)
        return asked | {"type": "noul"} | ({"criteria": meanings} if meanings else {})
    if question.kind == "score":
        pairs = [(option.label, option.description) for option in question.options]
        return {**asked, "criteria": [": ".join(filter(None, pair)) for pair in pairs]}
    options = {option.label: option.description or None for option in question.options}
    return {**asked, "criteria": options}


def _state(request: Request) -> tuple[Any, list[str]]:
    """The state, and the images that its text names in order."""
    urls: list[str] = []
    messages = request.messages[1:]
    texts = [_with_image_names(message, urls) for message in messages]
    if request.has_fields:
        return orjson.Fragment(messages[0].content), urls
    if len(texts) == 1:
        return texts[0], urls
    roles = [message.role for message in messages]
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)], urls


def _with_image_names(message: Message, urls: list[str]) -> str:
    text, start = "", 0
    for position, url in message.images:
        urls.append(url)
        text += f"{message.content[start:position]}[image {len(urls)}]"
        start = position
    return text + message.content[start:]


def _images(urls: Sequence[str], model: Model) -> JsonObject:
    """The images as the server takes them. Raises Rejected where it takes no such ones."""
    limits = decision_limits(model)
    if limits.images is not None and len(urls) > limits.images:
        raise Rejected(
            f"model {model.name} takes {limits.images} images a request, and the row has {len(urls)}"
        )
    whole = [image_url(url) for url in urls]
    read = [data_url(url) for url in whole]
    if None in read and not (limits.takes_image_urls and limits.images is not None):
        raise Rejected(
            f"model {model.name} takes images as data, not by their address",
            hint="give their files",
        )
    if not _has_images_header(model):
        return {"images": whole}
    assets = {}
    for number, (kind, data) in enumerate(filter(None, read), 1):
        form = "jpg" if kind.endswith(("jpeg", "jpg")) else kind.rpartition("/")[2]
        assets[f"[image {number}]"] = {"type": "image", "format": form, "data_base64": data}
    return {"assets": assets}


def _unwrapped(value: Envelope) -> JsonObject:
    """The body without a gateway's envelope: Cloudflare's `result`, Databricks' `response`."""
    for key in ("result", "response"):
        inner = object_at(value, key)
        if "answers" in inner and "answers" not in value:
            return {"usage": value.get("usage"), "model": value.get("model"), **inner}
    return dict(value)


def _no_stream(_: Iterable[Envelope]) -> JsonObject:
    raise ValueError("a decision model streams nothing")


OPENAI_DECISIONS = WireProtocol(
    name="decisions",
    version="",
    path=lambda _name, _stream: "/decisions",
    headers=bearer,
    settings=_settings,
    content=_decisions_content,
    to_chat=_unwrapped,
    assemble=_no_stream,
    text_of=lambda _: "",
)
SYSTEM_ONE = replace(
    OPENAI_DECISIONS,
    name="systemone",
    path=lambda _name, _stream: "/systemone",
    settings=_system_one_settings,
    content=_system_one_content,
)
